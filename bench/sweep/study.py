"""A study, run: data loaded, what the store lacks trained and kept, all runs handed back by method."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import __version__
from bench.data import load_dataset
from bench.spec import BarsSection, Method, StudySpec
from bench.sweep.plan import plan
from bench.sweep.select import Search
from bench.sweep.store import FORMAT, Store
from bench.types import Federation, Outcome, RunSpec, SpecError, content_hash, nearest

Progress = Callable[[int, int, str], None]


def run_study(
    study: StudySpec,
    store: Store,
    *,
    methods: Collection[str] | None = None,
    root: Path | None = None,
    train: bool = True,
    progress: Progress = lambda finished, total, text: None,
) -> dict[str, Search]:
    """Train what ``store`` lacks of the study, or of the ``methods`` named, and return their runs by method.

    With ``train`` false only what the store holds is returned. Hyper-parameters are resolved before data are loaded,
    data before anything is trained. Populations are kept one by one, so that the same call after an interruption
    goes on with the next. ``progress`` hears how many runs are finished, how many there were to train, and what is
    trained now. Records do not depend on the order of methods.
    """
    wanted = [method for method in study.methods.values() if methods is None or method.name in methods]
    settings = {method.name: _resolved(study, method) for method in wanted}
    loaded: dict[str, Federation] = {}
    for method in wanted:
        if (key := content_hash(asdict(method.data))) not in loaded:
            loaded[key] = load_dataset(method.data.name, root, **method.data.options)
            _check_metrics(study, loaded[key])
    runs = {
        method.name: [
            [_run(method, loaded[content_hash(asdict(method.data))], setting, seed) for seed in study.seeds]
            for setting in settings[method.name]
        ]
        for method in wanted
    }
    federations = {federation.fingerprint: federation for federation in loaded.values()}
    every = [run for grid in runs.values() for seeds in grid for run in seeds]
    records = store.records()
    if train and any(run.hash not in records for run in every):
        _train(every, store, records, federations, progress)
        records = store.records()
    return {
        name: Search(
            method=name,
            settings=tuple(settings[name]),
            seeds=study.seeds,
            records=tuple(tuple(records.get(run.hash) for run in seeds) for seeds in grid),
        )
        for name, grid in runs.items()
    }


def _resolved(study: StudySpec, method: Method) -> list[dict[str, float]]:
    """The method's settings with every default filled in."""
    from bench.train.engine import resolve

    try:
        return [resolve(method.algorithm.name, method.budget.optimizer, setting) for setting in method.settings]
    except SpecError as error:
        raise SpecError(f"{study.file}: methods.{method.name}: {error}") from None


def _check_metrics(study: StudySpec, federation: Federation) -> None:
    sections = [*study.tables.values(), *study.figures.values()]
    for section in sections:
        metric = None if isinstance(section, BarsSection) else section.metric
        if metric is not None and metric not in federation.metrics:
            hint = nearest(metric, federation.metrics)
            raise SpecError(f"{study.file}: {section.id}: {federation.name} is not scored by {metric!r}: {hint}")


def _run(method: Method, federation: Federation, setting: dict[str, float], seed: int) -> RunSpec:
    from bench.train.engine import fitting

    data = {"name": method.data.name, "options": dict(federation.options), "fingerprint": federation.fingerprint}
    model = asdict(method.model) | {"name": fitting(method.algorithm.name, method.model.name)}
    return RunSpec(data, asdict(method.algorithm), model, setting, method.budget, seed)


def _train(
    runs: list[RunSpec],
    store: Store,
    finished: Collection[str],
    federations: dict[str, Federation],
    progress: Progress,
) -> None:
    from bench.train import engine

    populations = plan(runs, finished)
    total, done = sum(len(population.runs) for population in populations), 0
    versions = {"silobench": __version__, "torch": version("torch")}
    with _one_thread():
        for population in populations:
            common = population.runs[0]
            progress(done, total, common.algorithm["name"])
            federation = federations[common.data["fingerprint"]]
            start = time.perf_counter()
            outcomes = engine.train(
                federation,
                algorithm=common.algorithm["name"],
                algorithm_options=common.algorithm["options"],
                model=common.model["name"],
                model_options=common.model["options"],
                settings=list(population.settings),
                seeds=list(population.seeds),
                budget=common.budget,
            )
            seconds = time.perf_counter() - start
            made = [
                record(run, outcome, federation, versions)
                for run, outcome in zip(population.runs, outcomes, strict=True)
            ]
            store.write(made, seconds=seconds)
            done += len(made)
    progress(done, total, "")


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread: faster for small models, and the same sums whatever the number of cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def record(run: RunSpec, outcome: Outcome, federation: Federation, versions: dict[str, str]) -> dict[str, Any]:
    """What is kept of one run: plain containers, and nothing (time, machine) that differs when it is repeated."""
    return {
        "format": FORMAT,
        "run": run.hash,
        "spec": run.as_dict(),
        "status": outcome.status,
        "diverged": outcome.diverged,
        "scores": outcome.scores,
        "validation": outcome.validation,
        "aggregated": outcome.aggregated,
        "communication": outcome.communication,
        "parameters": outcome.parameters,
        "path": outcome.path,
        "clients": [client.name for client in federation.clients],
        "test_sizes": [len(client.test) if client.test else 0 for client in federation.clients],
        "synthetic": federation.synthetic,
        "versions": versions,
    }
