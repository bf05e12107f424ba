"""Files of experiments/ and studies as TOML: each of them parsed once, for as long as it stays as it is."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.types import SpecError

LARGEST = 1_000_000  # bytes of a study file
KEPT = 256  # files


def parse(file: Path) -> dict[str, Any]:
    """What stands in ``file``, unchecked, the same to all who ask; :class:`SpecError` where it cannot be read."""
    return parsed(file, text(file))


def text(file: Path, hint: str = "") -> str:
    """The content of ``file``; raises :class:`SpecError`, which ends with ``hint``, where it cannot be read."""
    try:
        if file.stat().st_size > LARGEST:
            raise SpecError(f"{file}: larger than {LARGEST:,} bytes; a study file names settings, it holds no data")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}{hint}") from None
    except ValueError as error:  # not UTF-8
        raise SpecError(f"{file}: {error}") from None


@lru_cache(KEPT)
def parsed(file: Path, content: str) -> dict[str, Any]:
    """The ``content`` of ``file`` as TOML; raises :class:`SpecError` where it is none."""
    try:
        return tomllib.loads(content)
    except ValueError as error:  # not TOML
        raise SpecError(f"{file}: {error}") from None
