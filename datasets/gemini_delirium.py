"""GEMINI delirium: private records of stays in six hospitals, or a synthetic stand-in; see the card beside."""

from __future__ import annotations

from pathlib import Path

from bench.data import clinical
from bench.data.files.download import Asset
from bench.data.files.user_files import find_any
from bench.data.readers.tables import read_table
from bench.registry import register
from bench.types import Federation, SpecError, nearest

ASSETS: dict[str, Asset] = {}
SOURCES = ("synthetic", "files")
FEATURES = ("shared", "own")
PLACES = ("gemini/delirium.parquet", "gemini/delirium.csv")
REMEDY = "apply for access at https://geminimedicine.ca and export the stays as the card of gemini_delirium says"
LICENCE = "private (GEMINI data access agreement)"
CITATION = (
    "Verma et al.: Patient characteristics, resource use and outcomes associated with general internal medicine "
    "hospital care: the General Medicine Inpatient Initiative (GEMINI) retrospective cohort study, CMAJ Open (2017)"
)
# Training and test stays of each hospital; FENDA-FL, Table 8.
SIZES = ((660, 101), (590, 99), (1218, 199), (494, 76), (574, 109), (1392, 258))
DELIRIOUS = 1 - 0.748  # what a model that expects nobody to be is wrong in; FENDA-FL, Table 4
OWN_WIDTH = 300  # FENDA-FL, appendix I
SEED = 0


@register("gemini_delirium")
def gemini_delirium(
    root: Path | None = None, *, source: str = "synthetic", features: str = "shared", width: int = 1119
) -> Federation:
    """Delirium (yes or no) from the features of a stay in one of six hospitals, training stays balanced by redrawing.

    ``source`` "files" reads GEMINI's private records, "synthetic" makes SYNTHETIC ones of the printed sizes with
    ``width`` features. ``features`` "own" gives every hospital 300 features of its own, which mean something else in
    each (FENDA-FL, appendix I).
    """
    for option, value, known in (("source", source, SOURCES), ("features", features, FEATURES)):
        if value not in known:
            raise SpecError(f"{option} = {value!r}: {nearest(str(value), known)}")
    if not isinstance(width, int) or isinstance(width, bool) or not 20 <= width <= 9000:
        raise SpecError(f"width = {width!r}: expected a whole number from 20 to 9000")
    if source == "synthetic":
        table = clinical.synthetic(SIZES, width=width, positives=DELIRIOUS, noise=0.2)
    else:
        table = read_table(find_any(PLACES, root, REMEDY))
    clients = []
    for number, (name, parts) in enumerate(clinical.hospitals(table).items()):
        stays = clinical.own_features(name, parts, OWN_WIDTH) if features == "own" else parts
        x, y = stays["train"]
        rows = clinical.balanced(y, (SEED, number))
        clients.append(clinical.client(name, stays | {"train": (x[rows], y[rows])}))
    return Federation(
        "gemini_delirium",
        tuple(clients),
        "binary",
        metrics=("accuracy", "auroc", "accuracy_at_logit_half"),
        synthetic=source == "synthetic",
        licence="" if source == "synthetic" else LICENCE,
        citation=CITATION,
    )
