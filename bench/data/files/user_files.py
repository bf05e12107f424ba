"""What nobody can pin by a hash: files that users prepare or are granted, and libraries that only some data need."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from bench.data.files import download
from bench.data.files.archive import extract
from bench.files import cache_folder
from bench.types import DataError


def find_any(names: Sequence[str], root: Path | None, remedy: str) -> Path:
    """The first file or folder called one of ``names`` below ``root``, ``BENCH_DATA`` or the cache.

    Earlier names go before later ones. Raises :class:`DataError` that ends with the ``remedy``: how to come by it.
    """
    folders = [*download.data_folders(root), cache_folder()]
    places = [folder / name for name in names for folder in folders]
    for place in places:
        if place.exists():
            return download.note(place)
    raise DataError(f"neither {' nor '.join(names)} in {', '.join(map(str, folders))}; {remedy}")


@contextmanager
def unpacked(source: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """The folder ``source`` itself, or what is ``wanted`` of the archive ``source``, unpacked until the block ends."""
    if source.is_dir():
        yield source
        return
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpacked-", dir=cache) as folder:
        extract(source, Path(folder), wanted)
        yield Path(folder)


def optional(module: str, extra: str) -> ModuleType:
    """A library that is not installed by default; raises :class:`DataError` naming the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(f"this needs the library {module}: pip install 'silobench[{extra}]'") from error
