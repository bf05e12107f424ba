"""PathMNIST: patches of colorectal tissue, cut into label-skewed clients; see the card beside."""

from __future__ import annotations

from pathlib import Path

from bench.data.files.download import Asset, locate
from bench.data.readers.images import Normalise
from bench.data.readers.npz import medmnist
from bench.data.skew import Skew, merged_and_split
from bench.registry import register
from bench.types import Federation

LICENCE = "CC BY 4.0"
CITATION = (
    "Yang, Shi, Wei, Liu, Zhao, Ke, Pfister, Ni: MedMNIST v2 - A large-scale lightweight benchmark for 2D and 3D "
    "biomedical image classification, Scientific Data (2023), doi:10.1038/s41597-022-01721-8"
)
ASSET = Asset(
    "medmnist/pathmnist.npz",
    sha256=None,
    size=205615438,
    urls=("https://zenodo.org/records/10519652/files/pathmnist.npz?download=1",),
    licence=LICENCE,
    md5="a8b06965200029087d5bd730944a56c1",
)
ASSETS = {"pathmnist": ASSET}
CLASSES = 9
CHANNELS = 3
PIXELS = Normalise((0.5,) * CHANNELS, (0.5,) * CHANNELS)


@register("pathmnist")
def pathmnist(
    root: Path | None = None,
    *,
    partition: str = "pathological",
    clients: int = 12,
    alpha: float = 0.5,
    partition_seed: int = 42,
) -> Federation:
    """Patches of colorectal cancer histology: 28x28 colour images of nine kinds of tissue, label-skewed clients.

    ``x`` is (n, 3, 28, 28) uint8. The options are those of :class:`bench.data.skew.Skew`, by default APPLE's.
    """
    skew = Skew("apple", partition, clients, alpha, partition_seed)
    train, test = merged_and_split(*medmnist("pathmnist", locate(ASSET, root), CHANNELS, CLASSES))
    return Federation(
        "pathmnist",
        skew.cut(train, test),
        "multiclass",
        classes=CLASSES,
        licence=LICENCE,
        citation=CITATION,
        prepare=PIXELS,
    )
