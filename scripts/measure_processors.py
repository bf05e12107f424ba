"""Differences between results of the same studies under other instructions of the processor and without kernels.

    python scripts/measure_processors.py FOLDER

Trains every study in a process of its own for each setting of environment variables, and compares records and tables
with those of this machine's own setting. FOLDER keeps the records, so that a repeated call continues. Writes
results/benchmarks/processors.md; nothing here is a test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.files import write_whole
from bench.registry import folder
from bench.report import publish
from bench.report.tables.rank_tests import rank_table
from bench.report.tables.table import Cell, Table
from bench.spec import StudySpec, read
from bench.sweep.store import Record, Store
from bench.sweep.study import recorded
from bench.sweep.summaries import environment

ROOT = Path(__file__).parent.parent
OWN, AVX2, NO_KERNELS = "none", "ATEN_CPU_CAPABILITY=avx2", "CC=false (no kernels)"
SETTINGS: dict[str, dict[str, str]] = {
    OWN: {},
    "ATEN_CPU_CAPABILITY=avx512": {"ATEN_CPU_CAPABILITY": "avx512"},
    AVX2: {"ATEN_CPU_CAPABILITY": "avx2"},
    "ATEN_CPU_CAPABILITY=default": {"ATEN_CPU_CAPABILITY": "default"},
    "MKL_CBWR=AVX2": {"MKL_CBWR": "AVX2"},
    "MKL_CBWR=COMPATIBLE": {"MKL_CBWR": "COMPATIBLE"},
    "ONEDNN_MAX_CPU_ISA=AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "OPENBLAS_CORETYPE=Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    NO_KERNELS: {"CC": "false"},
    "CC=false, ATEN_CPU_CAPABILITY=avx2": {"CC": "false", "ATEN_CPU_CAPABILITY": "avx2"},
}
# Profile and settings of each study; the last one is slow without its kernel.
STUDIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "quickstart/quickstart.toml": ("paper", tuple(SETTINGS)),
    "fenda/heart.toml": ("paper", tuple(SETTINGS)),
    "global_layers/heart.toml": ("short", (OWN, AVX2, NO_KERNELS)),
}
# Parts of a record that training computes.
NUMBERS = ("status", "diverged", "scores", "validation", "aggregated", "curves", "traces")
HEAD = ("setting", "records that differ", "score, any run", "score, run in a table", "cell", "mean rank", "Friedman p",
        "changed verdicts")  # fmt: skip

INTRODUCTION = """# Results on other processors

Measured by `python scripts/measure_processors.py FOLDER`. Each row trains the study again with these variables and
compares it with a training without them, the processor's own setting.

The columns give the number of records that differ in any number, and the largest differences: of one client's test
score in any run of the search, and in the runs that both choose for their tables; of the mean in a cell of a table; of
a method's mean rank and the p-value of Friedman's test ("none": the tables have no rank tests). The last column counts
cells whose verdict or asterisk changes.
"""


@dataclass(frozen=True)
class Measured:
    """The records of a study under one setting, its tables, and the runs of the settings chosen for them."""

    records: Mapping[str, Record]
    tables: Mapping[str, Table]
    chosen: frozenset[str]


def main() -> None:
    room, sections = Path(sys.argv[1]), []
    for name, (profile, settings) in STUDIES.items():
        study = read(folder("experiments") / name, profile)
        found = {
            setting: _trained(study, room / f"{study.file.parent.name}-{number}", SETTINGS[setting])
            for number, setting in enumerate(SETTINGS)
            if setting in settings
        }
        sections.append(_section(study, found))
    text = "\n".join([INTRODUCTION, *sections])
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
    runs = frozenset(record["run"] for choice in chosen.values() for record in choice.records if record)
    return Measured(records, {name: publish.table(study, chosen, name) for name in study.tables}, runs)


def _section(study: StudySpec, found: Mapping[str, Measured]) -> str:
    own = found[OWN]
    (made_in,) = {environment(record) for record in own.records.values()}
    lines = [f"## {study.title}\n", f"`{study.file.parent.name}/{study.file.name}`, profile {study.profile}: "
             f"{len(own.records):,} runs, tables: {len(own.tables)}.\n", f"Own setting: {made_in}.\n",
             _row(HEAD), _row(["---", *["---:"] * (len(HEAD) - 1)])]  # fmt: skip
    lines += [_row([setting, *_differences(each, own)]) for setting, each in found.items() if setting != OWN]
    return "\n".join(lines) + "\n"


def _differences(other: Measured, own: Measured) -> Iterator[str]:
    """Yield the columns of a row: the number of records that differ, and the largest differences."""
    if other.records.keys() != own.records.keys():
        raise SystemExit("the data differ between the settings, so no records can be compared")
    differing = [
        run for run in own.records if any(other.records[run][part] != own.records[run][part] for part in NUMBERS)
    ]
    yield f"{len(differing):,} of {len(own.records):,}"
    for runs in (own.records.keys(), own.chosen & other.chosen):
        yield _largest(_score_differences(other.records[run], own.records[run]) for run in runs)
    tables = [(other.tables[name], own.tables[name]) for name in own.tables]
    yield _largest(_gaps([cell.mean for cell in a.shown], [cell.mean for cell in b.shown]) for a, b in tables)
    ranks = [(rank_table(a), rank_table(b)) for a, b in tables if a.spec.ranks]
    yield _largest(_gaps(a.average, b.average) for a, b in ranks)
    yield _largest(_gaps([a.p], [b.p]) for a, b in ranks)
    changed = [cell for a, b in tables for cell in zip(map(_verdict, a.shown), map(_verdict, b.shown), strict=True)]
    yield str(sum(before != after for before, after in changed))


def _score_differences(one: Record, other: Record) -> Iterator[float]:
    return _gaps([value for *_, value in one["scores"]], [value for *_, value in other["scores"]])


def _verdict(cell: Cell) -> tuple[str, bool]:
    return cell.verdict, cell.above_silo


def _gaps(one: Iterable[float | None], other: Iterable[float | None]) -> Iterator[float]:
    """Yield the absolute differences of the numbers that both have."""
    return (abs(a - b) for a, b in zip(one, other, strict=True) if a is not None and b is not None)


def _largest(gaps: Iterable[Iterable[float]]) -> str:
    largest = max((gap for several in gaps for gap in several), default=None)
    return "none" if largest is None else f"{largest:.4f}" if largest else "0"


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
