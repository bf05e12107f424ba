"""CIFAR-10: small colour photographs with label-skewed clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench._datasets.label_skew import LabelSkew
from bench.data.files import cache
from bench.data.files.cards import raw_files
from bench.data.files.locate import find, locate_unpacked
from bench.data.readers import cifar, images
from bench.data.readers.images import AugmentImages, Normalise
from bench.registry import register
from bench.types import Federation

FILES = raw_files(__file__)
BATCHES = {
    "train": [f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)],
    "test": ["cifar-10-batches-bin/test_batch.bin"],
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
        files = batches(part, root)
        x, y = shrunk(files) if protocol == "apple" else cifar.read(files)
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


def batches(part: str, root: Path | None) -> list[Path]:
    """Return the batch files of "train" or "test": the user's unpacked files, else those of the archive."""
    own = [find(name, root) for name in BATCHES[part]]
    found = [file for file in own if file]
    if len(found) == len(own):
        return found
    folder = locate_unpacked(FILES["archive"], [name for names in BATCHES.values() for name in names], root)
    return [folder / name for name in BATCHES[part]]


def shrunk(files: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n, 3, 28, 28) uint8 and class numbers (n,) int64, from the cache after the first call."""
    count = sum(file.stat().st_size for file in files) // cifar.ROW

    def fill(arrays: cache.Arrays) -> None:
        x, arrays["y"][:] = cifar.read(files)
        arrays["x"][:] = images.resize(x, SIZE)

    arrays = cache.prepared(
        "cifar10",
        inputs=files,
        code=[Path(__file__), *(Path(module.__file__ or "") for module in (cifar, images))],
        layout={"x": ((count, 3, SIZE, SIZE), "uint8"), "y": ((count,), "int64")},
        fill=fill,
    )
    return arrays["x"], arrays["y"]
