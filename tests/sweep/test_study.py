"""Running studies: only missing runs are trained, records do not depend on history, errors come before training."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import spec
from bench.cli.records_text import of_run
from bench.data.metadata import Metadata
from bench.sweep import study as running
from bench.sweep import training
from bench.sweep.executors.local import InProcessExecutor
from bench.sweep.runner import Runner
from bench.sweep.search.selection import SearchResult, choose
from bench.sweep.store import Store
from bench.sweep.training import WorkerSettings
from bench.train import engine
from bench.train.halving import survivors
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


def load(name: str, root: Path | None, **options) -> Federation:
    return dataclasses.replace(federation(), options=options)


@pytest.fixture(autouse=True)
def toy_data(monkeypatch):
    serve(monkeypatch, load)


def serve(monkeypatch, load) -> None:
    """Replace every data set by the federation that ``load`` returns for its options."""
    monkeypatch.setattr(training, "load_dataset", load)
    monkeypatch.setattr(training, "_loaded", training.RecentCache())
    monkeypatch.setattr(running, "dataset_metadata", lambda name, root, given: Metadata.of(load(name, root, **given)))


@pytest.fixture
def trained(monkeypatch):
    """Replace the engine by a fast one; return the list of the numbers of runs that each call trained."""
    calls: list[int] = []

    def run(federations, *, settings, seeds, budget, rungs=(), reduction=0, **common):
        calls.append(len(settings) * len(seeds))
        losses = [abs(math.log10(setting["lr"]) + 1) for setting in settings]  # the best is 0.1
        alive, ended = list(range(len(settings))), [budget.rounds] * len(settings)
        for rung in rungs[:-1]:
            kept = [alive[i] for i in survivors([losses[i] for i in alive], reduction)]
            ended = [rung if i in alive and i not in kept else end for i, end in enumerate(ended)]
            alive = kept
        return SimpleNamespace(environments=[], outcomes=[
            Outcome(setting, seed, "finished", None, (("local", 0, 0, "accuracy", 0.5),),
                    ((losses[i] + seed / 1e3,),) * ended[i], (losses[i] + seed / 1e3,) * ended[i],
                    {"up": 1, "down": 1}, (2, 2), "stack")
            for i, setting in enumerate(settings) for seed in seeds
        ])  # fmt: skip

    monkeypatch.setattr(engine, "run", run)
    return calls


def run_study(study: spec.StudySpec, store: Store, **options) -> dict[str, SearchResult]:
    """Train the study in this process."""
    with Runner(lambda progress: InProcessExecutor(WorkerSettings(None, None), progress)) as runner:
        return running.run_study(study, store, runner=runner, **options)


def contents(store: Store) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (store.path / "records").iterdir()}


def test_a_second_call_trains_nothing_and_returns_the_same(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    first = run_study(study(FEDAVG, FEDPROX), store)
    assert sorted(trained) == [2, 4]
    assert first == run_study(study(FEDAVG, FEDPROX), store)
    assert sorted(trained) == [2, 4]
    assert choose(first["fedavg"]).hyperparameters == {"lr": 0.1}
    assert choose(first["fedavg"]).loss == pytest.approx(0.0015)


def test_only_new_runs_are_trained(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    run_study(study(FEDAVG), store)
    run_study(study(FEDAVG, lr=(0.1, 0.01, 1.0)), store)
    run_study(study(FEDAVG, lr=(1.0, 0.1, 0.01), seeds=(3, 2, 1)), store)
    assert trained == [4, 2, 3]


def test_only_the_given_methods_are_trained(study, tmp_path, trained):
    found = run_study(study(FEDAVG, FEDPROX), Store(tmp_path / "runs"), methods=["fedprox"])
    assert (list(found), trained) == (["fedprox"], [2])


def test_changed_data_of_the_same_name_are_trained_again(study, tmp_path, trained, monkeypatch):
    store = Store(tmp_path / "runs")
    run_study(study(FEDPROX), store)
    serve(monkeypatch, lambda name, root, **options: federation(shift=1e-3))
    run_study(study(FEDPROX), store)
    assert trained == [2, 2]


def test_records_depend_neither_on_an_interruption_nor_on_the_order_of_methods(study, tmp_path, trained, monkeypatch):
    uncut, cut = Store(tmp_path / "uncut"), Store(tmp_path / "cut")
    run_study(study(FEDAVG, FEDPROX), uncut)
    whole = engine.run

    def interrupted(*arguments, **options):
        monkeypatch.setattr(engine, "run", stopped)
        return whole(*arguments, **options)

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study(study(FEDPROX, FEDAVG), cut)
    assert len(contents(cut)) == 1
    monkeypatch.setattr(engine, "run", whole)
    run_study(study(FEDPROX, FEDAVG), cut)
    assert contents(cut) == contents(uncut)


def test_methods_that_share_runs_give_the_same_run_batches_in_any_order(study, tmp_path, trained):
    again = FEDAVG.replace("[methods.fedavg]", '[methods.slow]\nalgorithm = "fedavg"').replace("{lr}", "[0.01, 0.001]")
    one, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    run_study(study(FEDAVG, again), one)
    run_study(study(again, FEDAVG), other)
    assert trained == [6, 6]
    assert contents(one) == contents(other)


def test_without_training_missing_runs_are_none(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    run_study(study(FEDAVG, lr=(0.1,)), store)
    found = running.run_study(study(FEDAVG), store)["fedavg"]
    assert trained == [2]
    assert [[record is None for record in records] for records in found.records] == [[False, False], [True, True]]


def test_a_record_has_every_hyperparameter_and_repeats_its_run(study, tmp_path, trained):
    store = Store(tmp_path / "runs")
    (found,) = run_study(study(FEDPROX, head=HEAD + 'optimizer = "adamw"\n'), store).values()
    for record in found.records[0]:
        assert record["spec"]["hyperparameters"] == {"lr": 0.1, "mu": 1.0, "weight_decay": 0.01}
        content = record["spec"]
        assert RunSpec(**content | {"budget": Budget(**content["budget"])}).hash == record["run"]
        assert (record["clients"], record["test_sizes"], record["synthetic"]) == (["north", "south"], [4, 4], False)


def test_a_metric_the_data_do_not_have_is_refused_before_training(study, tmp_path, trained):
    table = '[[tables]]\nid = "t"\nmetric = "acuracy"\nrows = [{{ method = "A", of = "fedavg" }}]\n'
    with pytest.raises(SpecError, match=r"study0.toml: t: digits has no metric 'acuracy': did you mean 'accuracy'\?"):
        run_study(study(FEDAVG, table), Store(tmp_path / "runs"))
    assert trained == []


def test_an_optimiser_an_algorithm_is_not_defined_for_is_refused_before_the_data_are_loaded(
    study, tmp_path, monkeypatch
):
    monkeypatch.setattr(running, "dataset_metadata", None)
    scaffold = '[methods.scaffold]\nmodel = "logistic"\nbudget.optimizer = "adamw"\n'
    with pytest.raises(SpecError, match=r"study0.toml: methods.scaffold: scaffold is defined for optimizer sgd"):
        run_study(study(scaffold), Store(tmp_path / "runs"))


def test_the_engine_gives_equal_records_twice_and_reports_divergence(study, tmp_path):
    stores = [Store(tmp_path / name) for name in ("one", "other")]
    decaying = FEDAVG + "fixed.weight_decay = 10\n"  # the weights overflow
    found = [run_study(study(decaying, lr=(1e30, 0.1)), store) for store in stores]
    assert contents(stores[0]) == contents(stores[1])
    assert found[0] == found[1]
    high, low = found[0]["fedavg"].records
    assert [record["status"] for record in (*high, *low)] == ["diverged", "diverged", "finished", "finished"]
    assert all(score[-1] is None for record in high for score in record["scores"])
    assert choose(found[0]["fedavg"]).hyperparameters["lr"] == 0.1


def test_a_run_that_stops_early_has_the_record_of_its_own_budget(study, tmp_path):
    head, store = HEAD.replace("rounds = 2", "rounds = 9\npatience = 1\nvalidation = 0.4"), Store(tmp_path / "runs")
    asked = study(FEDAVG, lr=(1e30, 0.3), head=head)
    found = run_study(asked, store)
    records = [record for seeds in found["fedavg"].records for record in seeds]
    assert [record["spec"]["budget"]["rounds"] for record in records] == [9] * 4
    assert {record["spec"]["budget"]["patience"] for record in records} == {1}
    stopped = [record for record in records if "stopped" in record]
    assert stopped
    assert all(record["stopped"] == len(record["aggregated"]) < 9 for record in stopped)
    assert f"stopped early after {stopped[0]['stopped']} of 9 rounds" in next(of_run(stopped[0]))
    before = contents(store)
    assert run_study(asked, store) == found
    assert contents(store) == before


def test_the_number_of_torch_threads_is_restored(study, tmp_path, trained):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        run_study(study(FEDAVG), Store(tmp_path / "runs"))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_the_path_of_a_store_may_have_spaces_and_umlauts(study, tmp_path, trained):
    store = Store(Path(tmp_path / "mes données" / "Läufe"))
    assert run_study(study(FEDAVG), store) == run_study(study(FEDAVG), store)
    assert trained == [4]


RANGE = '[methods.fedavg]\nmodel = "logistic"\nrange.lr = {{ low = 1e-3, high = 10.0, log = true }}\n'


@pytest.mark.parametrize("kind", ["random", "tpe"])
def test_an_interrupted_search_asks_for_the_same_settings_and_continues(study, tmp_path, trained, monkeypatch, kind):
    batch = "batch = 4\n" if kind == "tpe" else ""
    searched = study(RANGE, f'[search]\nkind = "{kind}"\ntrials = 14\n{batch}')
    uncut, cut = Store(tmp_path / "uncut"), Store(tmp_path / "cut")
    found = run_study(searched, uncut)["fedavg"]
    assert len(found.settings) == 14
    assert all(1e-3 <= setting["lr"] <= 10 for setting in found.settings)
    assert sum(trained) == 28
    whole, left = engine.run, 2

    def interrupted(*arguments, **options):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr(engine, "run", interrupted)
    if kind == "tpe":  # drawn in several batches; all random settings are one run batch
        with pytest.raises(KeyboardInterrupt):
            run_study(searched, cut)
    monkeypatch.setattr(engine, "run", whole)
    assert run_study(searched, cut) == {"fedavg": found}
    assert contents(cut) == contents(uncut)
    assert running.run_study(searched, cut) == {"fedavg": found}


@pytest.mark.parametrize(("kind", "trials", "noted"), [("tpe", 10, True), ("tpe", 11, False), ("random", 4, False)])
def test_a_tpe_search_with_random_trials_only_is_noted(study, tmp_path, trained, kind, trials, noted):
    searched = study(RANGE, f'[search]\nkind = "{kind}"\ntrials = {trials}\n')
    events: list[dict] = []
    with Runner(lambda told: InProcessExecutor(WorkerSettings(None, None), told), events.append) as runner:
        running.run_study(searched, Store(tmp_path / "runs"), runner=runner)
    notes = [event["text"] for event in events if event["event"] == "note"]
    assert [f"methods.fedavg: all {trials} trials are drawn at random" in note for note in notes] == [True] * noted
    assert list(running.notes(searched)) == notes


def test_tpe_uses_the_losses(study, tmp_path, trained):
    def mean_loss(kind: str, more: str = "") -> float:
        searched = study(RANGE, f'[search]\nkind = "{kind}"\ntrials = 40\n{more}')
        found = run_study(searched, Store(tmp_path / kind))["fedavg"]
        return sum(abs(math.log10(setting["lr"]) + 1) for setting in found.settings[20:]) / 20

    assert mean_loss("tpe", "batch = 5\n") < mean_loss("random")


def test_a_plan_counts_the_later_settings_of_a_search(study, tmp_path, trained):
    searched = study(RANGE, '[search]\nkind = "tpe"\ntrials = 7\nbatch = 3\n')

    def planned(store: Store) -> list[int]:
        run_batches, runs = running.run_batches(searched, store.records())
        assert runs == 14
        return [len(run_batch.runs) for run_batch in run_batches]

    store = Store(tmp_path / "runs")
    assert planned(store) == [6, 6, 2]
    run_study(searched, store)
    assert planned(store) == []


def test_halving_records_dropped_runs_as_runs_of_fewer_rounds(study, tmp_path, trained):
    search = '[search]\nkind = "halving"\ntrials = 9\nfirst = 1\nreduction = 3\n'
    halved = study(RANGE, search, "[methods.fedavg.budget]\nrounds = 4\n")
    store = Store(tmp_path / "runs")
    found = run_study(halved, store)["fedavg"]
    assert trained == [18]
    rounds = [records[0]["spec"]["budget"]["rounds"] for records in found.records]
    assert sorted(rounds) == [1] * 6 + [3] * 2 + [4]
    chosen = choose(found)
    assert chosen.records[0]["spec"]["budget"]["rounds"] == 4
    assert chosen.hyperparameters == min(found.settings, key=lambda setting: abs(math.log10(setting["lr"]) + 1))
    assert len(found.dropped) == 8
    assert run_study(halved, store) == {"fedavg": found}
    assert trained == [18]


@pytest.mark.parametrize("algorithm", ["fedbabu", "local_adaptation"])
def test_halving_compares_losses_before_the_final_tuning(study, tmp_path, monkeypatch, algorithm):
    """At a rung a dropped run has a loss after tuning, a continued run has none: the losses before tuning count."""
    halved = study(
        f'[methods.tuned]\nalgorithm = {{{{ name = "{algorithm}", epochs = 20 }}}}\nmodel = "mlp"\n',
        "range.lr = {{ low = 1.0, high = 10.0, log = true }}\n",  # after tuning, higher rates are better
        '[methods.tuned.search]\nkind = "halving"\ntrials = 9\nfirst = 1\nreduction = 3\n',
        "[methods.tuned.budget]\nrounds = 9\n",
    )
    store = Store(tmp_path / "runs")
    found = run_study(halved, store)
    monkeypatch.setattr(engine, "run", None)  # no run is trained again
    assert run_study(halved, store) == found


def test_options_of_model_data_and_budget_are_searched_like_hyperparameters(study, tmp_path, trained):
    searched = study(
        '[methods.fedavg]\nmodel = "mlp"\nfixed.lr = 0.1\n'
        'grid."model.hidden" = [5, 10]\ngrid."data.partition_seed" = [3, 4]\ngrid."budget.local_steps" = [3]\n'
    )
    found = run_study(searched, Store(tmp_path / "runs"))["fedavg"]
    assert trained == [2, 2, 2, 2]
    seen = [records[0]["spec"] for records in found.records]
    assert [run["model"]["options"]["hidden"] for run in seen] == [5, 5, 10, 10]
    assert [run["data"]["options"]["partition_seed"] for run in seen] == [3, 4, 3, 4]
    assert {(run["budget"]["local_steps"], run["budget"]["local_epochs"]) for run in seen} == {(3, None)}


def test_an_option_of_the_data_may_be_the_seed_of_the_run(study, tmp_path, trained):
    head = HEAD.replace('name = "digits"', 'name = "digits"\npartition_seed = {{ from = "seed" }}')
    found = run_study(study(FEDAVG, head=head, seeds=(7, 8)), Store(tmp_path / "runs"))["fedavg"]
    assert trained == [4]
    data = [record["spec"]["data"] for record in found.records[0]]
    assert [(each["options"]["partition_seed"], each["by_seed"]) for each in data] == [
        (7, ["partition_seed"]),
        (8, ["partition_seed"]),
    ]


def test_several_data_sets_make_a_method_and_a_table_each(study, tmp_path, trained):
    head = HEAD.replace("[data]\n", "").replace('name = "digits"', "")
    data = '[[data]]\nname = "digits"\n[[data]]\nname = "digits"\nlabel = "skewed"\npartition_seed = 5\n'
    several = study(data, FEDAVG, head=head).with_a_table()
    assert list(several.methods) == ["fedavg@digits", "fedavg@skewed"]
    assert [table.rpartition("-")[2] for table in several.tables] == ["digits", "skewed"]
    found = run_study(several, Store(tmp_path / "runs"))
    assert [search.records[0][0]["spec"]["data"]["options"] for search in found.values()] == [{}, {"partition_seed": 5}]
