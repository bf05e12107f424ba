"""CIFAR-10: small colour photographs, cut into label-skewed clients; see the card beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data.files import cache
from bench.data.files.download import Asset, find, locate_unpacked
from bench.data.readers import cifar, images
from bench.data.readers.images import Augment, Normalise
from bench.data.skew import Skew
from bench.registry import register
from bench.types import Federation

LICENCE = "no licence stated"
CITATION = "Krizhevsky: Learning Multiple Layers of Features from Tiny Images, technical report, Toronto (2009)"
ARCHIVE = Asset(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    170052171,
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    LICENCE,
)
ASSETS = {"archive": ARCHIVE}
FILES = {
    "train": [f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)],
    "test": ["cifar-10-batches-bin/test_batch.bin"],
}
PER_CLIENT = 10_000
SIZE = 28  # of APPLE's network, whose flattened layer fits no other
# PLayer-FL normalises with the statistics of CIFAR-100.
PIXELS = {
    "apple": Normalise((0.5,) * 3, (0.5,) * 3),
    "player": Normalise((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
}
AUGMENT = {
    "player": Augment(PIXELS["player"], crop=4, flip=True, rotation=15, translation=0.1, scaling=0.1, jitter=0.2)
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

    ``x`` is (n, 3, 32, 32) uint8, with the protocol "apple" shrunk to (n, 3, 28, 28). The options are those of
    :class:`bench.data.skew.Skew`, by default APPLE's.
    """
    skew = Skew(protocol, partition, clients, alpha, partition_seed)

    def read(part: str, most: int | None) -> tuple[np.ndarray, np.ndarray]:
        batches = files(part, root)
        x, y = shrunk(batches) if protocol == "apple" else cifar.read(batches)
        return x[:most], y[:most]

    return Federation(
        "cifar10",
        skew.federate(read, PER_CLIENT),
        "multiclass",
        metrics=skew.metrics,
        classes=cifar.CLASSES,
        licence=LICENCE,
        citation=CITATION,
        prepare=PIXELS[protocol],
        augment=AUGMENT.get(protocol),
    )


def files(part: str, root: Path | None) -> list[Path]:
    """The batches of "train" or "test": the user's unpacked files, otherwise those of the published archive."""
    own = [find(name, root) for name in FILES[part]]
    found = [file for file in own if file]
    if len(found) == len(own):
        return found
    folder = locate_unpacked(ARCHIVE, [name for names in FILES.values() for name in names], root)
    return [folder / name for name in FILES[part]]


def shrunk(batches: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, 3, 28, 28) and class numbers (n,), shrunk once and then kept in the cache."""
    count = sum(file.stat().st_size for file in batches) // cifar.ROW

    def fill(arrays: cache.Arrays) -> None:
        x, arrays["y"][:] = cifar.read(batches)
        arrays["x"][:] = images.resize(x, SIZE)

    arrays = cache.prepared(
        "cifar10",
        inputs=batches,
        code=[Path(module.__file__ or "") for module in (cifar, images)],
        layout={"x": ((count, 3, SIZE, SIZE), "uint8"), "y": ((count,), "int64")},
        fill=fill,
    )
    return arrays["x"], arrays["y"]
