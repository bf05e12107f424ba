"""The table of measure_tracing.py."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

OWN = "recorder"  # the tracer with which the others are compared
INTRODUCTION = """# Tracing

Measured by `python scripts/measure_tracing.py`: {machine}.

All times are CPU times. `cold` is the time of tracing all hooks of a round for the first time in a process; it contains
the import of PyTorch's compiler, 1 s, which the derivatives of every training need. `again` is the second time, when
nothing is imported any more. Both contain one call of each hook. `step` is one replayed local step of everything that
is stacked, the least of several repetitions. Same bits: after some steps, the state equals that of the recorder.
`scripts/tracers.py` describes the tracers.
"""


@dataclass(frozen=True)
class Line:
    """CPU seconds of tracing all hooks, the first time in a process and again; the rest is about the local step.

    ``warm`` are CPU microseconds of a step, ``memory`` is the peak of the process after training once, in bytes, and
    ``digest`` identifies the state after some steps.
    """

    work: str
    tracer: str
    cold: float
    again: float
    operations: int
    warm: float
    memory: int
    digest: str
    load: float


@dataclass(frozen=True)
class StudyLine:
    """CPU seconds of a study's training, and the peak of memory in bytes."""

    tracer: str
    seconds: float
    memory: int
    load: float


def markdown(
    titles: Mapping[str, str], lines: Sequence[Line], studies: Sequence[StudyLine], failures: Mapping[str, str]
) -> str:
    """Return a table for every work and one for the study, with a description of the machine."""
    loads = sorted([*(line.load for line in lines), *(study.load for study in studies)])
    machine = (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"torch {torch.__version__}, 1 thread; load of the machine {loads[0]:.1f} to {loads[-1]:.1f}"
    )
    text = [INTRODUCTION.format(machine=machine)]
    for work in dict.fromkeys(line.work for line in lines):
        text += [f"## {work}", "", f"{titles[work]}.", "", *_rows([line for line in lines if line.work == work]), ""]
    text += ["## A whole study", "", "All runs of the quickstart's study, trained in one process.", ""]
    text += ["| tracer | CPU time, s | peak memory, MB |", "|---|---:|---:|"]
    text += [f"| {study.tracer} | {study.seconds:.1f} | {study.memory / 1e6:,.0f} |" for study in studies]
    text += ["", *(f"- {what} fails: {message}" for what, message in failures.items())]
    return "\n".join(text).rstrip() + "\n"


def _rows(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the table of one work, a row for each tracer."""
    yield "| tracer | operations | cold, s | again, s | step, µs | of the recorder's | peak memory, MB | same bits |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    (own,) = (line for line in lines if line.tracer == OWN)
    for line in lines:
        cells = [
            line.tracer, str(line.operations or "-"), f"{line.cold:.2f}", f"{line.again:.2f}", f"{line.warm:,.0f}",
            f"{line.warm / own.warm:.2f}", f"{line.memory / 1e6:,.0f}", "yes" if line.digest == own.digest else "no",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
