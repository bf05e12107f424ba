"""This machine: its description in cost records, its C compiler, and measurements kept in the cache."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import __version__
from bench.files import cache_folder, write_whole
from bench.types import content_hash


def name() -> str:
    """Return a description: system, processor, number of cores, and whether there is no C compiler."""
    without = "" if shutil.which(compiler()[0]) else ", no C compiler"
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{without}"


def compiler() -> list[str]:
    """Return the command that compiles C: the variable ``CC``, or else ``cc``."""
    return shlex.split(os.environ.get("CC") or "cc")


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
    here = [platform.node(), name(), sys.version, version("torch"), __version__]
    return cache_folder() / folder / f"{content_hash({'machine': here, 'what': what})}.json"
