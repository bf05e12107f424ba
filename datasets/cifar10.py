"""CIFAR-10: small colour photographs with label-skewed clients."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench._datasets.label_skew import LabelSkew
from bench.data.files import cache
from bench.data.files.cards import raw_files
from bench.data.files.locate import find, locate_unpacked
from bench.data.readers import cifar, images
from bench.data.readers.images import AugmentImages, Normalise
from bench.registry import register
from bench.types import DataError, Federation

FILES = raw_files(__file__)
PUBLISHED, OTHER = "cifar-10-batches-bin", "cifar-10-batches-other"
BATCHES = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
ROWS = 10_000  # of each published file


class Facts(NamedTuple):
    """Published facts about one part: of each file its pictures by class and first labels; the sums of the planes."""

    counts: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]
    sums: tuple[int, int, int]


FACTS = {
    "train": Facts(
        (
            (1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981),
            (984, 1007, 1010, 995, 1010, 988, 1008, 1026, 987, 985),
            (994, 1042, 965, 997, 990, 1029, 978, 1015, 961, 1029),
            (1003, 963, 1041, 976, 1004, 1021, 1004, 981, 1024, 983),
            (1014, 1014, 952, 1016, 997, 1025, 980, 977, 1003, 1022),
        ),
        (
            "69941127834772999326",
            "16688346060366548326",
            "85069283627469007372",
            "06027212415663135581",
            "18515743827201596208",
        ),
        (6_415_714_204, 6_295_060_180, 5_829_907_619),
    ),
    "test": Facts(((1000,) * 10,), ("38806616310957985786",), (1_290_492_328, 1_266_775_083, 1_176_108_223)),
}
PER_CLIENT = 10_000
SIZE = 28  # pixels; APPLE's network has a flattened layer of this size
# PLayer-FL normalises with the statistics of CIFAR-100.
PIXELS = {
    "apple": Normalise((0.5,) * 3, (0.5,) * 3),
    "player": Normalise((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
}
AUGMENT = {
    "player": AugmentImages(PIXELS["player"], crop=4, flip=True, rotation=15, translation=0.1, scaling=0.1, jitter=0.2)
}


@register("cifar10")
def cifar10(
    root: Path | None = None,
    *,
    protocol: str = "apple",
    partition: str = "pathological",
    clients: int = 12,
    alpha: float = 0.5,
    partition_seed: int = 42,
) -> Federation:
    """Photographs of ten kinds of animals and vehicles, label-skewed clients.

    ``x`` is (n, 3, 32, 32) uint8; the protocol "apple" shrinks it to (n, 3, 28, 28). The options are those of
    :class:`bench._datasets.label_skew.LabelSkew`; the defaults are APPLE's.
    """
    skew = LabelSkew(protocol, partition, clients, alpha, partition_seed)

    def read(part: str, most: int | None) -> tuple[np.ndarray, np.ndarray]:
        found = batches(part, root)
        x, y = shrunk(part, found) if protocol == "apple" else checked(part, found)
        return x[:most], y[:most]

    return Federation(
        "cifar10",
        skew.clients_from(read, PER_CLIENT),
        "multiclass",
        metrics=skew.metrics,
        classes=cifar.CLASSES,
        prepare=PIXELS[protocol],
        augment=AUGMENT.get(protocol),
    )


class Batches(NamedTuple):
    """The files of one part; ``origin`` is "archive", or the name of the user's folder."""

    files: list[Path]
    origin: str


def batches(part: str, root: Path | None) -> Batches:
    """Return the files of "train" or "test": the user's unpacked ones, else other ones, else those of the archive.

    Warns of other ones.
    """
    names = [name for names in BATCHES.values() for name in names]
    for folder in (PUBLISHED, OTHER):
        found = {name: find(f"{folder}/{name}", root) for name in names}
        if all(found.values()):
            files = [file for name in BATCHES[part] if (file := found[name])]
            if folder == OTHER:
                warnings.warn(f"{files[0].parent}: these pictures are not the published CIFAR-10", stacklevel=2)
            return Batches(files, folder)
    unpacked = locate_unpacked(FILES["archive"], [f"{PUBLISHED}/{name}" for name in names], root)
    return Batches([unpacked / PUBLISHED / name for name in BATCHES[part]], "archive")


def checked(part: str, batches: Batches) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures and class numbers.

    Raises :class:`DataError` if unpacked files are not the published ones. The archive has a checksum.
    """
    x, y = cifar.read(batches.files)
    if batches.origin == PUBLISHED and (deviation := _deviation(part, x, y)):
        raise DataError(
            f"{batches.files[0].parent}: is not the published CIFAR-10: {deviation}; "
            f"replace it by {FILES['archive'].path}, or rename it to {OTHER} to use its pictures"
        )
    return x, y


def _deviation(part: str, x: np.ndarray, y: np.ndarray) -> str:
    """Say how pictures and class numbers differ from the published facts; return an empty text if they do not."""
    facts = FACTS[part]
    if len(y) != ROWS * len(facts.counts):
        return f"{len(y)} pictures, expected {ROWS * len(facts.counts)}"
    for name, classes, counts, labels in zip(
        BATCHES[part], y.reshape(-1, ROWS), facts.counts, facts.labels, strict=True
    ):
        found = tuple(np.bincount(classes, minlength=cifar.CLASSES).tolist())
        if found != counts:
            return f"{name} has {found} pictures by class, expected {counts}"
        if "".join(map(str, classes[: len(labels)])) != labels:
            return f"{name} has its pictures in another order"
    sums = tuple(x.sum(axis=(0, 2, 3), dtype=np.int64).tolist())
    return "" if sums == facts.sums else f"the sums of red, green and blue are {sums}, expected {facts.sums}"


def shrunk(part: str, batches: Batches) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n, 3, 28, 28) uint8 and class numbers (n,) int64, from the cache after the first call."""
    count = sum(file.stat().st_size for file in batches.files) // cifar.ROW

    def fill(arrays: cache.Arrays) -> None:
        x, arrays["y"][:] = checked(part, batches)
        arrays["x"][:] = images.resize(x, SIZE)

    arrays = cache.prepared(
        "cifar10",
        inputs=batches.files,
        code=[Path(__file__), *(Path(module.__file__ or "") for module in (cifar, images))],
        layout={"x": ((count, 3, SIZE, SIZE), "uint8"), "y": ((count,), "int64")},
        fill=fill,
        options={"published": batches.origin != OTHER},
    )
    return arrays["x"], arrays["y"]
