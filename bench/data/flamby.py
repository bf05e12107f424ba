"""Loader for the tasks of an installed FLamby (Ogier du Terrail et al., 2022).

FLamby is optional. Some of its data sets are also data sets of silobench and do not need it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bench import registry
from bench.types import Client, DataError, Federation, SpecError, Split, Task, nearest

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = registry.FLAMBY
CITATION = "Ogier du Terrail et al.: FLamby, NeurIPS Datasets and Benchmarks (2022), and the source that it names"
METRICS = {"fed_camelyon16": "auroc"}  # tasks with another metric than the usual one
USUAL = {"binary": "accuracy", "multiclass": "accuracy", "segmentation": "dice"}
Samples = Sequence[tuple["Tensor", "Tensor"]]


def federation(name: str, root: Path | None = None) -> Federation:
    """Return the FLamby task ``name`` (fed_camelyon16, ...) with FLamby's centres, preparation and parts.

    Every sample is read once, so random patches and augmentations of FLamby are drawn once. Samples of different sizes
    are combined by FLamby's ``collate_fn``. FLamby stores where its data are; ``root`` is not used. Raises
    :class:`SpecError` for an unknown task, :class:`DataError` if FLamby or its data are missing.
    """
    import torch

    with torch.random.fork_rng(devices=[]):  # importing FLamby seeds torch
        module = _module(name)
        centres = range(module.NUM_CLIENTS)
        train, test = ([_samples(module, name, centre, part) for centre in centres] for part in (True, False))
    targets = [y for _, y in [*train, *test]]
    task = _task(name, train[0][0], targets)
    classes = _classes(task, targets)

    def split(samples: tuple[Tensor, Tensor]) -> Split:
        return Split(samples[0], _targets(task, classes, samples[1]))

    return Federation(
        f"{PREFIX}{name}",
        tuple(Client(f"centre_{centre}", split(train[centre]), split(test[centre])) for centre in centres),
        task,
        metrics=(METRICS.get(name, USUAL[task]),),
        classes=classes,
        licence="see FLamby's page of the task",
        citation=CITATION,
        loss={"name": "dice", "epsilon": 1e-9} if task == "segmentation" else {},
    )


def installed() -> Path | None:
    """Return the folder of FLamby's data sets without importing FLamby; None if it is not installed."""
    spec = importlib.util.find_spec("flamby")
    places = [] if spec is None else spec.submodule_search_locations or []
    return next((Path(place) / "datasets" for place in places if (Path(place) / "datasets").is_dir()), None)


def tasks(folders: Iterable[Path]) -> list[str]:
    """Return the names of FLamby's tasks in ``folders``."""
    return sorted(each.name for folder in folders for each in folder.iterdir() if each.name.startswith("fed_"))


def _module(name: str) -> ModuleType:
    try:
        package = importlib.import_module("flamby.datasets")
    except ImportError as error:
        reason = "install it from https://github.com/owkin/FLamby"
        raise DataError(f"{PREFIX}{name}: FLamby cannot be imported ({error}); {reason}") from error
    known = tasks(map(Path, package.__path__))
    if name not in known:
        raise SpecError(f"unknown FLamby task {name!r}: {nearest(name, known)}")
    if name == "fed_isic2019":
        raise SpecError(f"{PREFIX}{name}: FLamby augments its images at every access; use the data set {name!r}")
    try:
        return importlib.import_module(f"flamby.datasets.{name}")
    except ImportError as error:
        raise DataError(f"{PREFIX}{name}: FLamby cannot import it ({error}); install what it needs") from error


def _samples(module: ModuleType, name: str, centre: int, train: bool) -> tuple[Tensor, Tensor]:
    """Inputs (n, ...) and targets (n, ...) of a part of a centre, as FLamby returns them."""
    import torch

    try:
        dataset = _dataset_class(module)(center=centre, train=train, pooled=False)
        samples = [dataset[number] for number in range(len(dataset))]
    except Exception as error:  # FLamby raises many kinds of errors for missing data
        reason = " ".join(str(error).split())
        raise DataError(
            f"{PREFIX}{name}: FLamby cannot load centre {centre} ({reason}); prepare its data first"
        ) from error
    if len({(x.shape, y.shape) for x, y in samples}) > 1:
        if not hasattr(module, "collate_fn"):
            raise DataError(
                f"{PREFIX}{name}: the samples of centre {centre} differ in size, and FLamby has no collate_fn"
            )
        x, y = module.collate_fn(samples)
    else:
        x, y = (torch.stack(each) for each in zip(*samples, strict=True))
    return x, y


def _dataset_class(module: ModuleType) -> Any:
    """FLamby's ``FedClass``; some tasks export only a class whose name starts with Fed."""
    found = [each for key, each in vars(module).items() if inspect.isclass(each) and key.startswith("Fed")]
    return getattr(module, "FedClass", found[0])


def _task(name: str, x: Tensor, targets: Sequence[Tensor]) -> Task:
    """The task that fits the targets of all parts."""
    shapes = {tuple(y.shape[1:]) for y in targets}
    if all(bool((y == y.long()).all()) for y in targets):
        if all(y.dim() == x.dim() > 2 and y.shape[2:] == x.shape[2:] for y in targets):
            return "segmentation"
        if shapes <= {(), (1,)}:
            two = targets[0].is_floating_point() and max(int(y.max()) for y in targets) <= 1
            return "binary" if two else "multiclass"
    raise DataError(
        f"{PREFIX}{name}: targets have shape {' and '.join(map(str, sorted(shapes)))}, expected classes or masks; "
        "other tasks, such as survival, are not supported"
    )


def _classes(task: Task, targets: Sequence[Tensor]) -> int:
    """The number of classes; for masks with one channel per class the number of channels."""
    if task == "segmentation" and targets[0].shape[1] > 1:
        return targets[0].shape[1]
    return max(2, 1 + max(int(y.max()) for y in targets))


def _targets(task: Task, classes: int, y: Tensor) -> Tensor:
    """(n, 1) float32, (n,) int64 or one-hot (n, classes, ...) uint8."""
    import torch

    if task == "binary":
        return y.float().reshape(-1, 1)
    if task == "multiclass":
        return y.long().flatten()
    if y.shape[1] > 1:
        return y.to(torch.uint8)
    return torch.nn.functional.one_hot(y[:, 0].long(), classes).movedim(-1, 1).to(torch.uint8)
