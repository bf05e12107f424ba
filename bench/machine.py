"""This machine: its description in cost records, its C compiler, and measurements kept in the cache."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import __version__
from bench.files import cache_folder, write_whole
from bench.types import content_hash

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
    with suppress(OSError):  # a cache folder without write permission
        write_whole(_memory(folder, what), json.dumps(found).encode())


def recall(folder: str, what: Any) -> Any:
    """Return the measurement of ``what`` on this machine with these versions; None if there is none."""
    with suppress(OSError, ValueError):
        return json.loads(_memory(folder, what).read_bytes())
    return None


def _memory(folder: str, what: Any) -> Path:
    c = [*compiler(), shutil.which(compiler()[0])]
    here = [platform.node(), name(), c, sys.version, version("torch"), __version__]
    return cache_folder() / folder / f"{content_hash({'machine': here, 'what': what})}.json"
