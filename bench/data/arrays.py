"""Federations of arrays: conversion and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from bench.types import Client, DataError, Federation, SpecError, Task, nearest


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
    from bench import metrics as known_metrics  # imports numpy, which commands that only list things do not need
    from bench.data.array_checks import as_split, checked_parts, count_classes, hold_out, require_equal_features

    if task is not None and task not in get_args(Task):
        raise SpecError(f"task = {task!r}: {nearest(task, get_args(Task))}")
    if isinstance(test_share, bool) or not isinstance(test_share, int | float) or not 0 <= test_share < 1:
        raise SpecError(f"test_share = {test_share!r}: expected a share of at least 0 and below 1")
    if isinstance(metrics, str):
        raise SpecError(f"metrics = {metrics!r}: expected a list of names, e.g. [{metrics!r}]")
    for metric in metrics:
        known_metrics.check(metric)
    if not isinstance(clients, Mapping | Sequence):
        raise DataError(f"{name}: clients is a {type(clients).__name__}, expected a mapping or a sequence of mappings")
    named = clients.items() if isinstance(clients, Mapping) else enumerate(clients)
    parts = [(str(key), checked_parts(f"{name}: client {str(key)!r}", client)) for key, client in named]
    require_equal_features(name, parts)

    labels = [y for _, split in parts for _, y in split.values()]
    highest = max((int(y.max(initial=0)) for y in labels), default=0)
    task = task or ("binary" if highest <= 1 and classes in (None, 2) else "multiclass")
    federated = []
    for key, split in parts:
        if set(split) == {"all"}:
            split = hold_out(split["all"], test_share, key)
        splits = {part: as_split(arrays, task) for part, arrays in split.items()}
        federated.append(Client(key, splits["train"], splits.get("test")))
    count = count_classes(name, task, classes, labels, highest)
    return Federation(name, tuple(federated), task, metrics=tuple(metrics), classes=count, synthetic=synthetic)
