"""Study files, read: each of them once, for as long as it stays as it is."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bench.spec import profiles
from bench.spec.keys import first_fault
from bench.spec.profiles import PAPER
from bench.spec.sections import StudySection
from bench.spec.study import StudySpec, build
from bench.types import SpecError

LARGEST = 1_000_000  # bytes of a study file
KEPT = 256  # files, and studies


def read(file: Path, profile: str = PAPER) -> StudySpec:
    """The study in ``file``, as it stands or with a ``profile`` over it.

    Raises :class:`SpecError` naming the file, the key and what was expected.
    """
    return _read(file, profile, _text(file))


def profile_names(file: Path) -> list[str]:
    """The profiles that the study in ``file`` can be read with, that of the paper first."""
    return profiles.names(parse(file))


def parse(file: Path) -> dict[str, Any]:
    """What stands in ``file``, unchecked; raises :class:`SpecError` where it cannot be read."""
    return _parse(file, _text(file))


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST:
            raise SpecError(f"{file}: larger than {LARGEST:,} bytes; a study file names settings, it holds no data")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}; give the path of a study file") from None
    except ValueError as error:  # not UTF-8
        raise SpecError(f"{file}: {error}") from None


@lru_cache(KEPT)
def _parse(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # not TOML
        raise SpecError(f"{file}: {error}") from None


@lru_cache(KEPT)
def _read(file: Path, profile: str, text: str) -> StudySpec:
    where = str(file) if profile == PAPER else f"{file}, profile {profile}"
    parsed = _parse(file, text)
    try:
        content = profiles.laid_over(parsed, profile)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from None
    try:
        return build(file, StudySection.model_validate(content), profile)
    except ValidationError as error:
        raise SpecError(f"{where}: {first_fault(error)}") from None
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None
