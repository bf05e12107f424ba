"""Export formats, and the export of a store or a study to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from bench.files import new_place
from bench.types import SpecError

if TYPE_CHECKING:
    from bench.spec import StudySpec
    from bench.sweep.search.selection import SearchResult
    from bench.sweep.store import Store


class Format(StrEnum):
    """Formats that records can be exported to."""

    CSV = "csv"
    PARQUET = "parquet"
    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    OPTUNA = "optuna"


def export(store: Store, place: Path, to: Format, study: StudySpec | None = None, root: Path | None = None) -> None:
    """Write the records of a store, or those of one study in it, to the new file or folder ``place``.

    ``root`` is a folder of raw data. Raise :class:`SpecError` if there are no records, or if Optuna is asked for
    without a study; in both cases nothing is written.
    """
    from bench.sweep.study import recorded

    records = store.records()
    searches: Mapping[str, SearchResult] = {}
    if study is not None:
        searches = recorded(study, records, root)
        within = [record for search in searches.values() for seeds in search.records for record in seeds if record]
        records = {record["run"]: records[record["run"]] for record in within}
    elif to is Format.OPTUNA:
        raise SpecError("--to optuna: exports searches; name their study file with --study")
    if not records:
        raise SpecError(f"{store.path if study is None else study.file}: no finished runs; there is nothing to export")
    chosen = [records[run] for run in sorted(records)]
    with new_place(place) as new:
        match to:
            case Format.CSV | Format.PARQUET:
                from bench.sweep.export import to_tables

                to_tables.write(chosen, new, "csv" if to is Format.CSV else "parquet")
            case Format.TENSORBOARD:
                from bench.sweep.export import to_tensorboard

                to_tensorboard.write(chosen, new)
            case Format.MLFLOW:
                from bench.sweep.export import to_mlflow

                to_mlflow.write(chosen, new)
            case Format.OPTUNA:
                from bench.sweep.export import to_optuna

                assert study is not None
                to_optuna.write(study, searches, new)
