"""Notes in a store of the study files whose runs it holds, so that reports include studies outside experiments/."""

from __future__ import annotations

from pathlib import Path

from bench.files import write_whole
from bench.registry import folder
from bench.sweep.store import Store

NAME = "studies.txt"


def note(store: Path, study: Path) -> None:
    """Add the path of a ``study`` file to the notes of ``store``, once; reports include experiments/ anyway."""
    if folder("experiments").resolve() in study.resolve().parents:
        return
    store.mkdir(parents=True, exist_ok=True)
    with Store(store).lock():
        line, lines = str(study.resolve()), _lines(store)
        if line not in lines:
            write_whole(store / NAME, "".join(f"{each}\n" for each in [*lines, line]).encode())


def studies(store: Path) -> list[Path]:
    """Return the noted study files that still exist, in the order in which they were first run."""
    return [path for line in _lines(store) if (path := Path(line)).is_file()]


def _lines(store: Path) -> list[str]:
    file = store / NAME
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
