"""Reading study files, each once for as long as its text stays the same."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from bench.spec.build import build
from bench.spec.files import profiles, toml
from bench.spec.files.defaults import with_defaults
from bench.spec.files.layers import Layers, base_of, layered
from bench.spec.files.merge import merged
from bench.spec.files.profiles import PAPER
from bench.spec.files.rows import with_rows
from bench.spec.sections.faults import StudyError, dotted, first_fault
from bench.spec.sections.study import StudySection
from bench.spec.study import StudySpec
from bench.types import SpecError

CACHED = 256  # studies
HINT = "; give the path of a study file"


def read(file: Path, profile: str = PAPER) -> StudySpec:
    """Return the study in ``file``, with a ``profile`` over it if one is named.

    Raises :class:`SpecError` with the file that has the faulty key, the key and what was expected.
    """
    text = toml.text(file, HINT)
    base = base_of(file, toml.parsed(file, text))
    return _read(file, profile, text, "" if base is None else toml.text(base))


def source(file: Path) -> str:
    """Return the text of a study file, followed by that of its base file."""
    text = toml.text(file, HINT)
    base = base_of(file, toml.parsed(file, text))
    return text if base is None else text + toml.text(base)


def profile_names(file: Path) -> list[str]:
    """Return the profiles that the study in ``file`` can be read with, "paper" first."""
    content = toml.parsed(file, toml.text(file, HINT))
    base = base_of(file, content)
    return profiles.names(content if base is None else merged(toml.parse(base), content))


@lru_cache(CACHED)
def _read(file: Path, profile: str, text: str, base: str) -> StudySpec:
    layers = layered(file, toml.parsed(file, text), profile)
    try:
        content = with_rows(with_defaults(layers.content))
        return build(file, StudySection.model_validate(content), profile)
    except ValidationError as error:
        raise _located(first_fault(error), layers) from None
    except StudyError as fault:
        raise _located(fault, layers) from None


def _located(fault: StudyError, layers: Layers) -> SpecError:
    """Return the fault with the file, and the key as it is written there."""
    name, where = layers.locate(fault.where)
    return SpecError(f"{name}: {dotted(where)}: {fault.text}" if where else f"{name}: {fault.text}")
