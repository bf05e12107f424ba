"""Import of libraries that only some commands and data sets need."""

from __future__ import annotations

import importlib
from types import ModuleType

from bench.types import SilobenchError


def optional(module: str, extra: str) -> ModuleType:
    """Import a library that is not installed by default.

    Raises :class:`SilobenchError` with the command that installs the ``extra`` of silobench which contains it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SilobenchError(f"the library {module} is not installed; run pip install 'silobench[{extra}]'") from error
