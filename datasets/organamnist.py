"""OrganAMNIST: slices of abdominal organs, cut into label-skewed clients; see the card beside."""

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
    "medmnist/organamnist.npz",
    sha256=None,
    size=None,
    urls=("https://zenodo.org/records/10519652/files/organamnist.npz?download=1",),
    licence=LICENCE,
    md5="68e3f8846a6bd62f0c9bf841c0d9eacc",
)
ASSETS = {"organamnist": ASSET}
CLASSES = 11
CHANNELS = 1
PIXELS = Normalise((0.5,) * CHANNELS, (0.5,) * CHANNELS)


@register("organamnist")
def organamnist(
    root: Path | None = None,
    *,
    partition: str = "pathological",
    clients: int = 12,
    alpha: float = 0.5,
    partition_seed: int = 42,
) -> Federation:
    """Axial slices of abdominal CT scans: 28x28 grey-scale images of eleven organs, label-skewed clients.

    ``x`` is (n, 1, 28, 28) uint8. The options are those of :class:`bench.data.skew.Skew`, by default APPLE's.
    """
    skew = Skew("apple", partition, clients, alpha, partition_seed)
    train, test = merged_and_split(*medmnist("organamnist", locate(ASSET, root), CHANNELS, CLASSES))
    return Federation(
        "organamnist",
        skew.cut(train, test),
        "multiclass",
        classes=CLASSES,
        licence=LICENCE,
        citation=CITATION,
        prepare=PIXELS,
    )
