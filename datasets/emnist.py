"""EMNIST: handwritten digits and letters, cut into label-skewed clients; see the card beside."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data.files.download import Asset, find, locate_unpacked
from bench.data.readers import idx
from bench.data.readers.images import Augment, Normalise
from bench.data.skew import Skew
from bench.registry import register
from bench.types import Federation

LICENCE = "no licence stated (work of the U.S. government, NIST)"
CITATION = (
    "Cohen, Afshar, Tapson, van Schaik: EMNIST: an extension of MNIST to handwritten letters (2017), arXiv:1702.05373"
)
ARCHIVE = Asset(
    "EMNIST/raw/gzip.zip",
    "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
    561753746,
    (
        "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
    ),
    LICENCE,
)
ASSETS = {"archive": ARCHIVE}
FILES = {
    part: (f"emnist-byclass-{part}-images-idx3-ubyte", f"emnist-byclass-{part}-labels-idx1-ubyte")
    for part in ("train", "test")
}
CLASSES = 62
PER_CLIENT = 3000
PIXELS = {"apple": Normalise((0.5,), (0.5,)), "player": Normalise((0.1736,), (0.3317,))}
AUGMENT = {"player": Augment(PIXELS["player"], rotation=15, translation=0.1, scaling=0.1, perspective=0.2)}


@register("emnist")
def emnist(
    root: Path | None = None,
    *,
    protocol: str = "player",
    partition: str = "dirichlet",
    clients: int = 5,
    alpha: float = 0.5,
    partition_seed: int = 1,
) -> Federation:
    """Handwritten digits and letters ("by class"): 28x28 grey-scale images of 62 classes, label-skewed clients.

    ``x`` is (n, 1, 28, 28) uint8, each image transposed, as in the files. The options are those of
    :class:`bench.data.skew.Skew`, by default PLayer-FL's.
    """
    skew = Skew(protocol, partition, clients, alpha, partition_seed)

    def read(part: str, most: int | None) -> tuple[np.ndarray, np.ndarray]:
        images, labels = files(part, root)
        return idx.read(images, labels, CLASSES, most)

    return Federation(
        "emnist",
        skew.federate(read, PER_CLIENT),
        "multiclass",
        metrics=skew.metrics,
        classes=CLASSES,
        licence=LICENCE,
        citation=CITATION,
        prepare=PIXELS[protocol],
        augment=AUGMENT.get(protocol),
    )


def files(part: str, root: Path | None) -> tuple[Path, Path]:
    """Images and labels of "train" or "test": the user's unpacked files, otherwise those of the published archive."""
    images, labels = (find(f"EMNIST/raw/{name}", root) for name in FILES[part])
    if images and labels:
        return images, labels
    members = [f"gzip/{name}.gz" for names in FILES.values() for name in names]
    folder = locate_unpacked(ARCHIVE, members, root)
    return folder / f"gzip/{FILES[part][0]}.gz", folder / f"gzip/{FILES[part][1]}.gz"
