"""CPU time of the two studies of Global Layers on this machine.

The authors' code took, on one core of another machine, 25 minutes of training for 101 seeds and three methods on the
heart cohorts, and 368 s of training for one seed of a federated method on Covertype. On this machine, a plain loop in
torch's own layers (plain_transformer.py) takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import plain_transformer

from bench.data import load_dataset
from bench.registry import folder
from bench.spec import StudySpec, read
from bench.sweep import training
from bench.sweep.study import run_batches

METHODS = ("local", "fedavg", "gl")
SEEDS = (1, 5)  # of the short runs on the heart cohorts
ROUNDS = 3  # rounds of the plain loop on Covertype


def heart() -> float:
    """Estimate CPU seconds of all seeds and three methods on the heart cohorts: loading, training and scoring.

    Costs that arise once count once; the difference between runs of two sizes gives the cost of each further seed.
    """
    study = _study("heart", METHODS)
    first, small, large = (_trained(replace(study, seeds=study.seeds[:n])) for n in (SEEDS[0], *SEEDS))
    return first + (large - small) / (SEEDS[1] - SEEDS[0]) * (len(study.seeds) - SEEDS[0])


def covertype() -> tuple[float, float]:
    """Return CPU seconds of one seed of Global Layers on Covertype: silobench, and training in the plain loop."""
    study = _study("covertype-prepared", ["gl"])
    method = study.methods["gl"]
    federation = load_dataset(method.data.name, None, **method.data.options)
    classes = [int(client.train.y.max()) + 1 for client in federation.clients]
    features = federation.clients[0].train.x.shape[1]
    models = [plain_transformer.Transformer(features, each, d_global=11) for each in classes]
    sites = [(own.train.x, own.train.y, model) for own, model in zip(federation.clients, models, strict=True)]
    batches = method.budget.batches
    assert batches is not None, "the study's mini-batches are counted"
    plain = _spent(lambda: plain_transformer.rounds(sites, ROUNDS, batches)) / ROUNDS * method.budget.rounds
    return _trained(replace(study, seeds=study.seeds[:1])), plain


def _study(name: str, methods: Sequence[str]) -> StudySpec:
    """Return the study with these methods and without its tables."""
    study = read(folder("experiments") / "global_layers" / f"{name}.toml")
    return replace(study, methods={method: study.methods[method] for method in methods}, tables={}, figures={})


def _trained(study: StudySpec) -> float:
    """Return CPU seconds of this process for all runs of a study, from files to scores."""
    planned, _ = run_batches(study, {})
    return _spent(lambda: [training.train(run_batch, training.WorkerSettings(None, None)) for run_batch in planned])


def _spent(do: Callable[[], object]) -> float:
    """Return CPU seconds of this process for a call."""
    begun = time.process_time()
    do()
    return time.process_time() - begun
