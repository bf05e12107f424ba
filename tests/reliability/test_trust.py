"""Requirements on a number before it is in a table; each test prints its number."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from bench import spec
from bench.data import load_dataset
from bench.data.files.locate import locate
from bench.data.files.raw_file import RawFile
from bench.report.tables.build import build
from bench.report.tables.rank_tests import rank_table
from bench.report.tables.table import Row, TableSpec
from bench.sweep.executors.base import BatchResult
from bench.sweep.runner import Runner
from bench.sweep.search.selection import choose
from bench.sweep.store import Store
from bench.types import DataError, Federation, SilobenchError, Split
from tests.data.files.test_cache import Filler, ask
from tests.reliability import toy_sweep
from tests.sweep.scripted import Scripted, run_batch, trained
from tests.sweep.test_study import run_study, serve

STUDY = """
title = "Bars"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 2
local_steps = 3
batch_size = 8
[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 0.01, 1e38]
[methods.fedprox]
model = "logistic"
fixed = {{ lr = {lr}, mu = 0.1 }}
"""


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., spec.StudySpec]:
    def study(lr: float = 0.1) -> spec.StudySpec:
        file = tmp_path / "study.toml"
        file.write_text(STUDY.format(lr=lr))
        return spec.read(file)

    return study


def a_raw_file(room: Path) -> tuple[Path, Callable[[], object]]:
    """Return a raw file such as a publisher's list of clients and samples, and a function that reads it."""
    file = room / "partition.csv"
    file.write_bytes(b"sample,client\n" + b"".join(b"%d,%d\n" % (i, i % 4) for i in range(50)))
    digest, size = hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_size
    return file, lambda: locate(RawFile(file.name, digest, size, ("https://example.org/partition.csv",)), room)


def a_prepared_array(room: Path) -> tuple[Path, Callable[[], object]]:
    ask(room / "raw", Filler())
    return next(room.glob("cache/prepared/toy/*/x.npy")), lambda: ask(room / "raw", Filler())


def a_record(room: Path) -> tuple[Path, Callable[[], object]]:
    store = Store(room / "runs")
    file = store.write([toy_sweep.record(run) for run in toy_sweep.runs(1, 3)], seconds=1.0)
    return file, store.records


def damages(content: bytes, draw: random.Random) -> Iterator[bytes]:
    """Yield the content with one byte flipped (a hundred times) and truncated (fifty times)."""
    for place in (draw.randrange(len(content)) for _ in range(100)):
        yield content[:place] + bytes([content[place] ^ draw.randint(1, 255)]) + content[place + 1 :]
    for _ in range(50):
        yield content[: draw.randrange(len(content))]


@pytest.mark.parametrize("made", [a_raw_file, a_prepared_array, a_record])
def test_r6_flipped_and_truncated_files_are_reported_with_the_remedy(made, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    file, read = made(tmp_path)
    content, found, tried = file.read_bytes(), 0, 0
    for bad in damages(content, random.Random(6)):
        file.write_bytes(bad)
        tried += 1
        with pytest.raises(DataError, match=r"delete|to prepare it again|download https") as error:
            read()
        found += str(file) in str(error.value) and "\n" not in str(error.value)
    file.write_bytes(content)
    read()
    print(f"\nR6: {made.__name__[2:].replace('_', ' ')}: {found} of {tried} damages found, named and with a repair")
    assert found == tried


def test_r8_runs_with_exploding_losses_are_diverged_and_the_sweep_continues(study, tmp_path):
    found = run_study(study(), Store(tmp_path / "runs"))
    records = [record for search in found.values() for seeds in search.records for record in seeds]
    diverged = [record for record in records if record["status"] == "diverged"]
    print(f"\nR8: {len(diverged)} of {len(records)} runs diverged, all recorded")
    assert {record["spec"]["hyperparameters"]["lr"] for record in diverged} == {1e38}
    assert all({"round", "client", "what"} == set(record["diverged"]) for record in diverged)
    assert all(score[-1] is None for record in diverged for score in record["scores"])
    assert choose(found["fedavg"]).hyperparameters["lr"] < 1


def test_a_run_batch_without_enough_memory_is_split_and_each_run_trained_once(tmp_path):
    whole, store, tries = run_batch(1, 2, 3, 4, rates=(0.01, 0.1)), Store(tmp_path / "runs"), []

    def end(each):
        tries.append(len(each.runs))
        return BatchResult(each, error="out of memory", lost=True) if len(each.runs) > 2 else trained(each)

    with Runner(Scripted(end)) as runner:
        runner.train([whole], store)
    print(f"\nOut of memory: {len(whole.runs)} runs, tried {tries} at a time, {len(store.records())} recorded")
    assert sorted(store.records()) == sorted(run.hash for run in whole.runs)
    assert tries == [8, 4, 2, 2, 4, 2, 2]


def test_r9_missing_and_diverged_cells_never_become_averages(study, tmp_path):
    found = run_study(study(lr=1e38), Store(tmp_path / "runs"))
    chosen = {name: choose(search) for name, search in found.items()}
    (first, *_) = chosen["fedavg"].records
    chosen["fedavg"] = dataclasses.replace(chosen["fedavg"], records=(first, None))
    rows = (Row("FedAvg", "fedavg", checkpoints=("local",)), Row("FedProx", "fedprox", checkpoints=("local",)))
    table = build(TableSpec("t", "T", "digits", "accuracy", rows, silo=None), chosen)
    print(f"\nR9: {[cell.note for cell in table.overall]}, {sum(cell.mean is not None for cell in table.cells)} means")
    assert [cell.note for cell in table.overall] == ["missing 1/2", "diverged 2/2"]
    assert all(cell.mean is None for cell in table.cells)
    with pytest.raises(SilobenchError, match="rank tests need every run, and FedAvg has missing 1/2"):
        rank_table(table)


def test_r14_shuffled_test_labels_change_no_choice_and_no_validation_number(study, tmp_path, monkeypatch):
    honest = run_study(study(), Store(tmp_path / "honest"))

    def shuffled(name: str, root: Path | None, **options: object) -> Federation:
        federation, generator = load_dataset(name, root, **options), torch.Generator().manual_seed(14)
        tests = [own.test for own in federation.clients]
        orders = [torch.randperm(len(test), generator=generator) for test in tests]
        clients = [
            dataclasses.replace(own, test=Split(test.x, test.y[order]))
            for own, test, order in zip(federation.clients, tests, orders, strict=True)
        ]
        return dataclasses.replace(federation, clients=tuple(clients))

    serve(monkeypatch, shuffled)
    canary = run_study(study(), Store(tmp_path / "canary"))
    both = [
        pair
        for name in honest
        for a, b in zip(honest[name].records, canary[name].records, strict=True)
        for pair in zip(a, b, strict=True)
    ]
    changed = sum(a["scores"] != b["scores"] for a, b in both)
    same = sum((a["validation"], a["aggregated"]) == (b["validation"], b["aggregated"]) for a, b in both)
    print(f"\nR14: of {len(both)} runs {changed} have other test scores, {same} the same validation losses")
    assert same == len(both)
    assert changed > 0
    assert all(choose(honest[name]).hyperparameters == choose(canary[name]).hyperparameters for name in honest)
