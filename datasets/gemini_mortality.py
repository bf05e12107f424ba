"""GEMINI mortality: private records of stays in seven hospitals, or a synthetic stand-in; see the card beside."""

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
PLACES = ("gemini/mortality.parquet", "gemini/mortality.csv")
REMEDY = "apply for access at https://geminimedicine.ca and export the stays as the card of gemini_mortality says"
LICENCE = "private (GEMINI data access agreement)"
CITATION = (
    "Verma et al.: Patient characteristics, resource use and outcomes associated with general internal medicine "
    "hospital care: the General Medicine Inpatient Initiative (GEMINI) retrospective cohort study, CMAJ Open (2017)"
)
# Training and test stays of each hospital; FENDA-FL, Table 8.
SIZES = ((13234, 3308), (21018, 5254), (14180, 3545), (15251, 3813), (14441, 3610), (12718, 3180), (23820, 5955))
WIDTH = 35  # FENDA-FL, appendix B.1
DEATHS = 1 - 0.8954  # what a model that expects everybody to survive is wrong in; FENDA-FL, Table 3


@register("gemini_mortality")
def gemini_mortality(root: Path | None = None, *, source: str = "synthetic") -> Federation:
    """Death in hospital (yes or no) from 35 features of a stay in one of seven hospitals.

    ``source`` "files" reads GEMINI's private records, "synthetic" makes SYNTHETIC ones of the printed sizes.
    """
    if source not in SOURCES:
        raise SpecError(f"source = {source!r}: {nearest(str(source), SOURCES)}")
    if source == "synthetic":
        table = clinical.synthetic(SIZES, width=WIDTH, positives=DEATHS, noise=1.7)
    else:
        table = read_table(find_any(PLACES, root, REMEDY))
    stays = clinical.hospitals(table)
    return Federation(
        "gemini_mortality",
        tuple(clinical.client(name, parts) for name, parts in stays.items()),
        "binary",
        metrics=("accuracy", "auroc", "accuracy_at_logit_half"),
        synthetic=source == "synthetic",
        licence="" if source == "synthetic" else LICENCE,
        citation=CITATION,
    )
