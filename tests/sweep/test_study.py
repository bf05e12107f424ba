"""Running studies: only what is missing is trained, records do not depend on history, bad requests train nothing."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from bench import spec
from bench.sweep import study as running
from bench.sweep.select import choose
from bench.sweep.store import Store
from bench.sweep.study import run_study
from bench.train import engine
from bench.types import Budget, Federation, Outcome, RunSpec, SpecError

HEAD = """
title = "A study"
seeds = {seeds}
[data]
name = "digits"
[budget]
rounds = 2
local_epochs = 1
batch_size = 4
"""
FEDAVG = '[methods.fedavg]\nmodel = "logistic"\ngrid.lr = {lr}\n'
FEDPROX = '[methods.fedprox]\nmodel = "logistic"\nfixed = {{ lr = 0.1, mu = {mu} }}\n'


@pytest.fixture
def study(tmp_path):
    numbers = itertools.count()

    def study(*methods: str, seeds=(1, 2), lr=(0.1, 0.01), mu=1.0, head: str = HEAD) -> spec.StudySpec:
        file = tmp_path / f"study{next(numbers)}.toml"
        file.write_text("".join((head, *methods)).format(seeds=list(seeds), lr=list(lr), mu=mu))
        return spec.read(file)

    return study


def federation(shift: float = 0.0) -> Federation:
    def client(n: int, sign: float) -> dict:
        x = [[sign * i / n, (i % 3) / 3 + shift] for i in range(n)]
        y = [i % 2 for i in range(n)]
        return {"train": (x, y), "test": (x[:4], y[:4])}

    return Federation.from_arrays({"north": client(12, 1.0), "south": client(9, -1.0)}, name="toy")


@pytest.fixture(autouse=True)
def toy_data(monkeypatch):
    monkeypatch.setattr(running, "load_dataset", lambda name, root, **options: federation())


@pytest.fixture
def trained(monkeypatch):
    """Replaces the engine by one that is quick, and notes how many runs each of its calls trained."""
    calls: list[int] = []

    def train(federation, *, settings, seeds, **common) -> list[Outcome]:
        calls.append(len(settings) * len(seeds))
        return [
            Outcome(setting, seed, "finished", None, (("local", 0, 0, "accuracy", 0.5),), ((setting["lr"] + seed,),),
                    (setting["lr"] + seed,), {"up": 1, "down": 1}, 2, "stack")
            for setting, seed in itertools.product(settings, seeds)
        ]  # fmt: skip

    monkeypatch.setattr(engine, "train", train)
    return calls


def contents(store: Store) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (store.path / "records").iterdir()}


def test_a_second_call_trains_nothing_and_finds_the_same(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    first = run_study(study(FEDAVG, FEDPROX), store)
    assert sorted(trained) == [2, 4]
    assert first == run_study(study(FEDAVG, FEDPROX), store)
    assert sorted(trained) == [2, 4]
    assert choose(first["fedavg"]).hyperparameters == {"lr": 0.01}
    assert choose(first["fedavg"]).loss == pytest.approx(1.51)


def test_only_what_is_new_is_trained(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    run_study(study(FEDAVG), store)
    run_study(study(FEDAVG, lr=(0.1, 0.01, 1.0)), store)
    run_study(study(FEDAVG, lr=(1.0, 0.1, 0.01), seeds=(3, 2, 1)), store)
    assert trained == [4, 2, 3]


def test_only_the_methods_asked_for_are_trained(study, tmp_path, trained):
    found = run_study(study(FEDAVG, FEDPROX), Store(tmp_path / "runs"), methods=["fedprox"])
    assert (list(found), trained) == (["fedprox"], [2])


def test_other_data_under_the_same_name_are_trained_anew(study, tmp_path, trained, monkeypatch):
    store = Store(tmp_path / "runs")
    run_study(study(FEDPROX), store)
    monkeypatch.setattr(running, "load_dataset", lambda name, root, **options: federation(shift=1e-3))
    run_study(study(FEDPROX), store)
    assert trained == [2, 2]


def test_records_depend_neither_on_an_interruption_nor_on_the_order_of_methods(study, tmp_path, trained, monkeypatch):
    uncut, cut = Store(tmp_path / "uncut"), Store(tmp_path / "cut")
    run_study(study(FEDAVG, FEDPROX), uncut)
    whole = engine.train

    def interrupted(*arguments, **options):
        monkeypatch.setattr(engine, "train", stopped)
        return whole(*arguments, **options)

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(study(FEDPROX, FEDAVG), cut)
    assert len(contents(cut)) == 1
    monkeypatch.setattr(engine, "train", whole)
    run_study(study(FEDPROX, FEDAVG), cut)
    assert contents(cut) == contents(uncut)


def test_methods_that_share_runs_are_packed_the_same_in_any_order(study, tmp_path, trained):
    again = FEDAVG.replace("[methods.fedavg]", '[methods.slow]\nalgorithm = "fedavg"').replace("{lr}", "[0.01, 0.001]")
    one, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    run_study(study(FEDAVG, again), one)
    run_study(study(again, FEDAVG), other)
    assert trained == [6, 6]
    assert contents(one) == contents(other)


def test_without_training_missing_runs_are_none(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    run_study(study(FEDAVG, lr=(0.1,)), store)
    found = run_study(study(FEDAVG), store, train=False)["fedavg"]
    assert trained == [2]
    assert [[record is None for record in records] for records in found.records] == [[False, False], [True, True]]


def test_a_record_holds_every_hyperparameter_and_gives_its_run_again(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    (found,) = run_study(study(FEDPROX, head=HEAD + 'optimizer = "adamw"\n'), store).values()
    for record in found.records[0]:
        assert record["spec"]["hyperparameters"] == {"lr": 0.1, "mu": 1.0, "weight_decay": 0.01}
        content = record["spec"]
        assert RunSpec(**content | {"budget": Budget(**content["budget"])}).hash == record["run"]
        assert (record["clients"], record["test_sizes"], record["synthetic"]) == (["north", "south"], [4, 4], False)


def test_progress_is_told_before_every_population_and_at_the_end(study, tmp_path, trained):
    told: list[tuple[int, int]] = []
    run_study(
        study(FEDAVG, FEDPROX), Store(tmp_path / "runs"), progress=lambda done, total, text: told.append((done, total))
    )
    assert told == [(0, 6), (trained[0], 6), (6, 6)]


def test_a_metric_the_data_do_not_have_is_refused_before_training(study, tmp_path, trained):
    table = '[[tables]]\nid = "t"\nmetric = "acuracy"\nrows = [{{ method = "A", of = "fedavg" }}]\n'
    with pytest.raises(SpecError, match=r"study0.toml: t: toy is not scored by 'acuracy': did you mean 'accuracy'\?"):
        run_study(study(FEDAVG, table), Store(tmp_path / "runs"))
    assert trained == []


def test_an_optimiser_an_algorithm_is_not_defined_for_is_refused_before_the_data_are_loaded(
    study, tmp_path, monkeypatch
):
    monkeypatch.setattr(running, "load_dataset", None)
    scaffold = '[methods.scaffold]\nmodel = "logistic"\nbudget.optimizer = "adamw"\n'
    with pytest.raises(SpecError, match=r"study0.toml: methods.scaffold: scaffold is defined for optimizer sgd"):
        run_study(study(scaffold), Store(tmp_path / "runs"))


def test_the_engine_gives_equal_records_twice_and_notes_divergence(study, tmp_path):
    stores = [Store(tmp_path / name) for name in ("one", "other")]
    decaying = FEDAVG + "fixed.weight_decay = 10\n"  # the weights overflow
    found = [run_study(study(decaying, lr=(1e30, 0.1)), store) for store in stores]
    assert contents(stores[0]) == contents(stores[1])
    assert found[0] == found[1]
    high, low = found[0]["fedavg"].records
    assert [record["status"] for record in (*high, *low)] == ["diverged", "diverged", "finished", "finished"]
    assert all(score[-1] is None for record in high for score in record["scores"])
    assert choose(found[0]["fedavg"]).hyperparameters["lr"] == 0.1


def test_torch_keeps_the_threads_it_had(study, tmp_path, trained):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        run_study(study(FEDAVG), Store(tmp_path / "runs"))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_the_path_of_a_store_may_hold_spaces_and_umlauts(study, tmp_path, trained):
    store = Store(Path(tmp_path / "mes données" / "Läufe"))
    assert run_study(study(FEDAVG), store) == run_study(study(FEDAVG), store)
    assert trained == [4]
