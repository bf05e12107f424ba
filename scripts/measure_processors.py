"""Differences between results of the same studies under other instructions of the processor and without kernels.

    python scripts/measure_processors.py

Trains every study in a process of its own for each setting of environment variables, and compares records and tables
with those of this machine's own setting. Writes results/benchmarks/processors.md; nothing here is a test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.environment import environment
from bench.files import write_whole
from bench.registry import folder
from bench.report import publish
from bench.report.tables.rank_tests import rank_table
from bench.report.tables.table import Table
from bench.spec import StudySpec, read
from bench.sweep.store import Record, Store
from bench.sweep.study import recorded
from bench.sweep.summaries import listed
from bench.types import SilobenchError

ROOT = Path(__file__).parent.parent
STUDIES = {"quickstart/quickstart.toml": "paper", "fenda/heart.toml": "paper", "global_layers/heart.toml": "short"}
OWN = "none"
SETTINGS: dict[str, dict[str, str]] = {
    OWN: {},
    "ATEN_CPU_CAPABILITY=avx512": {"ATEN_CPU_CAPABILITY": "avx512"},
    "ATEN_CPU_CAPABILITY=avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "ATEN_CPU_CAPABILITY=default": {"ATEN_CPU_CAPABILITY": "default"},
    "MKL_CBWR=AVX2": {"MKL_CBWR": "AVX2"},
    "MKL_CBWR=COMPATIBLE": {"MKL_CBWR": "COMPATIBLE"},
    "ONEDNN_MAX_CPU_ISA=AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "OPENBLAS_CORETYPE=Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "CC=false (no kernels)": {"CC": "false"},
    "CC=false, ATEN_CPU_CAPABILITY=avx2": {"CC": "false", "ATEN_CPU_CAPABILITY": "avx2"},
}
# Parts of a record that training computes.
NUMBERS = ("status", "diverged", "scores", "validation", "aggregated", "curves", "traces")
HEAD = ("setting", "records that differ", "score of a client", "cell of a table", "mean rank", "Friedman p")


@dataclass(frozen=True)
class Measured:
    """The records and complete tables of a study under one setting."""

    records: Mapping[str, Record]
    tables: Mapping[str, Table]


def main() -> None:
    sections = []
    with tempfile.TemporaryDirectory() as room:
        for name, profile in STUDIES.items():
            study = read(folder("experiments") / name, profile)
            found = {
                setting: _trained(study, Path(room) / f"{study.file.parent.name}-{number}", variables)
                for number, (setting, variables) in enumerate(SETTINGS.items())
            }
            sections.append(_section(study, found))
    text = "\n".join([_introduction(), *sections])
    write_whole(ROOT / "results/benchmarks/processors.md", text.encode())
    print(text)


def _trained(study: StudySpec, store: Path, variables: Mapping[str, str]) -> Measured:
    """Train the study in another process with these variables; return what it recorded."""
    command = [sys.executable, "-m", "bench", "sweep", study.file, "--profile", study.profile, "--quiet"]
    cleared = {name: value for name, value in os.environ.items() if name not in set().union(*SETTINGS.values())}
    subprocess.run(
        [*map(str, command), "--store", str(store), "--out", str(store / "tables")],
        env={**cleared, "OMP_NUM_THREADS": "1", **variables}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    records = Store(store).records()
    chosen = publish.chosen(study, recorded(study, records))
    return Measured(records, {name: publish.table(study, chosen, name) for name in study.tables})


def _section(study: StudySpec, found: Mapping[str, Measured]) -> str:
    own = found[OWN]
    lines = [f"## {study.title}\n", f"`{study.file.parent.name}/{study.file.name}`, profile {study.profile}, "
             f"{len(own.records):,} runs, {len(own.tables)} tables.\n",
             _row(HEAD), _row(["---", *["---:"] * (len(HEAD) - 1)])]  # fmt: skip
    lines += [_row([setting, *_differences(each, own)]) for setting, each in found.items() if setting != OWN]
    return "\n".join(lines) + "\n"


def _differences(other: Measured, own: Measured) -> Iterator[str]:
    """Yield the columns of a row: the number of records that differ, and the largest differences."""
    if other.records.keys() != own.records.keys():
        yield from ("the data differ", "", "", "", "")
        return
    pairs = [(other.records[run], own.records[run]) for run in own.records]
    differing = [(a, b) for a, b in pairs if any(a[part] != b[part] for part in NUMBERS)]
    yield f"{len(differing):,} of {len(pairs):,}"
    yield _largest(abs(x - y) for a, b in differing for x, y in zip(_scores(a), _scores(b), strict=True)
                   if x is not None and y is not None)  # fmt: skip
    tables = [(other.tables[name], own.tables[name]) for name in own.tables]
    yield _largest(abs(x.mean - y.mean) for a, b in tables for x, y in zip(a.shown, b.shown, strict=True)
                   if x.mean is not None and y.mean is not None)  # fmt: skip
    ranks = [pair for a, b in tables if (pair := _ranked(a, b))]
    yield _largest(abs(x - y) for a, b in ranks for x, y in zip(a.average, b.average, strict=True))
    yield _largest(abs(a.p - b.p) for a, b in ranks)


def _scores(record: Record) -> list[float | None]:
    return [value for *_, value in record["scores"]]


def _ranked(*tables: Table) -> Any:
    """Return the rank tests of tables; None of tables without them."""
    try:
        return [rank_table(table) for table in tables if table.spec.ranks]
    except SilobenchError:
        return None


def _largest(values: Iterator[float]) -> str:
    largest = max(values, default=0.0)
    return f"{largest:.4f}" if largest else "0"


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _introduction() -> str:
    return f"""# Results on other processors

Measured by `python scripts/measure_processors.py`. Each row trains the study again with these environment variables and
compares it with a training without them, here: {listed(environment())}.

The columns give the number of records that differ in any number, and the largest differences: of one client's test
score in one run (all settings of the search), of a cell's mean in a table, of a method's mean rank, and of the p-value
of Friedman's test.
"""


if __name__ == "__main__":
    main()
