"""Checks and conversion of the arrays of one client."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from bench.types import DataError, SpecError, Split, Task, nearest, position

FORMS = 'expected {"x": ..., "y": ...} or {"train": (x, y), "test": (x, y)}'
Arrays = tuple[np.ndarray, np.ndarray]


def count_classes(name: str, task: Task, classes: int | None, labels: Sequence[np.ndarray], highest: int) -> int:
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


def hold_out(arrays: Arrays, share: float, client: str) -> dict[str, Arrays]:
    """Split a client's arrays into "train" and, if the share asks for any sample, "test"."""
    from bench.rng import derive, permutation  # needs torch, which listing data sets must not

    x, y = arrays
    tested = max(math.floor(len(x) * share + 1e-9), int(share > 0 and len(x) > 1))
    order = permutation(derive("test samples", client), len(x)).numpy()
    train, test = np.sort(order[tested:]), np.sort(order[:tested])
    return {"train": (x[train], y[train])} | ({"test": (x[test], y[test])} if tested else {})


def checked_parts(where: str, client: Any) -> dict[str, Arrays]:
    """Return the checked arrays of "train" and "test", or of "all" samples if the client gives no split."""
    if not isinstance(client, Mapping):
        raise DataError(f"{where} is a {type(client).__name__}, {FORMS}")
    for key in client:
        if key not in ("x", "y", "train", "test"):
            raise DataError(f"{where}: unknown key {key!r}: {nearest(key, ('x', 'y', 'train', 'test'))}")
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


def require_equal_features(name: str, parts: list[tuple[str, dict[str, Arrays]]]) -> None:
    shapes = [(client, part, x.shape[1:]) for client, split in parts for part, (x, _) in split.items() if len(x)]
    for client, part, shape in shapes:
        if shape != shapes[0][2]:
            raise DataError(
                f"{name}: client {client!r}{'' if part == 'all' else f', {part}'}: x has samples of shape {shape}, "
                f"those of client {shapes[0][0]!r} have {shapes[0][2]}; all clients need the same features"
            )


def as_split(arrays: Arrays, task: Task) -> Split:
    import torch

    x, y = map(torch.from_numpy, arrays)
    return Split(x, y.float().unsqueeze(1) if task == "binary" else y)
