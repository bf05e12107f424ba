"""What reading data of your own has in common, whatever its form: where it is, its classes, its test part."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from bench.data.files.download import note
from bench.types import DataError, SpecError, Split, Task

MOST_CLASSES = 1000


def own_path(path: str, root: Path | None) -> Path:
    """The file or folder that the option ``path`` names, below ``root`` if given; raises if it is not there."""
    if not isinstance(path, str) or not path:
        raise SpecError(f"path = {path!r}: expected where your data are, e.g. path = 'my_hospitals'")
    place = (root or Path()) / Path(path).expanduser()
    if not place.exists():
        raise DataError(f"path = {path!r}: there is no {place.absolute()}")
    return note(place)


def check_split(test_fraction: float, split_seed: int) -> None:
    """Refuse options by which no data can be split."""
    if not isinstance(test_fraction, float) or not 0 < test_fraction < 1:
        raise SpecError(f"test_fraction = {test_fraction!r}: expected a share between 0 and 1")
    if not isinstance(split_seed, int) or isinstance(split_seed, bool) or not 0 <= split_seed < 2**32:
        raise SpecError(f"split_seed = {split_seed!r}: expected a whole number from 0")


def hold_out(y: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test indices of a site with classes ``y`` (n,), both ascending and neither empty, for n > 1.

    The test part is the ``fraction``, rounded up, stratified by class; classes with a single sample count as the
    commonest one. Where a part has fewer samples than there are classes it is not stratified.
    """
    counts = np.bincount(y)
    strata = np.where(counts[y] < 2, counts.argmax(), y)
    size = min(math.ceil(fraction * len(y)), len(y) - 1)
    stratify = strata if len(np.unique(strata)) <= min(size, len(y) - size) else None
    train, test = train_test_split(np.arange(len(y)), test_size=size, random_state=seed, stratify=stratify)
    return np.sort(train), np.sort(test)


def require_samples(name: str, site: str, samples: int) -> None:
    """Refuse a site that cannot be cut into a training and a test part."""
    if samples < 2:
        raise DataError(f"{name}: site {site!r} has {samples} sample(s), expected at least 2; leave it out")


def require_classes(name: str, classes: Sequence[Hashable]) -> Task:
    """The task that these classes of all sites make; refuses a single one."""
    if len(classes) < 2:
        raise DataError(
            f"{name}: all samples are of class {', '.join(map(repr, classes))}, expected at least 2 classes"
        )
    if len(classes) > MOST_CLASSES:
        raise DataError(f"{name}: {len(classes)} classes, at most {MOST_CLASSES} are read; is it the right target?")
    return "binary" if len(classes) == 2 else "multiclass"


def split(x: np.ndarray, y: np.ndarray, task: Task) -> Split:
    """Inputs (n, ...) and class numbers (n,) as tensors in the form of the task."""
    targets = torch.from_numpy(y.astype(np.int64))
    return Split(torch.from_numpy(x), targets.float()[:, None] if task == "binary" else targets)
