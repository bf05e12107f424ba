"""Fashion-MNIST: pictures of clothes, cut into label-skewed clients; see the card beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data.files.download import Asset, locate
from bench.data.readers import idx
from bench.data.readers.images import Augment, Normalise
from bench.data.skew import Skew
from bench.registry import register
from bench.types import Federation

MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "https://cdn.jsdelivr.net/gh/zalandoresearch/fashion-mnist@master/data/fashion/",
)
LICENCE = "MIT"
CITATION = (
    "Xiao, Rasul, Vollgraf: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms (2017), "
    "arXiv:1708.07747"
)


def _asset(name: str, size: int, sha256: str) -> Asset:
    return Asset(f"FashionMNIST/raw/{name}", sha256, size, tuple(f"{mirror}{name}.gz" for mirror in MIRRORS), LICENCE)


ASSETS = {
    "train images": _asset(
        "train-images-idx3-ubyte", 47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
    ),
    "train labels": _asset(
        "train-labels-idx1-ubyte", 60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    "test images": _asset(
        "t10k-images-idx3-ubyte", 7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
    ),
    "test labels": _asset(
        "t10k-labels-idx1-ubyte", 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
}
CLASSES = 10
PER_CLIENT = 2000
PIXELS = {"apple": Normalise((0.5,), (0.5,)), "player": Normalise((0.2860,), (0.3530,))}
AUGMENT = {"player": Augment(PIXELS["player"], rotation=10, translation=0.1, scaling=0.1, perspective=0.2)}


@register("fashion_mnist")
def fashion_mnist(
    root: Path | None = None,
    *,
    protocol: str = "player",
    partition: str = "dirichlet",
    clients: int = 5,
    alpha: float = 0.5,
    partition_seed: int = 1,
) -> Federation:
    """Clothes: 28x28 grey-scale images of ten classes, label-skewed clients.

    ``x`` is (n, 1, 28, 28) uint8. The options are those of :class:`bench.data.skew.Skew`, by default PLayer-FL's.
    """
    skew = Skew(protocol, partition, clients, alpha, partition_seed)

    def read(part: str, most: int | None) -> tuple[np.ndarray, np.ndarray]:
        images, labels = (locate(ASSETS[f"{part} {kind}"], root) for kind in ("images", "labels"))
        return idx.read(images, labels, CLASSES, most)

    return Federation(
        "fashion_mnist",
        skew.federate(read, PER_CLIENT),
        "multiclass",
        metrics=skew.metrics,
        classes=CLASSES,
        licence=LICENCE,
        citation=CITATION,
        prepare=PIXELS[protocol],
        augment=AUGMENT.get(protocol),
    )
