"""GEMINI mortality: private records of stays in seven hospitals, or synthetic records."""

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
# Training and test stays of each hospital (FENDA-FL, Table 8).
SIZES = ((13234, 3308), (21018, 5254), (14180, 3545), (15251, 3813), (14441, 3610), (12718, 3180), (23820, 5955))
WIDTH = 35  # features (FENDA-FL, appendix B.1)
DEATHS = 1 - 0.8954  # error of a model that always predicts survival (FENDA-FL, Table 3)


@register("gemini_mortality")
def gemini_mortality(root: Path | None = None, *, source: str = "synthetic") -> Federation:
    """Death in hospital (yes or no) from 35 features of a stay in one of seven hospitals.

    ``source`` "files" reads GEMINI's private records; "synthetic" generates SYNTHETIC records with the printed sizes.
    """
    if source not in SOURCES:
        raise SpecError(f"source = {source!r}: {nearest(str(source), SOURCES)}")
    if source == "synthetic":
        table = hospital_stays.synthetic(SIZES, width=WIDTH, positives=DEATHS, noise=1.7)
    else:
        table = read_table(locate(FILES["stays"], root))
    stays = hospital_stays.hospitals(table)
    return Federation(
        "gemini_mortality",
        tuple(hospital_stays.client(name, parts) for name, parts in stays.items()),
        "binary",
        metrics=("accuracy", "auroc", "accuracy_at_logit_half"),
        synthetic=source == "synthetic",
    )
