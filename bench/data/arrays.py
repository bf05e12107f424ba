"""Federations of arrays: conversion and checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, get_args

import numpy as np

from bench.metrics import check
from bench.types import Client, DataError, Federation, SpecError, Split, Task, nearest, position

FORMS = 'expected {"x": ..., "y": ...} or {"train": (x, y), "test": (x, y)}'
Arrays = tuple[np.ndarray, np.ndarray]


def from_arrays(
    clients: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
    *,
    name: str = "own_data",
    task: Task | None = None,
    classes: int | None = None,
    metrics: Sequence[str] = ("accuracy",),
    test_share: float = 0.2,
    synthetic: bool = False,
) -> Federation:
    """Return a federation of your own arrays; also available as ``Federation.from_arrays``.

    ``clients`` maps a client's name to ``{"train": (x, y), "test": (x, y)}`` or to ``{"x": x, "y": y}`` (arrays,
    tensors or nested lists). A sequence of such mappings names the clients 0, 1, .... Of clients given as ``{"x",
    "y"}``, the share ``test_share`` of the samples is held out for testing, at least one of two or more; they are drawn
    by the client's name, so that they are the same in every call. Clients with "train" and without "test" have no
    scores. Inputs (n, ...) become float32.

    The task is binary if every target is 0 or 1, and multi-class otherwise: targets are class numbers from 0. Without
    ``classes`` every class number up to the highest must occur.

    Raises :class:`DataError` for arrays that cannot be used, and :class:`SpecError` for the other arguments.
    """
    if task is not None and task not in get_args(Task):
        raise SpecError(f"task = {task!r}: {nearest(str(task), get_args(Task))}")
    if isinstance(test_share, bool) or not isinstance(test_share, int | float) or not 0 <= test_share < 1:
        raise SpecError(f"test_share = {test_share!r}: expected a share of at least 0 and below 1")
    for metric in metrics:
        check(metric)
    if not isinstance(clients, Mapping | Sequence):
        raise DataError(f"{name}: clients is a {type(clients).__name__}, expected a mapping or a sequence of mappings")
    named = clients.items() if isinstance(clients, Mapping) else enumerate(clients)
    parts = [(str(key), _parts(f"{name}: client {str(key)!r}", client)) for key, client in named]
    _require_equal_features(name, parts)

    labels = [y for _, split in parts for _, y in split.values()]
    highest = max((int(y.max(initial=0)) for y in labels), default=0)
    task = task or ("binary" if highest <= 1 and classes in (None, 2) else "multiclass")
    federated = []
    for key, split in parts:
        if set(split) == {"all"}:
            split = _held_out(split["all"], test_share, key)
        splits = {part: _split(arrays, task) for part, arrays in split.items()}
        federated.append(Client(key, splits["train"], splits.get("test")))
    count = _classes(name, task, classes, labels, highest)
    return Federation(name, tuple(federated), task, metrics=tuple(metrics), classes=count, synthetic=synthetic)


def _classes(name: str, task: Task, classes: int | None, labels: Sequence[np.ndarray], highest: int) -> int:
    """Return the number of classes: as given, or the highest class number + 1 if every class occurs."""
    if task != "multiclass":
        if classes not in (None, 2):
            raise SpecError(f"{name}: classes = {classes!r}: a {task} task has 2 classes; leave classes out")
        return 2
    if classes is not None:
        if isinstance(classes, bool) or not isinstance(classes, int) or classes < 2:
            raise SpecError(f"{name}: classes = {classes!r}: expected a whole number of at least 2")
        return classes
    present = {int(label) for y in labels for label in np.unique(y)}
    absent = next((label for label in range(highest) if label not in present), None)
    if absent is not None:
        raise DataError(
            f"{name}: no sample has class {absent}, the highest class number is {highest}; "
            f"number the classes from 0, or give classes = {highest + 1}"
        )
    return highest + 1


def _held_out(arrays: Arrays, share: float, client: str) -> dict[str, Arrays]:
    """Split a client's arrays into "train" and, if the share asks for any sample, "test"."""
    from bench.rng import derive, permutation  # needs torch, which listing data sets must not

    x, y = arrays
    tested = max(math.floor(len(x) * share + 1e-9), int(share > 0 and len(x) > 1))
    order = permutation(derive("test samples", client), len(x)).numpy()
    train, test = np.sort(order[tested:]), np.sort(order[:tested])
    return {"train": (x[train], y[train])} | ({"test": (x[test], y[test])} if tested else {})


def _parts(where: str, client: Any) -> dict[str, Arrays]:
    """Return the checked arrays of "train" and "test", or of "all" samples if the client gives no split."""
    if not isinstance(client, Mapping):
        raise DataError(f"{where} is a {type(client).__name__}, {FORMS}")
    for key in client:
        if key not in ("x", "y", "train", "test"):
            raise DataError(f"{where}: unknown key {key!r}: {nearest(str(key), ('x', 'y', 'train', 'test'))}")
    if set(client) == {"x", "y"}:
        given = {"all": (client["x"], client["y"])}
    elif client.get("train") is not None and "x" not in client and "y" not in client:
        given = {part: pair for part, pair in client.items() if pair is not None}
    else:
        raise DataError(f"{where} holds {', '.join(map(repr, client)) or 'nothing'}, {FORMS}")

    parts = {}
    for part, pair in given.items():
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(f"{where}: {part} must be a pair (x, y)")
        place = where if part == "all" else f"{where}, {part}"
        x, y = _inputs(f"{place}: x", pair[0]), _targets(f"{place}: y", pair[1])
        if len(x) != len(y):
            raise DataError(f"{place}: {len(x)} inputs but {len(y)} targets; give one target per input")
        if part != "test" or len(x) or len(y):
            parts[part] = (x, y)
    return parts


def _numeric(where: str, given: Any) -> np.ndarray:
    """Return ``given`` as an array of numbers; raise :class:`DataError` with the first row or entry that is not."""
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
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite
        x = x.astype(np.float32)
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        place = bad[0].tolist()
        raise DataError(f"{where} is {x[tuple(place)]} in {position(place)}; drop or impute such rows first")
    return x


def _targets(where: str, given: Any) -> np.ndarray:
    """Return class numbers (n,) int64."""
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
                f"{name}: client {client!r}{'' if part == 'all' else f', {part}'}: x has samples of shape {shape}, "
                f"those of client {shapes[0][0]!r} have {shapes[0][2]}; all clients need the same features"
            )


def _split(arrays: Arrays, task: Task) -> Split:
    import torch

    x, y = map(torch.from_numpy, arrays)
    return Split(x, y.float().unsqueeze(1) if task == "binary" else y)
