"""MNIST: handwritten digits, cut into label-skewed clients; see the card beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data.files.download import Asset, locate
from bench.data.readers import idx
from bench.data.readers.images import Augment, Normalise
from bench.data.skew import Skew
from bench.registry import register
from bench.types import Federation

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
LICENCE = "CC BY-SA 3.0"
CITATION = "LeCun, Cortes, Burges: The MNIST database of handwritten digits (1998), http://yann.lecun.com/exdb/mnist"


def _asset(name: str, size: int, sha256: str) -> Asset:
    return Asset(f"MNIST/raw/{name}", sha256, size, tuple(f"{mirror}{name}.gz" for mirror in MIRRORS), LICENCE)


ASSETS = {
    "train images": _asset(
        "train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    ),
    "train labels": _asset(
        "train-labels-idx1-ubyte", 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
    ),
    "test images": _asset(
        "t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
    ),
    "test labels": _asset(
        "t10k-labels-idx1-ubyte", 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    ),
}
CLASSES = 10
PER_CLIENT = 2000
# PLayer-FL has no MNIST: its transforms of Fashion-MNIST, with the mean and deviation of MNIST's own training pixels.
PIXELS = {"apple": Normalise((0.5,), (0.5,)), "player": Normalise((0.1307,), (0.3081,))}
AUGMENT = {"player": Augment(PIXELS["player"], rotation=10, translation=0.1, scaling=0.1, perspective=0.2)}


@register("mnist")
def mnist(
    root: Path | None = None,
    *,
    protocol: str = "apple",
    partition: str = "pathological",
    clients: int = 12,
    alpha: float = 0.5,
    partition_seed: int = 42,
) -> Federation:
    """Handwritten digits: 28x28 grey-scale images of ten classes, label-skewed clients.

    ``x`` is (n, 1, 28, 28) uint8. The options are those of :class:`bench.data.skew.Skew`, by default APPLE's.
    """
    skew = Skew(protocol, partition, clients, alpha, partition_seed)

    def read(part: str, most: int | None) -> tuple[np.ndarray, np.ndarray]:
        images, labels = (locate(ASSETS[f"{part} {kind}"], root) for kind in ("images", "labels"))
        return idx.read(images, labels, CLASSES, most)

    return Federation(
        "mnist",
        skew.federate(read, PER_CLIENT),
        "multiclass",
        metrics=skew.metrics,
        classes=CLASSES,
        licence=LICENCE,
        citation=CITATION,
        prepare=PIXELS[protocol],
        augment=AUGMENT.get(protocol),
    )
