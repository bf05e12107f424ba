"""Study files, read: each of them once, for as long as it stays as it is."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from bench.spec import profiles, toml
from bench.spec.keys import first_fault
from bench.spec.profiles import PAPER
from bench.spec.sections import StudySection
from bench.spec.study import StudySpec, build
from bench.types import SpecError

KEPT = 256  # studies


def read(file: Path, profile: str = PAPER) -> StudySpec:
    """The study in ``file``, as it stands or with a ``profile`` over it.

    Raises :class:`SpecError` naming the file, the key and what was expected.
    """
    return _read(file, profile, _text(file))


def profile_names(file: Path) -> list[str]:
    """The profiles that the study in ``file`` can be read with, that of the paper first."""
    return profiles.names(toml.parsed(file, _text(file)))


def _text(file: Path) -> str:
    return toml.text(file, "; give the path of a study file")


@lru_cache(KEPT)
def _read(file: Path, profile: str, text: str) -> StudySpec:
    where = str(file) if profile == PAPER else f"{file}, profile {profile}"
    parsed = toml.parsed(file, text)
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
