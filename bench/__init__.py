"""silobench: reproducible benchmarks of personalised cross-silo federated learning.

``load_dataset``, ``Federation``, ``run`` and ``catalogue`` are the public interface. Importing ``bench`` is quick:
torch is imported by what needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.api import Result, run
    from bench.data import load_dataset
    from bench.registry import catalogue
    from bench.types import Client, DataError, Federation, SilobenchError, SpecError, Split

__version__ = "0.1.0"
_HOMES = {
    "Client": "bench.types",
    "DataError": "bench.types",
    "Federation": "bench.data",
    "Result": "bench.api",
    "SilobenchError": "bench.types",
    "SpecError": "bench.types",
    "Split": "bench.types",
    "catalogue": "bench.registry",
    "load_dataset": "bench.data",
    "run": "bench.api",
}
__all__ = [
    "Client",
    "DataError",
    "Federation",
    "Result",
    "SilobenchError",
    "SpecError",
    "Split",
    "catalogue",
    "load_dataset",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bench' has no attribute {name!r}")
