"""This machine: what it is called in records of costs, and what was found out about it before."""

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
    """What is said of a machine beside a cost: system, processor, cores, and whether it lacks a C compiler."""
    without = "" if shutil.which(compiler()[0]) else ", no C compiler"
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{without}"


def compiler() -> list[str]:
    """The command that compiles C: ``CC``, or else ``cc``."""
    return shlex.split(os.environ.get("CC") or "cc")


def remember(folder: str, what: Any, found: Any) -> None:
    """Keep in a folder of the cache what was found (JSON) about ``what`` (JSON), for :func:`recall`."""
    with suppress(OSError):  # a cache that only others may write to
        write_whole(_memory(folder, what), json.dumps(found).encode())


def recall(folder: str, what: Any) -> Any:
    """What was found about ``what`` on this machine with these versions; None if nothing was."""
    with suppress(OSError, ValueError):
        return json.loads(_memory(folder, what).read_bytes())
    return None


def _memory(folder: str, what: Any) -> Path:
    here = [platform.node(), name(), sys.version, version("torch"), __version__]
    return cache_folder() / folder / f"{content_hash({'machine': here, 'what': what})}.json"
