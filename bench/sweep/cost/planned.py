"""Estimated run times of studies that were planned on this machine, kept in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench import machine

if TYPE_CHECKING:
    from bench.sweep.cost.estimate import StudyEstimate


def remember(study: Path, profile: str, estimate: StudyEstimate) -> None:
    """Keep the estimated time of a whole study; do nothing if data are missing or some runs are finished already."""
    if estimate.seconds is not None and estimate.to_train == estimate.runs:
        machine.remember("plans", _key(study, profile), estimate.wall(1))


def seconds(study: Path, profile: str) -> float | None:
    """Return the seconds that the whole study takes here with one worker; None if this version was never planned."""
    found: float | None = machine.recall("plans", _key(study, profile))
    return found


def _key(study: Path, profile: str) -> dict[str, str]:
    from bench.spec import source

    return {"study": source(study), "profile": profile}
