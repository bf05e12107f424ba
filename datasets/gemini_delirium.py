"""GEMINI delirium: private records of stays in six hospitals, or synthetic records."""

from __future__ import annotations

from pathlib import Path

from bench._datasets import hospital_stays
from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.data.readers.tables import read_table
from bench.registry import register
from bench.types import Federation, SpecError, nearest

FILES = raw_files(__file__)
SOURCES = ("synthetic", "files")
FEATURES = ("shared", "own")
# Training and test stays of each hospital (FENDA-FL, Table 8).
SIZES = ((660, 101), (590, 99), (1218, 199), (494, 76), (574, 109), (1392, 258))
DELIRIOUS = 1 - 0.748  # error of a model that always predicts "no" (FENDA-FL, Table 4)
OWN_WIDTH = 300  # features of a hospital (FENDA-FL, appendix I)
SEED = 0


@register("gemini_delirium")
def gemini_delirium(
    root: Path | None = None, *, source: str = "synthetic", features: str = "shared", width: int = 1119
) -> Federation:
    """Delirium (yes or no) from the features of a stay in one of six hospitals; training stays are oversampled.

    ``source`` "files" reads GEMINI's private records; "synthetic" generates SYNTHETIC records with the printed sizes
    and ``width`` features. ``features`` "own" gives every hospital 300 features of its own (FENDA-FL, appendix I).
    """
    for option, value, known in (("source", source, SOURCES), ("features", features, FEATURES)):
        if value not in known:
            raise SpecError(f"{option} = {value!r}: {nearest(str(value), known)}")
    if not isinstance(width, int) or isinstance(width, bool) or not 20 <= width <= 9000:
        raise SpecError(f"width = {width!r}: expected a whole number from 20 to 9000")
    if source == "synthetic":
        table = hospital_stays.synthetic(SIZES, width=width, positives=DELIRIOUS, noise=0.2)
    else:
        table = read_table(locate(FILES["stays"], root))
    clients = []
    for number, (name, parts) in enumerate(hospital_stays.hospitals(table).items()):
        stays = hospital_stays.own_features(name, parts, OWN_WIDTH) if features == "own" else parts
        x, y = stays["train"]
        rows = hospital_stays.balanced(y, (SEED, number))
        clients.append(hospital_stays.client(name, stays | {"train": (x[rows], y[rows])}))
    return Federation(
        "gemini_delirium",
        tuple(clients),
        "binary",
        metrics=("accuracy", "auroc", "accuracy_at_logit_half"),
        synthetic=source == "synthetic",
    )
