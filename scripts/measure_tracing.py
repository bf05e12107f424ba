"""Cost of tracing and of the traced step: silobench's recorder compared with PyTorch's ``make_fx``.

    python scripts/measure_tracing.py

Writes results/benchmarks/tracing.md. Each line is measured in a process of its own, which ``python
scripts/measure_tracing.py WORK TRACER`` starts alone. All times are CPU times of one thread, child processes
(compilers) included; that of a step is the least of several repetitions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from bench_speed import images
from torch import Tensor
from tracers import TRACERS, observed
from tracing_table import Line, StudyLine, markdown

from bench.data import load_dataset
from bench.files import write_whole
from bench.native.memory import keep_freed_memory
from bench.registry import folder
from bench.spec import read
from bench.sweep import training
from bench.sweep.study import run_batches
from bench.train import engine
from bench.train.path import ExecutionPath
from bench.types import Budget, Federation

OUT = Path(__file__).parent.parent / "results" / "benchmarks"
REPEATS, SECONDS = 7, 0.2  # of the warm step: repetitions, and CPU seconds of each
STEPS = 10  # after which the states of two tracers are compared
RATES = (0.01, 3e-3, 1e-3, 3e-4, 1e-4)
STUDY = "quickstart/quickstart.toml"
STUDIED = ("recorder", "make_fx", "make_fx, simplified")
COMPILED = ("Quickstart", "AdamW", "CNN")  # works that are also compiled; the others would take minutes


@dataclass(frozen=True)
class Work:
    """A run batch whose local step is measured."""

    title: str
    path: ExecutionPath
    federation: Callable[[], Federation]
    algorithm: str
    model: str
    budget: Budget
    rates: Sequence[float] = RATES
    seeds: Sequence[int] = range(5)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, float] = field(default_factory=dict)

    def train(self) -> None:
        engine.run(
            self.federation(), algorithm=self.algorithm, model=self.model, model_options=self.options,
            settings=[{"lr": rate, **self.settings} for rate in self.rates], seeds=self.seeds, budget=self.budget,
            path=self.path,
        )  # fmt: skip


@cache
def data(name: str, **options: str) -> Federation:
    return load_dataset(name, **options)


SGD, ADAMW = (Budget(rounds=1, local_steps=3, batch_size=4, optimizer=name) for name in ("sgd", "adamw"))
HEART = Work(
    "FedAvg on Fed-Heart-Disease, mlp with 10 hidden units, 5 settings x 5 seeds x 4 clients, mini-batches of 4",
    "stack", partial(data, "fed_heart_disease"), "fedavg", "mlp", ADAMW,
)  # fmt: skip
WORKS = {
    "Quickstart": Work(
        "FedAvg on digits, mlp with 16 hidden units, 4 settings x 5 seeds x 6 clients, mini-batches of 32, SGD",
        "stack", partial(data, "digits"), "fedavg", "mlp", replace(SGD, batch_size=32),
        rates=(0.1, 0.3, 1.0, 3.0), options={"hidden": 16},
    ),
    "AdamW": HEART,
    "MOON": replace(HEART, title="As AdamW, with MOON", algorithm="moon", settings={"mu": 1.0}),
    "One run": replace(HEART, title="As AdamW, one run and client", path="loop", rates=RATES[:1], seeds=(0,)),
    "CNN": Work(
        "FedAvg on SYNTHETIC 28 x 28 images, cnn with 16 channels, mini-batches of 16, SGD, one run and client",
        "loop", lambda: images(train=120, test=16), "fedavg", "cnn", replace(SGD, batch_size=16),
        rates=RATES[:1], seeds=(0,),
    ),
    "Global Layers": Work(
        "Covertype, transformer blocks and AdamW by the kernels in C, one run, the largest client", "loop",
        partial(data, "covertype", source="prepared"), "global_layers", "gl_transformer",
        Budget(rounds=1, local_steps=2, batches=10, optimizer="adamw"), rates=(1e-3,), seeds=(8,),
        options={"d_global": 11, "gate": True, "input_norm": True}, settings={"weight_decay": 1e-4},
    ),
}  # fmt: skip


def measure(work: str, tracer: str) -> Line:
    """Train one round twice with the tracer, then repeat the local step with the largest arguments."""
    steps: list[tuple[Any, list[Tensor]]] = []
    tracing = [0.0]

    def observe(traced: Any, arguments: Sequence[Tensor], iterated: bool) -> None:
        if iterated:
            steps.append((traced, list(arguments)))

    def timed(*given: Any) -> Any:
        began = spent()
        try:
            return TRACERS[tracer](*given)
        finally:
            tracing[-1] += spent() - began

    with observed(timed, observe):
        WORKS[work].train()
        memory = peak()
        tracing.append(0.0)
        WORKS[work].train()
    traced, arguments = max(steps, key=lambda step: sum(each.numel() for each in step[1]))
    operations = sum(node.op in ("call_function", "call_method") for node in traced.graph.nodes)
    with torch.no_grad():
        leaves = _after(STEPS, traced.forward, arguments)
        digest = hashlib.sha256(b"".join(leaf.contiguous().numpy().tobytes() for leaf in leaves)).hexdigest()[:16]
        warm = 1e6 * _warm(traced.forward, arguments)
    cold, again = tracing
    return Line(work, tracer, cold, again, operations, warm, memory, digest, os.getloadavg()[0])


def measure_study(tracer: str) -> StudyLine:
    """Train all run batches of the quickstart's study with the tracer."""
    planned, _ = run_batches(read(folder("experiments") / STUDY), {})
    settings = training.WorkerSettings(None, None)
    settings.federation(planned[0].runs[0])  # not timed: reading data
    began = spent()
    with observed(TRACERS[tracer], lambda *given: None):
        for run_batch in planned:
            training.train(run_batch, settings)
    return StudyLine(tracer, spent() - began, peak(), os.getloadavg()[0])


def spent() -> float:
    """Return the CPU seconds of this process and of the processes that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak() -> int:
    """Return the largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _after(steps: int, forward: Callable[..., Sequence[Tensor]], arguments: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the state after some steps on the same mini-batch."""
    results: Sequence[Tensor] = []
    for _ in range(steps):
        given = [*results, *arguments[len(results) :]]
        results = forward(*(given if results else [each.clone() for each in given]))
    return results


def _warm(forward: Callable[..., Sequence[Tensor]], arguments: Sequence[Tensor]) -> float:
    """Return the CPU seconds of a step, the least of several repetitions."""
    began = spent()
    _after(3, forward, arguments)
    count = max(3, int(3 * SECONDS / (spent() - began)))
    times = []
    for _ in range(REPEATS):
        began = spent()
        _after(count, forward, arguments)
        times.append((spent() - began) / count)
    return min(times)


def main() -> None:
    if len(sys.argv) == 3:
        torch.set_num_threads(1)
        keep_freed_memory()
        torch.set_flush_denormal(True)
        work, tracer = sys.argv[1:]
        line = measure_study(tracer) if work == "study" else measure(work, tracer)
        print(json.dumps(dataclasses.asdict(line)))
        return
    lines: list[Line] = []
    failures: dict[str, str] = {}
    for tracer, work in product(TRACERS, WORKS):
        if tracer.endswith("inductor") and work not in COMPILED:
            continue
        done = _started(work, tracer)
        if done.returncode:
            failures[f"{work}, {tracer}"] = _error(done.stderr)
        else:
            lines.append(Line(**json.loads(done.stdout)))
    studies = [StudyLine(**json.loads(_started("study", tracer).stdout)) for tracer in STUDIED]
    titles = {name: f"{work.title} ({work.path})" for name, work in WORKS.items()}
    print(text := markdown(titles, lines, studies, failures))
    print(write_whole(OUT / "tracing.md", text.encode()))


def _started(work: str, tracer: str) -> subprocess.CompletedProcess[str]:
    """Measure in another process, which compiles everything itself."""
    with tempfile.TemporaryDirectory() as cache:
        variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        command = [sys.executable, __file__, work, tracer]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def _error(text: str) -> str:
    """Return the line of a traceback that names the error."""
    return next(line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception|Unsupported)\b", line))


if __name__ == "__main__":
    main()
