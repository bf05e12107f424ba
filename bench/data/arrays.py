"""A federation of arrays that somebody already has: checked, converted, and refused with a clear reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, get_args

import numpy as np

from bench.metrics import check as check_metric
from bench.types import Client, DataError, Federation, SpecError, Split, Task, nearest, position

FORMS = 'expected {"x": ..., "y": ...} or {"train": (x, y), "test": (x, y)}'
Arrays = tuple[np.ndarray, np.ndarray]


def federation_from_arrays(
    clients: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
    *,
    name: str,
    task: Task | None,
    metrics: tuple[str, ...],
    synthetic: bool,
) -> Federation:
    """See :meth:`bench.types.Federation.from_arrays`; raises :class:`DataError` or, for the task, :class:`SpecError`.

    Inputs become float32 (n, ...), targets (n, 1) float32 (binary) or (n,) int64 (multi-class, with as many classes
    as the highest class number of any client asks for). Empty test arrays count as no test samples.
    """
    if task is not None and task not in get_args(Task):
        raise SpecError(f"task = {task!r}: {nearest(str(task), get_args(Task))}")
    if not isinstance(clients, Mapping | Sequence):
        raise DataError(f"{name}: clients is a {type(clients).__name__}, expected a mapping or a sequence of mappings")
    for metric in metrics:
        check_metric(metric)
    named = clients.items() if isinstance(clients, Mapping) else enumerate(clients)
    parts = [(str(key), _parts(f"{name}: client {str(key)!r}", client)) for key, client in named]
    _require_equal_features(name, parts)

    highest = max((int(y.max(initial=0)) for _, split in parts for _, y in split.values()), default=0)
    task = task or ("binary" if highest <= 1 else "multiclass")
    classes = 2 if task == "binary" else highest + 1
    made = []
    for key, split in parts:
        splits = {part: _split(arrays, task) for part, arrays in split.items()}
        made.append(Client(key, splits["train"], splits.get("test")))
    return Federation(name, tuple(made), task, metrics=metrics, classes=classes, synthetic=synthetic)


def _parts(where: str, client: Any) -> dict[str, Arrays]:
    """The checked arrays of "train" and, where there are samples, of "test"."""
    if not isinstance(client, Mapping):
        raise DataError(f"{where} is a {type(client).__name__}, {FORMS}")
    for key in client:
        if key not in ("x", "y", "train", "test"):
            raise DataError(f"{where}: unknown key {key!r}: {nearest(str(key), ('x', 'y', 'train', 'test'))}")
    if set(client) == {"x", "y"}:
        given = {"train": (client["x"], client["y"])}
    elif client.get("train") is not None and "x" not in client and "y" not in client:
        given = {part: pair for part, pair in client.items() if pair is not None}
    else:
        raise DataError(f"{where} holds {', '.join(map(repr, client)) or 'nothing'}, {FORMS}")

    parts = {}
    for part, pair in given.items():
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(f"{where}: {part} must be a pair (x, y)")
        x, y = _inputs(f"{where}, {part}: x", pair[0]), _targets(f"{where}, {part}: y", pair[1])
        if part == "train" or len(x) or len(y):
            parts[part] = (x, y)
    return parts


def _numeric(where: str, given: Any) -> np.ndarray:
    """``given`` as an array of numbers; names the first row that is ragged or the first entry that is no number."""
    import torch

    if isinstance(given, torch.Tensor):
        given = given.detach().cpu()
        given = given.float() if given.is_floating_point() else given
    try:
        array = np.asarray(given)
    except ValueError:
        lengths = [len(row) if hasattr(row, "__len__") else 1 for row in given]
        row = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
        detail = f"row {row} has {lengths[row]} values, row 0 has {lengths[0]}" if row else "its rows differ in shape"
        raise DataError(f"{where} is ragged: {detail}") from None
    if array.dtype.kind in "biuf":
        return array
    if array.ndim == 0:
        raise DataError(f"{where} is a {type(given).__name__}, expected an array of numbers")
    entries = np.asarray(given, dtype=object)
    for place, entry in np.ndenumerate(entries):
        if not isinstance(entry, Real | np.bool_):
            raise DataError(f"{where} is {entry!r} in {position(place)}, expected a number")
    return entries.astype(np.float64)


def _inputs(where: str, given: Any) -> np.ndarray:
    x = _numeric(where, given)
    if x.ndim < 2 and x.size:
        raise DataError(f"{where} has shape {x.shape}, expected (samples, features); a single feature is (samples, 1)")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which the federation refuses
        return x.astype(np.float32)


def _targets(where: str, given: Any) -> np.ndarray:
    """Class numbers (n,) int64."""
    y = _numeric(where, given)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise DataError(f"{where} has shape {y.shape}, expected (samples,) or (samples, 1)")
    bad = np.flatnonzero(~(np.isfinite(y) & (y >= 0) & (y == np.floor(y))))
    if len(bad):
        raise DataError(f"{where} is {y[bad[0]]} in row {bad[0]}, expected class numbers 0, 1, ...")
    return y.astype(np.int64)


def _require_equal_features(name: str, parts: list[tuple[str, dict[str, Arrays]]]) -> None:
    shapes = [(client, part, x.shape[1:]) for client, split in parts for part, (x, _) in split.items() if len(x)]
    for client, part, shape in shapes:
        if shape != shapes[0][2]:
            raise DataError(
                f"{name}: client {client!r}, {part}: x has samples of shape {shape}, "
                f"those of client {shapes[0][0]!r} have {shapes[0][2]}; all clients need the same features"
            )


def _split(arrays: Arrays, task: Task) -> Split:
    import torch

    x, y = map(torch.from_numpy, arrays)
    return Split(x, y.float().unsqueeze(1) if task == "binary" else y)
