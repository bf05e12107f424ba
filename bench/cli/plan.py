"""The command ``silobench plan``: what a study would train, download and cost, before anything of it runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench import machine
from bench.cli.progress import duration

if TYPE_CHECKING:
    from bench.sweep.estimate import Estimate


def text(found: Estimate, workers: int) -> str:
    """The estimate in a few lines, for so many worker processes (0 is none beside this one)."""
    lines = [found.title, f"  runs         {found.runs}, {found.runs - found.to_train} of them on record"]
    for each in found.missing:
        size = "" if each.size is None else f", {each.size / 1e6:,.1f} MB"
        lines.append(f"  to fetch     {each.data}: {', '.join(each.files)}{size}")
    if found.seconds is None:
        names = ", ".join(f"`silobench data prepare {each.data}`" for each in found.missing)
        return "\n".join([*lines, f"  time         not known before the data are here: {names}"])
    share = f" with {workers} workers" if workers > 1 else ""
    return "\n".join([
        *lines,
        f"  run batches  {len(found.seconds)}, {found.timed} of them like those that were timed",
        f"  time         about {duration(found.wall(max(workers, 1)))}{share}",
        f"  memory       about {found.memory / 1e9:.1f} GB for each worker",
        f"  disk         about {found.disk / 1e6:.1f} MB of records",
    ])  # fmt: skip


def document(found: Estimate, workers: int) -> str:
    """The estimate as JSON, times in seconds and sizes in bytes."""
    seconds = None if found.seconds is None else found.wall(max(workers, 1))
    run_batches = None if found.seconds is None else len(found.seconds)
    return json.dumps({**asdict(found), "run_batches": run_batches, "seconds": seconds}, indent=2)


def note(study: Path, profile: str, found: Estimate) -> None:
    """Remember what the whole study takes on this machine, for :func:`noted`."""
    if found.seconds is not None and found.to_train == found.runs:
        machine.remember("plans", _asked(study, profile), found.wall(1))


def noted(study: Path, profile: str) -> float | None:
    """Seconds that the whole study takes here with one worker, if `silobench plan` has been asked for it as it is."""
    seconds: float | None = machine.recall("plans", _asked(study, profile))
    return seconds


def _asked(study: Path, profile: str) -> dict[str, str]:
    return {"study": study.read_text(encoding="utf-8"), "profile": profile}
