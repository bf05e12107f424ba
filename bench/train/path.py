"""Stack or loop: which way a run batch is computed.

Stacking saves the fixed cost of launching an operation once per model; it saves nothing where the arithmetic itself
takes longer than that. So the traced local step is measured by counting: floating-point operations, and numbers
written, per tensor operation. A clock would decide differently from run to run and machine to machine, and records
must not.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from torch.utils.flop_counter import FlopCounterMode

from bench.native import standing_back
from bench.train.mapping.loop import Loop
from bench.train.mapping.mapper import Mapper
from bench.train.mapping.stack import Stack
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.types import SpecError

ExecutionPath = Literal["auto", "stack", "loop"]
# Timed on one core (docs/design-notes.md): at 1e5 a stack of 16 models is twice as fast as the loop, at 3e5 still
# 1.1 times, and at 7e6 it is slower.
LAUNCH_BOUND = 3e5
# At 17,000 numbers written per operation (Global Layers' transformer) a stack of 12 models takes twice the time of the
# loop, whose tensors stay in the caches; the models timed above write up to 9,000.
MEMORY_BOUND = 1.2e4


def mapper_of(run_batch: RunBatch, path: Literal["stack", "loop"]) -> Mapper:
    """A fresh mapper for the run batch; clients with the same model share traced hooks."""
    if path == "stack":
        return Stack(run_batch.sizes)
    order = list({id(model): None for model in run_batch.models})
    return Loop(run_batch.sizes, [order.index(id(model)) for model in run_batch.models])


def select_path(run_batch: RunBatch, path: ExecutionPath) -> Literal["stack", "loop"]:
    """The path asked for, the only one possible, or the better one by count; raises :class:`SpecError` for a stack
    of what cannot be stacked."""
    models = run_batch.models
    # Other shapes cannot be stacked; batch-norm must see the batches' true sizes.
    if any(model is not models[0] for model in models) or models[0].batch_norm:
        if path == "stack":
            raise SpecError("path = 'stack': models that differ between clients or hold batch-norm need path = 'loop'")
        return "loop"
    if path != "auto":
        return path
    one = dataclasses.replace(
        run_batch, settings=run_batch.settings[:1], seeds=run_batch.seeds[:1], federations=run_batch.federations[:1]
    )
    several = len(run_batch.settings) * len(run_batch.seeds) * len(models) > 1
    return "stack" if several and _is_quick(one) and _has_batching_rules(one) else "loop"


def _is_quick(run_batch: RunBatch) -> bool:
    """Whether a tensor operation of a local step, in the mean, takes about as long as launching it or less.

    Kernels in C are counted as what they stand for.
    """
    with standing_back():
        rounds = _first_step(run_batch, "loop")
    step = rounds.mapper.longest("train")
    with FlopCounterMode(display=False) as counter:
        rounds.trial()
    arithmetic = counter.get_total_flops() / len(run_batch.models)
    return arithmetic < LAUNCH_BOUND * step.operations and step.written < MEMORY_BOUND * step.operations


def _has_batching_rules(run_batch: RunBatch) -> bool:
    try:
        _first_step(run_batch, "stack")
    except (RuntimeError, ValueError):
        return False
    return True


def _first_step(run_batch: RunBatch, path: Literal["stack", "loop"]) -> Rounds:
    """Rounds whose first local step has been traced."""
    budget = dataclasses.replace(run_batch.budget.working(steps=1), rounds=1)
    short = dataclasses.replace(run_batch, budget=budget)
    rounds = Rounds(short, mapper_of(short, path))
    rounds.trial()
    return rounds
