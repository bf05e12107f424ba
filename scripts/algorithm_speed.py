"""Time per local step of every algorithm: stacked, looped, and in a plain PyTorch loop.

The plain loops are those of tests/reference, which the engine must equal: one client after another, with torch's own
optimisers. A time is that of a whole round (local steps, aggregation, validation, checkpoints) divided by the number of
local steps of all runs and clients. If an algorithm tunes before every validation, both sides include the tuning. The
first and the last round are not timed: the first includes tracing, which a study pays once.
"""

from __future__ import annotations

import dataclasses
import importlib
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional

from bench.registry import catalogue, load
from bench.settings import fitting
from bench.train import build, engine
from bench.train.path import ExecutionPath
from bench.types import Budget, Client, Federation, Outcome, SilobenchError, Split

TURNS = 3
# Largest difference of a validation loss between silobench and the plain loop. Most differ by 1e-7; FedAdam's tau of
# 1e-9 turns rounding errors of almost unchanged weights into whole steps.
AGREEMENT = 5e-3


@dataclass(frozen=True)
class Task:
    """A measured task: the plain loop runs the first learning rate and seed, the stack runs all of them."""

    title: str
    federation: Federation
    model: str
    budget: Budget
    rates: Sequence[float]
    seeds: Sequence[int]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Line:
    """Microseconds per local step of a client, for every turn; ``taken`` is the path that silobench chooses."""

    algorithm: str
    plain: Sequence[float]
    stack: Sequence[float]
    loop: Sequence[float]
    taken: str


def tasks(tabular: Federation, images: Federation) -> list[Task]:
    """Return a tabular task with a small model and an image task with a CNN."""
    return [
        Task(
            "Fed-Heart-Disease, mlp with 10 hidden units, mini-batches of 4", tabular, "mlp",
            Budget(rounds=4, local_steps=40, batch_size=4), (0.01, 3e-3, 1e-3, 3e-4, 1e-4), range(5),
            functional.binary_cross_entropy,
        ),
        Task(
            "SYNTHETIC 28 x 28 images, cnn with 16 channels, mini-batches of 16", images, "cnn",
            Budget(rounds=4, local_steps=3, batch_size=16), (1e-3,), range(2), functional.cross_entropy,
        ),
    ]  # fmt: skip


def measure(task: Task, algorithm: str) -> Line:
    """Measure one algorithm; raise :class:`SilobenchError` if silobench and the plain loop disagree."""
    reference = importlib.import_module(f"tests.reference.{algorithm}")
    kind = load("algorithms", algorithm)
    budget = dataclasses.replace(task.budget, optimizer=kind.optimizers[-1])
    own = getattr(reference, "SETTINGS", [{}])[0]
    settings = [{**own, "lr": rate} for rate in task.rates]
    model = build.build_model(fitting(algorithm, task.model), task.federation)

    def ours(
        path: ExecutionPath, runs: int, seeds: Sequence[int], rounds: int = budget.rounds
    ) -> tuple[float, Outcome]:
        """Return seconds per round, and the outcome of the first run."""
        ends: list[float] = []
        trained = engine.run(
            task.federation, algorithm=algorithm, algorithm_options=getattr(reference, "OPTIONS", {}), model=model,
            settings=settings[:runs], seeds=seeds, budget=dataclasses.replace(budget, rounds=rounds), path=path,
            tell=lambda finished, rounds, best: ends.append(time.perf_counter()),
        )  # fmt: skip
        return (ends[-2] - ends[0]) / max(len(ends) - 2, 1), trained.outcomes[0]

    plain = _plain(reference, task, budget, model, kind.pooled)
    _, first = ours("auto", len(settings), task.seeds, rounds=2)
    plain(1, first)
    turns = []
    for _ in range(TURNS):
        stack, stacked = ours("stack", len(settings), task.seeds)
        loop, looped = ours("loop", 1, task.seeds[:1])
        alone, losses = plain(budget.rounds, looped)
        _agree(task, algorithm, (stacked, looped), losses)
        turns.append((alone, stack / len(settings) / len(task.seeds), loop))
    steps = (budget.local_steps or 0) * (1 if kind.pooled else len(task.federation.clients))
    alone_times, stack_times, loop_times = (
        [1e6 * each / steps for each in times] for times in zip(*turns, strict=True)
    )
    return Line(algorithm, alone_times, stack_times, loop_times, first.path)


def _plain(
    reference: ModuleType, task: Task, budget: Budget, model: torch.nn.Module, pooled: bool
) -> Callable[[int, Outcome], tuple[float, Any]]:
    """Return the plain loop with mini-batches drawn; it returns seconds per round, and validation losses."""
    from tests.train.toy import sites

    federation = task.federation
    if pooled:
        parts = [client.train for client in federation.clients]
        together = Split(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))
        federation = dataclasses.replace(federation, clients=(Client("pooled", together),))
    seen = sites(federation, budget, task.seeds[0], getattr(reference, "TUNING", 0))

    def timed(rounds: int, outcome: Outcome) -> tuple[float, Any]:
        began = time.perf_counter()
        trace = reference.run(
            seen, model, rounds=rounds, optimizer=budget.optimizer, hyper=dict(outcome.hyperparameters), loss=task.loss
        )
        return time.perf_counter() - began, trace.validation

    def plain(rounds: int, outcome: Outcome) -> tuple[float, Any]:
        # The difference removes the time before the first and after the last round.
        (short, _), (long, losses) = timed(1, outcome), timed(rounds, outcome)
        return (long - short) / max(rounds - 1, 1), losses

    return plain


def _agree(task: Task, algorithm: str, outcomes: Iterable[Outcome], losses: Any) -> None:
    for outcome in outcomes:
        difference = (torch.tensor(outcome.validation) - torch.tensor(losses)).abs().max().item()
        if not difference <= AGREEMENT:
            raise SilobenchError(
                f"{algorithm} on {task.title}: validation losses of silobench ({outcome.path}) and the plain loop "
                f"differ by {difference:.2g}, expected at most {AGREEMENT:g}; fix this before measuring speed"
            )


def measure_all(measured: Iterable[Task], algorithms: Iterable[str] | None = None) -> dict[str, list[Line]]:
    """Measure every task and algorithm; return lines by the title of the task."""
    names = list(catalogue("algorithms") if algorithms is None else algorithms)
    found: dict[str, list[Line]] = {}
    for task, name in product(measured, names):
        found.setdefault(task.title, []).append(measure(task, name))
    return found


def markdown(lines: dict[str, list[Line]]) -> str:
    """Return one table per task."""
    text = [
        "## By algorithm",
        "",
        "Microseconds per local step of one client: in the plain loops of `tests/reference`, and with silobench "
        "stacked (all learning rates and seeds at once) and looped (one run). Times are medians over turns; a ratio is "
        f"the median of the {TURNS} turns' ratios. The first round, in which silobench traces, is not counted.",
    ]
    for title, rows in lines.items():
        text += [
            "",
            f"### {title}",
            "",
            "| algorithm | plain loop | stack | times faster | loop | times faster | silobench chooses |",
            "|---|---:|---:|---:|---:|---:|---|",
        ]
        text += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return "\n".join([*text, ""])


def _cells(row: Line) -> list[str]:
    cells = [row.algorithm, _microseconds(row.plain)]
    for ours in (row.stack, row.loop):
        faster = statistics.median(plain / each for plain, each in zip(row.plain, ours, strict=True))
        cells += [_microseconds(ours), f"{faster:.3g}"]
    return [*cells, row.taken]


def _microseconds(times: Sequence[float]) -> str:
    median = statistics.median(times)
    return f"{median:,.0f}" if median >= 100 else f"{median:.3g}"
