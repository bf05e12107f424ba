"""Fashion-MNIST: pictures of clothes with label-skewed clients."""

from __future__ import annotations

from pathlib import Path

from bench._datasets import grey_images
from bench._datasets.label_skew import LabelSkew
from bench.data.files.cards import raw_files
from bench.registry import register
from bench.types import Federation

FILES = raw_files(__file__)


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

    ``x`` is (n, 1, 28, 28) uint8. The options are those of :class:`bench._datasets.label_skew.LabelSkew`; the
    defaults are PLayer-FL's.
    """
    return grey_images.federation(
        "fashion_mnist",
        lambda part: grey_images.pair(FILES, part, root),
        LabelSkew(protocol, partition, clients, alpha, partition_seed),
        classes=10,
        per_client=2000,
        mean=0.2860,
        std=0.3530,
        rotation=10,
    )
