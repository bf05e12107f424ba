"""Helpers for reading users' own data: path, classes and test part."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from bench.data.files.locate import track
from bench.files import expanded
from bench.limits import MAX_CLASSES
from bench.types import DataError, SpecError, Split, Task


def own_path(path: str, root: Path | None) -> Path:
    """Return the file or folder that the option ``path`` names, below ``root`` if given.

    Raises :class:`SpecError` for an empty path, :class:`DataError` if it does not exist.
    """
    if not isinstance(path, str) or not path:
        raise SpecError(f"path = {path!r}: expected the path of your data, e.g. path = 'my_hospitals'")
    place = (root or Path()) / expanded("path", path, "give the path of your data")
    if not place.exists():
        raise DataError(f"path = {path!r}: there is no {place.absolute()}; give an existing file or folder")
    return track(place)


def check_split(test_fraction: float, split_seed: int) -> None:
    """Raise :class:`SpecError` for options that no data can be split by."""
    if not isinstance(test_fraction, float) or not 0 < test_fraction < 1:
        raise SpecError(f"test_fraction = {test_fraction!r}: expected a share between 0 and 1")
    if not isinstance(split_seed, int) or isinstance(split_seed, bool) or not 0 <= split_seed < 2**32:
        raise SpecError(f"split_seed = {split_seed!r}: expected a whole number from 0")


def hold_out(y: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ascending training and test indices of a site with classes ``y`` (n,); n must be above 1.

    The test part is the ``fraction``, rounded up but not all samples, stratified by class. Classes with a single sample
    count as the most common class. The split is not stratified if a part has fewer samples than there are classes.
    """
    counts = np.bincount(y)
    strata = np.where(counts[y] < 2, counts.argmax(), y)
    size = min(math.ceil(fraction * len(y)), len(y) - 1)
    stratify = strata if len(np.unique(strata)) <= min(size, len(y) - size) else None
    train, test = train_test_split(np.arange(len(y)), test_size=size, random_state=seed, stratify=stratify)
    return np.sort(train), np.sort(test)


def require_samples(name: str, site: str, samples: int) -> None:
    """Raise :class:`DataError` for a site with too few samples for a training and a test part."""
    if samples < 2:
        raise DataError(f"{name}: site {site!r} has {samples} sample(s), expected at least 2; remove the site")


def require_classes(name: str, classes: Sequence[Hashable]) -> Task:
    """Return the task for the ``classes`` of all sites; raise :class:`DataError` for one class or too many."""
    if len(classes) < 2:
        raise DataError(
            f"{name}: all samples are of class {', '.join(map(repr, classes))}, expected at least 2 classes"
        )
    if len(classes) > MAX_CLASSES:
        raise DataError(f"{name}: has {len(classes)} classes, expected at most {MAX_CLASSES}; check the target")
    return "binary" if len(classes) == 2 else "multiclass"


def split(x: np.ndarray, y: np.ndarray, task: Task) -> Split:
    """Return inputs (n, ...) and class numbers (n,) as the tensors that the task needs."""
    targets = torch.from_numpy(y.astype(np.int64))
    return Split(torch.from_numpy(x), targets.float()[:, None] if task == "binary" else targets)
