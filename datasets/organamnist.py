"""OrganAMNIST: slices of abdominal organs with label-skewed clients."""

from __future__ import annotations

from pathlib import Path

from bench._datasets import medmnist
from bench._datasets.label_skew import LabelSkew
from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.registry import register
from bench.types import Federation

FILES = raw_files(__file__)


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

    ``x`` is (n, 1, 28, 28) uint8. The options are those of :class:`bench._datasets.label_skew.LabelSkew`; the
    defaults are APPLE's.
    """
    skew = LabelSkew("apple", partition, clients, alpha, partition_seed)
    return medmnist.federation("organamnist", locate(FILES["archive"], root), skew, channels=1, classes=11)
