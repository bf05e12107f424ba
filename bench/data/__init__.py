"""Data sets: raw files, readers of file formats, partitions into clients, and conversion of arrays."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench import registry
from bench.data import flamby
from bench.data.arrays import from_arrays
from bench.data.files import cards
from bench.types import Federation, SpecError, nearest

Federation.from_arrays = from_arrays  # here only: bench.types cannot import the conversion of arrays
SUBSAMPLE = "subsample"  # an option of every data set


def load_dataset(name: str, root: str | Path | None = None, **options: Any) -> Federation:
    """Return the registered data set ``name`` as a federation, whose ``options`` include defaults.

    Raw files are searched in ``root`` first (see :func:`bench.data.files.locate.locate`). "flamby:<task>" is a task of
    an installed FLamby (see :mod:`bench.data.flamby`). The option ``subsample`` keeps a share of the samples. Licence
    and citation come from the card if the adapter gives none; synthetic data have no licence. Raises
    :class:`SpecError` for an unknown data set or option, :class:`DataError` for a missing or damaged file.
    """
    adapter = _adapter(name)
    defaults = {key: p.default for key, p in inspect.signature(adapter).parameters.items() if key != "root"}
    for option in options:
        if option not in (*defaults, SUBSAMPLE):
            raise SpecError(f"data set {name!r} has no option {option!r}: {nearest(option, defaults)}")
    own = {option: value for option, value in options.items() if option != SUBSAMPLE}
    federation: Federation = adapter(None if root is None else Path(root), **own)
    if SUBSAMPLE in options:
        from bench.data.subsample import subsampled  # imports torch, which is slow

        federation = subsampled(federation, options[SUBSAMPLE])
    card = cards.read(name)
    licence = "" if federation.synthetic else card.facts.get("Licence", "")
    return dataclasses.replace(
        federation,
        licence=federation.licence or licence,
        citation=federation.citation or card.citation,
        # Options that the adapter determined (the hash of a file, for instance) replace those that were given.
        options={**defaults, **options, **federation.options},
    )


def _adapter(name: str) -> Callable[..., Federation]:
    if name.startswith(flamby.PREFIX):
        return partial(flamby.federation, name.removeprefix(flamby.PREFIX))
    adapter: Callable[..., Federation] = registry.load("datasets", name)
    return adapter
