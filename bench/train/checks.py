"""Checks of a request to train, before training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.models.functional import Model
from bench.train.batching import schedule
from bench.train.run_batch import RunBatch
from bench.types import Budget, Federation, SpecError


def checked_seeds(seeds: Any, budget: Budget) -> list[int]:
    """Return the seeds as a list of distinct integers; raise :class:`SpecError` for anything else."""
    if not isinstance(seeds, Iterable) or isinstance(seeds, str | bytes):
        example = [seeds] if isinstance(seeds, int) else [0, 1]
        raise SpecError(f"seeds = {seeds!r}: expected a list of whole numbers, e.g. seeds = {example}")
    found = [seed.item() if isinstance(seed, np.generic) else seed for seed in seeds]
    if not found:
        raise SpecError("no seeds: give at least one")
    for seed in found:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise SpecError(f"seed {seed!r}: expected a whole number")
        if budget.draws == "torch" and not 0 <= seed < 2**64:
            raise SpecError(f'seed {seed}: with draws = "torch" seeds are whole numbers from 0 to 2^64 - 1')
    if len(set(found)) < len(found):
        raise SpecError(f"seeds = {found}: a seed occurs more than once; runs with equal seeds are equal")
    return found


def check_alike(federations: Sequence[Federation], seeds: Sequence[int]) -> None:
    """Raise :class:`SpecError` for federations that differ between seeds in more than their samples."""
    if len(federations) != len(seeds):
        raise SpecError(f"{len(federations)} federations for {len(seeds)} seeds: give one, or one for each seed")
    first = federations[0]
    others = {id(each): each for each in federations if each is not first}.values()
    wanted = _in_common(first) if others else {}
    for other in others:
        for what, found in _in_common(other).items():
            if found != wanted[what]:
                seed = seeds[[each is other for each in federations].index(True)]
                text = f"the data of seeds {seeds[0]} and {seed} differ in their {what}"
                raise SpecError(f"{first.name}: {text}; seeds trained together may differ in samples only")


def _in_common(federation: Federation) -> dict[str, Any]:
    """Return everything that the federations of all seeds must share."""
    inputs = [(own.train.x.shape[1:], own.train.x.dtype) for own in federation.clients]
    vectors = federation.embeddings
    return {
        "task": federation.task,
        "metrics": federation.metrics,
        "clients": [client.name for client in federation.clients],
        "features": inputs,
        "classes": [federation.classes, *(client.classes for client in federation.clients)],
        "tested clients": [client.test is not None for client in federation.clients],
        "loss": dict(federation.loss),
        "preparation of inputs": federation.prepare,
        "augmentation": federation.augment,
        "embeddings": None if vectors is None else hashlib.sha256(vectors.numpy().tobytes()).hexdigest(),
    }


def check_batch_sizes(run_batch: RunBatch, inputs: Sequence[Tensor]) -> None:
    """Raise :class:`SpecError` if a model with batch-norm would train on a mini-batch of one sample.

    ``inputs`` are the first model inputs of each client, (1, ...) or more. A model that can train on one sample is
    accepted: its batch-norm also averages over height and width.
    """
    fits = {id(model): _trains_on_one(model, x[:1]) for model, x in zip(run_batch.models, inputs, strict=True)}
    budget, tuned = run_batch.budget, any(run_batch.algorithm.tuning(last) for last in (False, True))
    for s, c in run_batch.data.samples:
        if fits[id(run_batch.models[c])]:
            continue
        samples = int(run_batch.data.counts[0, s, c])
        sizes = schedule.batch_sizes(budget, samples)
        steps = int(schedule.cut(budget, torch.tensor(samples)).steps)
        if 1 not in sizes[: len(sizes) if tuned else steps]:
            continue
        name = (
            "all clients together" if run_batch.algorithm.pooled else f"client {run_batch.federation.clients[c].name!r}"
        )
        raise SpecError(
            f"{run_batch.federation.name}: {name}: a mini-batch has one sample ({samples} training samples with seed "
            f"{run_batch.seeds[s]}), and batch-norm needs two or more; {_remedy(sizes)}"
        )


def _remedy(sizes: Sequence[int]) -> str:
    if len(sizes) > 1 and sizes[0] > 1:
        return 'set last_batch = "drop" or "merge", or another batch_size'
    return "set a larger batch_size" if len(sizes) > 1 else "leave the client out, or use a model without batch-norm"


def _trains_on_one(model: Model, x: Tensor) -> bool:
    if not model.batch_norm:
        return True
    try:
        with torch.no_grad():
            model(model.initial, x, torch.tensor(0))
    except ValueError:  # torch: expected more than 1 value per channel when training
        return False
    return True
