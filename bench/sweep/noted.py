"""Notes in a store of the study files whose runs it holds, so that reports include studies outside experiments/."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from bench.registry import folder

NAME = "studies.txt"


def note(store: Path, study: Path) -> None:
    """Add the path of a ``study`` file to the notes of ``store``, once; reports include experiments/ anyway."""
    if folder("experiments").resolve() in study.resolve().parents:
        return
    store.mkdir(parents=True, exist_ok=True)
    with FileLock(store / ".lock"):
        line = str(study.resolve())
        file = store / NAME
        if line not in (file.read_text(encoding="utf-8").splitlines() if file.exists() else ()):
            with file.open("a", encoding="utf-8") as opened:
                opened.write(f"{line}\n")


def studies(store: Path) -> list[Path]:
    """Return the noted study files that still exist, in the order in which they were first run."""
    file = store / NAME
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [path for line in lines if (path := Path(line)).is_file()]
