"""The execution path of a run batch: stack or loop.

Stacking saves the fixed cost of launching an operation once per model. It saves nothing where the arithmetic takes
longer than the launch. The decision counts floating-point operations, and numbers written, per tensor operation of a
traced local step. It uses no clock, because records must not differ from run to run or from machine to machine.
"""

from __future__ import annotations

import dataclasses
import logging
import warnings
from typing import Literal, get_args

from bench.native.kernel import without_kernels
from bench.train.mapping.loop import Loop
from bench.train.mapping.mapper import Mapper
from bench.train.mapping.stack import Stack
from bench.train.rounds import Rounds
from bench.train.run_batch import RunBatch
from bench.train.task.outputs import first_line
from bench.types import SpecError, nearest

ExecutionPath = Literal["auto", "stack", "loop"]
# Measured on one core (docs/design-notes.md): at 1e5 operations a stack of 16 models is twice as fast as the loop, at
# 3e5 it is 1.1 times as fast, and at 7e6 it is slower.
LAUNCH_BOUND = 3e5
# With 17,000 numbers written per operation a stack of 12 transformers takes twice the time of the loop, whose tensors
# fit into the caches. The models measured above write up to 9,000.
MEMORY_BOUND = 1.2e4

_log = logging.getLogger(__name__)
_reported: set[str] = set()


def mapper_of(run_batch: RunBatch, path: Literal["stack", "loop"]) -> Mapper:
    """Return a new mapper for the run batch; clients with the same model share traced hooks."""
    if path == "stack":
        return Stack(run_batch.sizes)
    order = {id(model): number for number, model in enumerate(dict.fromkeys(run_batch.models))}
    return Loop(run_batch.sizes, [order[id(model)] for model in run_batch.models])


def check_path(path: str) -> None:
    """Raise :class:`SpecError` for an unknown path."""
    known = get_args(ExecutionPath)
    if path not in known:
        raise SpecError(f"path = {path!r}: {nearest(path, known)}")


def select_path(run_batch: RunBatch, path: ExecutionPath) -> Literal["stack", "loop"]:
    """Return the path asked for, or with "auto" the faster one that can run the batch.

    Raises :class:`SpecError` if a stack is asked for and cannot be made. With "auto" it is then reported once why the
    loop is used.
    """
    if path == "loop":
        return "loop"
    models = run_batch.models
    # Models of other shapes cannot be stacked, and batch-norm must not see padded samples.
    if any(model is not models[0] for model in models) or models[0].batch_norm:
        if path == "stack":
            raise SpecError("path = 'stack': models that differ between clients or hold batch-norm need path = 'loop'")
        return "loop"
    if path == "auto":
        several = len(run_batch.settings) * len(run_batch.seeds) * len(models) > 1
        if not several or not _is_quick(run_batch):
            return "loop"
    reason = _why_not_stacked(run_batch)
    if reason is None:
        return "stack"
    text = f"{run_batch.algorithm.registered_name} with {type(models[0].module).__name__} cannot be stacked: {reason}"
    if path == "stack":
        raise SpecError(f"path = 'stack': {text}; use path = 'loop'")
    if text not in _reported:
        _reported.add(text)
        _log.warning("%s; runs are computed one after another, which is slower", text)
    return "loop"


def _is_quick(run_batch: RunBatch) -> bool:
    """Return whether a tensor operation of a local step takes, on average, at most about as long as launching it.

    Steps are traced without compiled kernels, so that the decision is the same on a machine without a compiler.
    """
    with without_kernels():
        rounds = _first_step(run_batch, "loop")
    step = rounds.mapper.longest("train")
    return step.flops < LAUNCH_BOUND * step.operations and step.written < MEMORY_BOUND * step.operations


def _why_not_stacked(run_batch: RunBatch) -> str | None:
    """Return why a stack cannot run the local step or the evaluation; None if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, on operations that it maps one by one
        try:
            _first_step(run_batch, "stack").trial_evaluation()
        except (RuntimeError, ValueError) as error:
            return first_line(error)
    return None


def _first_step(run_batch: RunBatch, path: Literal["stack", "loop"]) -> Rounds:
    """Return rounds of one client, that with the most samples, whose first local step has been traced.

    Nothing is computed for other settings, seeds and clients; the methods see all clients.
    """
    budget = dataclasses.replace(run_batch.budget.working(steps=1), rounds=1)
    short = dataclasses.replace(run_batch, budget=budget, initial=lambda seed, _: run_batch.initial(seed, 0))
    sizes, client = {"H": 1, "S": 1, "C": 1}, int(run_batch.data.counts[0, 0].argmax())
    rounds = Rounds(short, Stack(sizes, client) if path == "stack" else Loop(sizes, [0], client))
    rounds.trial()
    return rounds
