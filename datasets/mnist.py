"""MNIST: handwritten digits with label-skewed clients."""

from __future__ import annotations

from pathlib import Path

from bench._datasets import grey_images
from bench._datasets.label_skew import LabelSkew
from bench.data.files.cards import raw_files
from bench.registry import register
from bench.types import Federation

FILES = raw_files(__file__)


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

    ``x`` is (n, 1, 28, 28) uint8. The options are those of :class:`bench._datasets.label_skew.LabelSkew`; the
    defaults are APPLE's.
    """
    return grey_images.federation(
        "mnist",
        lambda part: grey_images.pair(FILES, part, root),
        LabelSkew(protocol, partition, clients, alpha, partition_seed),
        classes=10,
        per_client=2000,
        # PLayer-FL does not use MNIST: its values for Fashion-MNIST, with the statistics of MNIST's training pixels.
        mean=0.1307,
        std=0.3081,
        rotation=10,
    )
