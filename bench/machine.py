"""This machine: its description in cost records, its C compiler, and measurements kept in the cache."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from functools import cache
from importlib.metadata import version
from typing import Any

from bench import __version__, files

computed_by_torch: dict[str, str] = {}  # kernels that this process cannot use, and why


def name() -> str:
    """Return system, processor and number of cores."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def description() -> str:
    """Return the name, and the kernels that torch computes in this process instead, which takes longer."""
    return ", ".join([name(), *(f"{kernel}: torch ({reason})" for kernel, reason in computed_by_torch.items())])


def compiler() -> list[str]:
    """Return the words of the command that compiles C: the variable ``CC``, or else ``cc``."""
    return os.environ.get("CC", "").split() or ["cc"]


def remember(folder: str, what: Any, found: Any) -> None:
    """Keep a measurement ``found`` of ``what`` (both JSON) in a folder of the cache, for :func:`recall`."""
    files.remember(folder, _question(what), found)


def recall(folder: str, what: Any) -> Any:
    """Return the measurement of ``what`` on this machine with these versions; None if there is none."""
    return files.recall(folder, _question(what))


def _question(what: Any) -> dict[str, Any]:
    c = [*compiler(), shutil.which(compiler()[0])]
    return {"machine": [platform.node(), name(), c, sys.version, _torch(), __version__], "what": what}


@cache
def _torch() -> str:
    return version("torch")
