"""Data sets: finding and checking raw files, cutting them into clients, and taking in arrays of your own."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench import registry
from bench.data import flamby
from bench.types import Federation, SpecError, nearest

SHARE = "subsample"  # an option of every data set


def load_dataset(name: str, root: str | Path | None = None, **options: Any) -> Federation:
    """The registered data set ``name`` as a federation that holds all its options, defaults included.

    Raw files are looked for in ``root`` first (see :func:`bench.data.files.download.locate`). "flamby:<task>" names a
    task of an installed FLamby (see :mod:`bench.data.flamby`). The option ``subsample`` keeps a share of the
    samples. Raises :class:`SpecError` for an unknown data set or option, :class:`DataError` for a missing or damaged
    file.
    """
    adapter = _adapter(name)
    defaults = {key: p.default for key, p in inspect.signature(adapter).parameters.items() if key != "root"}
    for option in options:
        if option not in (*defaults, SHARE):
            raise SpecError(f"data set {name!r} has no option {option!r}: {nearest(option, defaults)}")
    own = {option: value for option, value in options.items() if option != SHARE}
    federation: Federation = adapter(None if root is None else Path(root), **own)
    if SHARE in options:
        from bench.data.subsample import subsampled  # needs torch, which listing data sets must not

        federation = subsampled(federation, options[SHARE])
    # What the adapter found out about an option (the hash of a file, say) stands for it.
    return dataclasses.replace(federation, options={**defaults, **options, **federation.options})


def _adapter(name: str) -> Callable[..., Federation]:
    if name.startswith(flamby.PREFIX):
        return partial(flamby.federation, name.removeprefix(flamby.PREFIX))
    adapter: Callable[..., Federation] = registry.load("datasets", name)
    return adapter
