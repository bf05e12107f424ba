"""Speed benchmark: silobench compared with a plain PyTorch loop, and the time of a whole study.

    python scripts/bench_speed.py

Writes results/benchmarks/speed.md and speed.json. The time of silobench includes choosing stack or loop, tracing,
validation, checkpoints and testing. The plain loop (plain_loop.py) only trains and validates, and its mini-batches are
drawn before the clock starts. Both use one thread and must agree in every validation loss. They are timed in turns, and
a ratio is the median over turns, so that other work on the machine affects both. A missed bar is marked; the exit
status stays 0. A second table has every algorithm, stacked and in a plain loop (algorithm_speed.py).
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import algorithm_speed
import global_layers_speed
import torch
from plain_loop import Site, fedavg, scaffold
from torch.nn import functional

from bench.data import load_dataset
from bench.files import write_whole
from bench.models.functional import torch_seed
from bench.native.memory import keep_freed_memory
from bench.registry import folder
from bench.rng import derive
from bench.train import build, engine
from bench.types import Budget, Client, Federation, Outcome, SilobenchError, Split
from tests.train import plain_schedule

OUT = Path(__file__).parent.parent / "results" / "benchmarks"
SILOBENCH = Path(sys.executable).with_name("silobench")
TURNS = 5
AGREEMENT = 1e-4  # largest difference of a validation loss between silobench and the plain loop
RATES = (0.1, 0.01, 1e-3, 1e-4, 1e-5)  # FENDA-FL, Table 5
SEEDS = (2021, 2022, 2023, 2024, 2025)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time and CPU time (less disturbed by other work), in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Row:
    """One line of the table; ``value`` must be at most, or at least, ``bar``."""

    measured: str
    value: float
    unit: str
    bar: float | None
    at_least: bool = False
    silobench: list[Seconds] = field(default_factory=list)
    plain: list[Seconds] = field(default_factory=list)  # scaled to all runs
    cpu_value: float | None = None
    path: str = ""  # the one silobench chose
    note: str = ""
    load: float = field(default_factory=lambda: os.getloadavg()[0])  # of the last minute, this process included

    @property
    def met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def timed(work: Callable[[], Result]) -> tuple[Seconds, Result]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu), result


# Against the plain loop -----------------------------------------------------------------------------------------


def sites(federation: Federation, budget: Budget, seed: int) -> list[Site]:
    """Return the mini-batches that the engine gives every client, as row numbers."""
    made = []
    for c, client in enumerate(federation.clients):
        train, held_out = plain_schedule.split(len(client.train), budget.validation, seed, c)
        rounds = [
            [train[rows] for rows in plain_schedule.mini_batches(budget, len(train), seed, c, round_)]
            for round_ in range(budget.rounds)
        ]
        validation = held_out.split(plain_schedule.batch_size(budget, len(held_out)))
        made.append(Site(client.train.x, client.train.y, rounds, validation, len(train)))
    return made


def initial(federation: Federation, model: str, seed: int) -> torch.nn.Module:
    """Return the initial model of the engine for this seed."""
    with torch_seed(derive("initial weights", seed)):
        return build.build_model(model, federation)


def agree(outcome: Outcome, losses: list[list[float]]) -> None:
    difference = (torch.tensor(outcome.validation) - torch.tensor(losses)).abs().max().item()
    if not difference <= AGREEMENT:
        raise SilobenchError(
            f"seed {outcome.seed}, {dict(outcome.hyperparameters)}: validation losses of silobench and the plain loop "
            f"differ by {difference:.2g}, expected at most {AGREEMENT:g}; fix this before measuring speed"
        )


def ratios(
    ours: Callable[[], list[Outcome]], plain: Callable[[Outcome], Callable[[], list[list[float]]]]
) -> tuple[list[Seconds], list[Seconds], str]:
    """Return times of all runs with silobench, times of the plain loop scaled to all runs, and the path.

    The plain loop trains one run per turn, another each time; ``plain`` prepares the loop of a run. One call of each
    before the measurement excludes the costs of a process's first call.
    """
    outcomes = ours()
    plain(outcomes[0])()
    times, scaled = [], []
    for turn in range(TURNS):
        spent, outcomes = timed(ours)
        times.append(spent)
        outcome = outcomes[turn * (len(outcomes) - 1) // (TURNS - 1)]
        spent, losses = timed(plain(outcome))
        scaled.append(Seconds(spent.wall * len(outcomes), spent.cpu * len(outcomes)))
        agree(outcome, losses)
    return times, scaled, outcomes[0].path


def quotient(above: Sequence[Seconds], below: Sequence[Seconds]) -> tuple[float, float]:
    """Return the medians over turns of above / below, by wall-clock time and by CPU time."""
    turns = list(zip(above, below, strict=True))
    return statistics.median(a.wall / b.wall for a, b in turns), statistics.median(a.cpu / b.cpu for a, b in turns)


def scaffold_grid(federation: Federation) -> Row:
    budget = Budget(rounds=15, local_steps=100, batch_size=4, optimizer="sgd")
    settings = [{"lr": lr, "server_lr": server_lr} for lr, server_lr in product(RATES, RATES)]

    def plain(outcome: Outcome) -> Callable[[], list[list[float]]]:
        seen, model = sites(federation, budget, outcome.seed), initial(federation, "logistic", outcome.seed)
        return lambda: scaffold(seen, model, functional.binary_cross_entropy, **outcome.hyperparameters)

    return _grid("SCAFFOLD grid", federation, "scaffold", settings, budget, plain, bar=50)


def fedavg_grid(federation: Federation) -> Row:
    budget = Budget(rounds=15, local_steps=100, batch_size=4, optimizer="adamw")
    settings = [{"lr": lr} for lr in RATES]

    def plain(outcome: Outcome) -> Callable[[], list[list[float]]]:
        seen, model = sites(federation, budget, outcome.seed), initial(federation, "logistic", outcome.seed)
        lr = outcome.hyperparameters["lr"]
        return lambda: fedavg(seen, model, functional.binary_cross_entropy, torch.optim.AdamW, lr)

    return _grid("FedAvg grid", federation, "fedavg", settings, budget, plain, bar=15)


def _grid(
    title: str, federation: Federation, algorithm: str, settings: list[dict[str, float]], budget: Budget,
    plain: Callable[[Outcome], Callable[[], list[list[float]]]], bar: float,
) -> Row:  # fmt: skip
    def ours() -> list[Outcome]:
        return engine.train(
            federation, algorithm=algorithm, model="logistic", settings=settings, seeds=SEEDS, budget=budget
        )

    times, scaled, path = ratios(ours, plain)
    faster, faster_cpu = quotient(scaled, times)
    shape = f"{len(settings)} settings x {len(SEEDS)} seeds x {len(federation.clients)} clients"
    return Row(
        f"{title}, Fed-Heart-Disease: {shape} x {budget.rounds} rounds x {budget.local_steps} steps of "
        f"{budget.batch_size}, {budget.optimizer}",
        faster, "times faster", bar, True, times, scaled, faster_cpu, path,
        note=f"plain loop measured on {TURNS} of the {len(settings) * len(SEEDS)} runs and scaled",
    )  # fmt: skip


def images(clients: int = 2, train: int = 800, test: int = 64) -> Federation:
    """Return SYNTHETIC grey images (28 x 28) of ten classes: noise around one random image per class."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.randn(10, 1, 28, 28, generator=generator)

    def split(n: int) -> Split:
        y = torch.randint(10, (n,), generator=generator)
        return Split(classes[y] + torch.randn(n, 1, 28, 28, generator=generator), y)

    made = tuple(Client(str(c), split(train), split(test)) for c in range(clients))
    return Federation("synthetic_images", made, "multiclass", classes=10, synthetic=True)


def cnn_run() -> Row:
    federation, lr = images(), 1e-3  # with a larger rate, rounding differences exceed AGREEMENT
    budget = Budget(rounds=8, local_steps=50, batch_size=64, optimizer="sgd")

    def ours() -> list[Outcome]:
        return engine.train(
            federation, algorithm="fedavg", model="cnn", settings=[{"lr": lr}], seeds=[0], budget=budget
        )

    def plain(outcome: Outcome) -> Callable[[], list[list[float]]]:
        seen, model = sites(federation, budget, outcome.seed), initial(federation, "cnn", outcome.seed)
        return lambda: fedavg(seen, model, functional.cross_entropy, torch.optim.SGD, lr)

    times, whole, path = ratios(ours, plain)
    slower, slower_cpu = quotient(times, whole)
    return Row(
        f"CNN run on SYNTHETIC 28 x 28 images: FedAvg, {len(federation.clients)} clients x {budget.rounds} rounds x "
        f"{budget.local_steps} steps of {budget.batch_size}, {budget.optimizer}",
        slower, "times as long", 1.05, False, times, whole, slower_cpu, path,
    )  # fmt: skip


def global_layers() -> list[Row]:
    """Compare the two studies of Global Layers with the time of the authors' code."""
    hearts, (covertype, plain) = global_layers_speed.heart(), global_layers_speed.covertype()
    title = "Global Layers on three heart cohorts: 101 seeds x 3 methods, trained and scored, on 2 cores"
    how = "half of the CPU time, scaled from {} and {} seeds".format(*global_layers_speed.SEEDS)
    seed = "Global Layers on Covertype: one seed, trained and scored, on one core"
    return [
        Row(title, hearts / 2, "s", 240, note=how),
        Row(seed, covertype, "s", 123, note="CPU time; the bar is a third of the authors' time on another machine"),
        Row(seed, covertype / plain, "times as long", 1 / 3, note=(
            f"compared with training alone in torch's own layers, {plain:.0f} s, "
            f"scaled from {global_layers_speed.ROUNDS} rounds"
        )),
    ]  # fmt: skip


# In a fresh process ---------------------------------------------------------------------------------------------


def heart_study() -> list[Row]:
    """Time `silobench sweep` on the whole study: every search, all tables and figures, from an empty store."""
    study = folder("experiments") / "fenda" / "heart.toml"
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        with (temporary / "errors").open("w+") as errors:
            began = time.perf_counter()
            process = subprocess.Popen(
                [SILOBENCH, "sweep", study, "--store", temporary / "runs", "--out", temporary / "tables"],
                stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["no message"])[-1]
                raise SilobenchError(f"silobench sweep {study} ended with status {process.returncode}: {last}")
        costs = [json.loads(line) for line in (temporary / "runs" / "costs.jsonl").read_text().splitlines()]
    spent = Seconds(wall, usage.ru_utime + usage.ru_stime)
    runs = sum(cost["runs"] for cost in costs)
    gigabytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    title = f"FENDA-FL study of Fed-Heart-Disease, {runs} runs with search, tables and figures"
    training = sum(cost["seconds"] for cost in costs)
    return [
        Row(title, wall, "s", 60, silobench=[spent], cpu_value=spent.cpu, note=f"training {training:.1f} s"),
        Row("its peak memory", gigabytes, "GB", 2),
    ]


def start(*arguments: str) -> Row:
    """Return the median time of a command over new processes."""
    times = [
        timed(lambda: subprocess.run([SILOBENCH, *arguments], check=True, stdout=subprocess.DEVNULL))[0]
        for _ in range(TURNS)
    ]
    return Row(f"`silobench {' '.join(arguments)}`", statistics.median(spent.wall for spent in times), "s", 0.5)


# Output ------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
    }


def markdown(facts: dict[str, Any], rows: Sequence[Row]) -> str:
    """Return the table with a description of the machine."""
    lines = [
        "# Speed",
        "",
        f"Measured in one run of `make bench`: {facts['system']}, {facts['cores']} cores, Python {facts['python']}, "
        f"torch {facts['torch']}, {facts['threads']} thread; load of the machine before: {facts['load']:.1f}. "
        f"A time is the median over turns, a ratio the median of the turns' ratios. silobench and the plain loop run "
        f"in one process that keeps freed memory. `load` is the machine's load in the last minute, "
        "this process included.",
        "",
        "| measured | path | silobench | plain loop | result | by CPU time | bar | met | load |",
        "|---|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    for row in rows:
        bar = "" if row.bar is None else f"{'at least' if row.at_least else 'at most'} {row.bar:g}"
        met = {None: "", True: "yes", False: "**MISSED**"}[row.met]
        cells = [
            f"{row.measured} ({row.note})" if row.note else row.measured,
            row.path, _median(row.silobench), _median(row.plain), f"{row.value:.3g} {row.unit}",
            "" if row.cpu_value is None else f"{row.cpu_value:.3g}", bar, met, f"{row.load:.1f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _median(times: Sequence[Seconds]) -> str:
    return f"{statistics.median(spent.wall for spent in times):.3g} s" if times else ""


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    facts = machine()
    federation = load_dataset("fed_heart_disease")
    rows = [
        start("--help"),
        start("list", "algorithms"),
        scaffold_grid(federation),
        fedavg_grid(federation),
        cnn_run(),
        *global_layers(),
        *heart_study(),
    ]
    by_algorithm = algorithm_speed.measure_all(algorithm_speed.tasks(federation, images(train=120, test=16)))
    content = {
        "machine": facts,
        "rows": [{**asdict(row), "met": row.met} for row in rows],
        "algorithms": {title: [asdict(line) for line in lines] for title, lines in by_algorithm.items()},
    }
    text = f"{markdown(facts, rows)}\n{algorithm_speed.markdown(by_algorithm)}"
    print(text)
    print(write_whole(OUT / "speed.json", f"{json.dumps(content, indent=2)}\n".encode()))
    print(write_whole(OUT / "speed.md", text.encode()))


if __name__ == "__main__":
    try:
        main()
    except SilobenchError as error:
        sys.exit(f"error: {error}")
