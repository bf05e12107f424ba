"""Time per local step of a client with 10 to 10,000 clients, compared with a plain PyTorch loop.

    python scripts/client_speed.py

Writes results/benchmarks/clients.md and clients.json. Each line is measured in a process of its own, which ``python
scripts/client_speed.py fedavg 1000`` starts alone. The plain loops are those of tests/reference, which train one client
after another. Times are CPU times of one thread. The time of a local step is that of a whole round (local steps,
aggregation, validation, checkpoints) divided by all clients' steps, on both sides. The first round, in which silobench
traces, and the last one are not counted. The fixed cost is all other time of the call: checks, choice of the path,
tracing, and tests of all models. A missed bar is marked; the exit status stays 0.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.files import write_whole
from bench.native.memory import keep_freed_memory
from bench.train import build, engine
from bench.types import Budget, Outcome, SilobenchError
from tests.reference.common import Trace
from tests.reliability.many_clients import federation
from tests.train.toy import sites

OUT = Path(__file__).parent.parent / "results" / "benchmarks"
ALGORITHMS = ("fedavg", "fedper", "scaffold", "ditto")  # in the others, every client holds the models of all clients
CLIENTS = (10, 100, 1000, 2000, 10_000)
PLAIN, PLAIN_ROUNDS = 50, 4  # clients and rounds of the plain loop: its time per step is the same for any number
SAMPLES, HIDDEN, RATE, LOSS = 100, 64, 0.05, functional.binary_cross_entropy
BUDGET = Budget(rounds=1, local_epochs=1, batch_size=16)
STEPS = 5  # local steps of a client in a round: mini-batches of the 80 samples that are not held out
AGREEMENT = 1e-4  # largest difference of a validation loss between silobench and the plain loop
# Bars: times faster than the plain loop; fixed cost in seconds; growth of the time per step from 100 to 10,000 clients.
FASTER, FIXED, FIXED_AT, FLAT = 10, 1.5, 2000, 1.5


@dataclasses.dataclass(frozen=True)
class ClientLine:
    """One measurement: microseconds per local step of a client, seconds, and bytes of the whole process."""

    algorithm: str
    clients: int
    plain: float
    silobench: float
    fixed: float
    memory: int
    path: str

    @property
    def faster(self) -> float:
        return self.plain / self.silobench


def measure(algorithm: str, clients: int) -> ClientLine:
    """Measure silobench and the plain loop in this process.

    Raises :class:`SilobenchError` if their validation losses differ.
    """
    model = build.build_model("mlp", federation([SAMPLES]), {"hidden": HIDDEN})
    _, _, few = _train(algorithm, model, PLAIN, PLAIN_ROUNDS)
    plain, losses = _plain(algorithm, model, few)
    difference = (torch.tensor(few.validation) - torch.tensor(losses)).abs().max().item()
    if not difference <= AGREEMENT:
        raise SilobenchError(
            f"{algorithm}: validation losses of silobench and the plain loop differ by {difference:.2g}, "
            f"expected at most {AGREEMENT:g}; fix this before measuring speed"
        )
    one_round, fixed, outcome = _train(algorithm, model, clients, max(5, 2000 // clients))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return ClientLine(algorithm, clients, plain, 1e6 * one_round / STEPS / clients, fixed, memory, outcome.path)


def _train(algorithm: str, model: nn.Module, clients: int, rounds: int) -> tuple[float, float, Outcome]:
    """Return seconds of a round, seconds of everything else, and the outcome."""
    data, ends = federation([SAMPLES] * clients), []
    began = time.process_time()
    (outcome,) = engine.train(
        data, algorithm=algorithm, model=model, settings=[{"lr": RATE}], seeds=[0],
        budget=dataclasses.replace(BUDGET, rounds=rounds), tell=lambda *progress: ends.append(time.process_time()),
    )  # fmt: skip
    spent, one_round = time.process_time() - began, (ends[-2] - ends[0]) / (rounds - 2)
    return one_round, spent - rounds * one_round, outcome


def _plain(algorithm: str, model: nn.Module, outcome: Outcome) -> tuple[float, list[list[float]]]:
    """Return microseconds per local step of the plain loop, and its validation losses."""
    reference = importlib.import_module(f"tests.reference.{algorithm}")
    seen = sites(federation([SAMPLES] * PLAIN), dataclasses.replace(BUDGET, rounds=PLAIN_ROUNDS), 0)
    Trace.record_trained = lambda *given: None  # type: ignore[method-assign]  # a second validation, only for tests

    def timed(rounds: int) -> tuple[float, Any]:
        began = time.process_time()
        trace = reference.run(
            seen, model, rounds=rounds, optimizer="sgd", hyper=dict(outcome.hyperparameters), loss=LOSS
        )
        return time.process_time() - began, trace.validation

    # The difference removes the time before the first and after the last round.
    (short, _), (long, losses) = timed(1), timed(PLAIN_ROUNDS)
    return 1e6 * (long - short) / (PLAIN_ROUNDS - 1) / STEPS / PLAIN, losses


def bars(lines: Sequence[ClientLine]) -> list[tuple[str, bool]]:
    """Return a sentence for every bar, and whether it is met."""
    many = [line for line in lines if line.clients >= 1000 and line.clients != FIXED_AT]
    slowest = min(many, key=lambda line: line.faster)
    fixed = max(line.fixed for line in lines if line.clients == FIXED_AT)
    by_size = {(line.algorithm, line.clients): line.silobench for line in lines}
    steepest = max(by_size[name, CLIENTS[-1]] / by_size[name, 100] for name in ALGORITHMS)
    return [
        (f"1,000 and 10,000 clients: {slowest.faster:.3g} times faster, at least {FASTER}", slowest.faster >= FASTER),
        (f"fixed cost with {FIXED_AT:,} clients: {fixed:.2f} s, at most {FIXED} s", fixed <= FIXED),
        (f"a step with {CLIENTS[-1]:,} clients takes {steepest:.2f} times that with 100, at most {FLAT}",
         steepest <= FLAT),
    ]  # fmt: skip


def markdown(lines: Sequence[ClientLine]) -> str:
    """Return the table with its bars and a description of the machine."""
    text = [
        "# Many clients",
        "",
        f"Measured in one run of `make bench`: {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, torch {torch.__version__}, 1 thread. SYNTHETIC clients with {SAMPLES} "
        f"samples of 20 features, mlp with {HIDDEN} hidden units, mini-batches of {BUDGET.batch_size}, one local epoch "
        f"in a round. Microseconds (CPU time) per local step of one client, with silobench and in the plain loop of "
        f"`tests/reference`; `fixed` is the time that does not depend on the number of rounds.",
        "",
        "| algorithm | clients | path | plain loop, µs | silobench, µs | times faster | fixed, s | peak memory, GB |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    text += [
        f"| {line.algorithm} | {line.clients:,} | {line.path} | {line.plain:.0f} | {line.silobench:.3g} | "
        f"{line.faster:.3g} | {line.fixed:.2f} | {line.memory / 1e9:.2f} |"
        for line in lines
    ]
    text += ["", *(f"- {sentence}: {'met' if met else '**MISSED**'}" for sentence, met in bars(lines))]
    return "\n".join([*text, ""])


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    if len(sys.argv) == 3:
        print(json.dumps(dataclasses.asdict(measure(sys.argv[1], int(sys.argv[2])))))
        return
    lines = []
    for algorithm, clients in product(ALGORITHMS, CLIENTS):
        command = [sys.executable, __file__, algorithm, str(clients)]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        lines.append(ClientLine(**json.loads(made)))
    print(text := markdown(lines))
    print(write_whole(OUT / "clients.json", f"{json.dumps([dataclasses.asdict(line) for line in lines])}\n".encode()))
    print(write_whole(OUT / "clients.md", text.encode()))


if __name__ == "__main__":
    try:
        main()
    except SilobenchError as error:
        sys.exit(f"error: {error}")
