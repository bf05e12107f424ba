"""Study files that the tables and figures in a folder were made from, so that no study overwrites another's."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock

from bench.files import write_whole
from bench.types import SpecError

NAME = ".studies.json"


def check(out: Path, stems: Iterable[str], study: Path) -> None:
    """Raise :class:`SpecError` if a table or figure (``stems`` below ``out``) was made from another study file.

    Files that are gone, and those of a study file that is gone, may be replaced.
    """
    known = _read(out)
    for stem in stems:
        other = Path(known.get(stem, study))
        if other.resolve() != study.resolve() and other.exists() and any(_files(out / stem)):
            what = f"{stem!r} is also the id of a table or figure of {other}, whose files are in {out}"
            raise SpecError(f"{study}: {what}; give one of them another id, or write to another folder with --out")


def note(out: Path, stems: Iterable[str], study: Path) -> None:
    """Note that the tables and figures (``stems`` below ``out``) were made from a study file."""
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / f"{NAME}.lock"):
        known = _read(out) | dict.fromkeys(stems, str(study.resolve()))
        write_whole(out / NAME, json.dumps(known, indent=1, sort_keys=True).encode())


def _read(out: Path) -> dict[str, str]:
    """Return the study file by stem; empty if there are no notes, or none that can be read."""
    try:
        known = json.loads((out / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {stem: study for stem, study in known.items() if isinstance(study, str)} if isinstance(known, dict) else {}


def _files(stem: Path) -> Iterable[Path]:
    return stem.parent.glob(f"{stem.name}.*") if stem.parent.is_dir() else ()
