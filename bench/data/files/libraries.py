"""Versions of the libraries that turn raw files into federations; another version may give other numbers."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

DECODERS = ("nibabel", "numpy", "pandas", "pillow", "torch")
ALL = (*DECODERS, "pyarrow", "safetensors", "scikit-learn", "tokenizers")


@cache
def versions(libraries: tuple[str, ...]) -> dict[str, str | None]:
    """Return the version of each library; None if it is not installed."""
    return {library: _version(library) for library in libraries}


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None
