"""EMNIST: handwritten digits and letters with label-skewed clients."""

from __future__ import annotations

from pathlib import Path

from bench._datasets import grey_images
from bench._datasets.label_skew import LabelSkew
from bench.data.files.cards import raw_files
from bench.data.files.locate import find, locate_unpacked
from bench.registry import register
from bench.types import Federation

FILES = raw_files(__file__)
NAMES = {
    part: (f"emnist-byclass-{part}-images-idx3-ubyte", f"emnist-byclass-{part}-labels-idx1-ubyte")
    for part in ("train", "test")
}


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

    ``x`` is (n, 1, 28, 28) uint8; each image is transposed, as in the files. The options are those of
    :class:`bench._datasets.label_skew.LabelSkew`; the defaults are PLayer-FL's.
    """
    return grey_images.federation(
        "emnist",
        lambda part: pair(part, root),
        LabelSkew(protocol, partition, clients, alpha, partition_seed),
        classes=62,
        per_client=3000,
        mean=0.1736,
        std=0.3317,
        rotation=15,
    )


def pair(part: str, root: Path | None) -> grey_images.Pair:
    """Return images and labels of "train" or "test": the user's unpacked files, else those of the archive."""
    images, labels = (find(f"EMNIST/raw/{name}", root) for name in NAMES[part])
    if images and labels:
        return images, labels
    members = [f"gzip/{name}.gz" for names in NAMES.values() for name in names]
    folder = locate_unpacked(FILES["archive"], members, root)
    return folder / f"gzip/{NAMES[part][0]}.gz", folder / f"gzip/{NAMES[part][1]}.gz"
