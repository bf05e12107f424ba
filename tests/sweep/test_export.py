"""Exports: other tools read the numbers of the records from them, and a failed export leaves no file."""

from __future__ import annotations

import errno
import math
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import optuna
import pandas as pd
import pytest
from optuna.trial import TrialState

from bench import spec
from bench.files import new_place
from bench.sweep.export import to_mlflow, to_optuna, to_tables, to_tensorboard
from bench.sweep.search.selection import SearchResult
from bench.sweep.study import recorded
from bench.sweep.summaries import means, own_scores
from bench.types import SilobenchError
from tests.records import asked, made

HEAD = """
title = "Digits"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 3
local_epochs = 1
batch_size = 8
"""
GRID = """
[methods.fedavg]
model = "mlp"
fixed.lr = 0.1
grid."model.hidden" = [5, 7]
grid."budget.batch_size" = [4, "full"]
"""


@pytest.fixture
def study(tmp_path):
    def study(text: str) -> spec.StudySpec:
        (tmp_path / "study.toml").write_text(HEAD + text)
        return spec.read(tmp_path / "study.toml")

    return study


@pytest.fixture
def runs(study):
    """Return eight runs; the first has curves, the last diverged."""
    asked_for = asked(study(GRID).file)
    curves = {"rounds": [2, 3], "scores": {"accuracy": [[0.5, None], [0.75, 0.25]]}}
    first = made(asked_for[0], 0.25, curves=curves)
    return [first, *(made(run, 0.5) for run in asked_for[1:-1]), made(asked_for[-1], None)]


def test_own_scores_are_those_of_own_models_or_of_a_pooled_model():
    own = [["local", model, client, "accuracy", model + client / 10] for model in (0, 1) for client in (0, 1)]
    undefined = [["local", 0, 0, "auc", None], ["local", 1, 1, "auc", 0.5]]
    record = {"scores": own + undefined}
    assert own_scores(record) == [("local", 0, "accuracy", 0.0), ("local", 1, "accuracy", 1.1),
                                  ("local", 0, "auc", None), ("local", 1, "auc", 0.5)]  # fmt: skip
    assert means(record, "accuracy") == {"local": 0.55}
    assert means(record, "auc") == {"local": 0.5}
    assert means({"scores": undefined[:1]}, "auc") == {"local": None}
    pooled = {"scores": [["global", 0, client, "accuracy", client / 2] for client in (0, 1)]}
    assert means(pooled, "accuracy") == {"global": 0.25}


# csv and parquet --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_hold_every_number_of_the_records(runs, tmp_path, form):
    to_tables.write(runs, tmp_path / "out", form)
    read = pd.read_csv if form == "csv" else pd.read_parquet
    frames = {file.stem: read(file) for file in (tmp_path / "out").iterdir()}
    assert set(frames) == {"runs", "scores", "history", "curves"}
    listed = frames["runs"].set_index("run")
    assert list(listed.index) == [record["run"] for record in runs]
    for record in runs:
        row, budget = listed.loc[record["run"]], record["spec"]["budget"]
        assert (row["algorithm"], row["lr"], row["seed"]) == ("fedavg", 0.1, record["spec"]["seed"])
        assert row["model.hidden"] == record["spec"]["model"]["options"]["hidden"]
        assert row["budget.batch_size"] == str(budget["batch_size"])
    assert listed["diverged_in"].notna().sum() == 1
    scores = [(record["run"], *score[:-1], score[-1] if score[-1] is not None else -1)
              for record in runs for score in record["scores"]]  # fmt: skip
    assert list(frames["scores"].fillna({"value": -1}).itertuples(index=False, name=None)) == scores
    history = frames["history"].fillna(-1)
    assert history.groupby("run").size().eq(3 * 3).all()
    of_first = history[history["run"] == runs[0]["run"]]
    assert of_first[of_first["client"] == -1]["loss"].tolist() == runs[0]["aggregated"]
    assert of_first[of_first["client"] == 1]["loss"].tolist() == [losses[1] for losses in runs[0]["validation"]]
    assert frames["curves"].fillna(-1).drop(columns="run").values.tolist() == [
        [2, 0, "accuracy", 0.5], [2, 1, "accuracy", -1], [3, 0, "accuracy", 0.75], [3, 1, "accuracy", 0.25],
    ]  # fmt: skip


# TensorBoard ------------------------------------------------------------------------------------------------------


def test_tensorboard_reads_losses_curves_and_settings(runs, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    to_tensorboard.write([runs[0], runs[-1]], tmp_path / "out")
    first, diverged = (EventAccumulator(str(tmp_path / "out/digits/fedavg" / record["run"])).Reload()
                       for record in (runs[0], runs[-1]))  # fmt: skip

    def scalars(events: EventAccumulator, tag: str) -> list[tuple[int, Any]]:
        return [(event.step, pytest.approx(event.value)) for event in events.Scalars(tag)]

    assert scalars(first, "validation_loss/all") == list(enumerate(runs[0]["aggregated"], 1))
    assert scalars(first, "validation_loss/1-south") == [(1, 0.45), (2, 0.35), (3, 0.25)]
    assert scalars(first, "test_accuracy/0-north") == [(2, 0.5), (3, 0.75)]
    assert scalars(first, "test_accuracy/1-south") == [(3, 0.25)]
    assert scalars(first, "best_validation_loss") == [(0, 0.25)]
    assert scalars(first, "accuracy/local") == [(0, 0.8)]
    assert diverged.Tags()["scalars"] == []
    content = first.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert settings["lr"].number_value == 0.1
    assert settings["model.hidden"].number_value == runs[0]["spec"]["model"]["options"]["hidden"]
    assert settings["budget.optimizer"].string_value == "sgd"


# MLflow -----------------------------------------------------------------------------------------------------------


class Client:
    """A fake of the part of MLflow's client that is used, with the same signatures."""

    made: Client

    def __init__(self, tracking_uri: str) -> None:
        self.uri = tracking_uri
        self.experiments: list[str] = []
        self.runs: list[dict] = []
        Client.made = self

    def create_experiment(self, name: str, artifact_location: str | None = None) -> str:
        self.experiments.append(name)
        return str(len(self.experiments))

    def create_run(self, experiment_id: str, run_name: str) -> SimpleNamespace:
        self.runs.append({"experiment": experiment_id, "name": run_name, "metrics": [], "params": {}, "tags": {}})
        return SimpleNamespace(info=SimpleNamespace(run_id=len(self.runs) - 1))

    def log_batch(self, run_id: int, metrics: tuple = (), params: tuple = (), tags: tuple = ()) -> None:
        assert len(metrics) <= 1000
        run = self.runs[run_id]
        run["metrics"] += metrics
        run["params"] |= dict(params)
        run["tags"] |= dict(tags)

    def set_terminated(self, run_id: int, status: str) -> None:
        self.runs[run_id]["status"] = status


@pytest.fixture
def mlflow(monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    top: Any = ModuleType("mlflow")
    entities: Any = ModuleType("mlflow.entities")
    top.MlflowClient = Client
    entities.Param = entities.RunTag = lambda key, value: (key, value)
    entities.Metric = lambda key, value, timestamp, step: (key, step, value)
    monkeypatch.setitem(sys.modules, "mlflow", top)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)


def test_mlflow_gets_an_experiment_per_data_set_and_a_run_per_record(runs, tmp_path, mlflow):
    to_mlflow.write([runs[0] | {"clients": ["St. Mary's", "south"]}, runs[-1]], tmp_path / "mlflow.db")
    assert Client.made.uri == f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert Client.made.experiments == ["digits"]
    first, diverged = Client.made.runs
    assert (first["name"], first["status"], diverged["status"]) == (
        f"fedavg {runs[0]['run'][:8]}",
        "FINISHED",
        "FAILED",
    )
    assert first["tags"]["silobench.run"] == runs[0]["run"]
    assert {key: first["params"][key] for key in ("lr", "seed", "budget.rounds")} == {
        "lr": "0.1", "seed": str(runs[0]["spec"]["seed"]), "budget.rounds": "3",
    }  # fmt: skip
    assert "budget.local_steps" not in first["params"]
    assert ("best_validation_loss", 3, 0.25) in first["metrics"]
    assert [(step, value) for key, step, value in first["metrics"] if key == "validation_loss/all"] == list(
        enumerate(runs[0]["aggregated"], 1)
    )
    assert ("test_accuracy/0-St. Mary_s", 3, 0.75) in first["metrics"]
    assert diverged["metrics"] == []


def test_long_runs_are_logged_in_batches(runs, tmp_path, mlflow):
    long = runs[0] | {"validation": [[0.5, 0.5]] * 1500, "aggregated": [0.5] * 1500, "curves": {}}
    to_mlflow.write([long], tmp_path / "mlflow.db")
    assert sum(key.startswith("validation_loss/") for key, _, _ in Client.made.runs[0]["metrics"]) == 4500


# Optuna -----------------------------------------------------------------------------------------------------------


def loaded(file, name: str) -> optuna.Study:
    return optuna.load_study(study_name=name, storage=f"sqlite:///{file}")


def test_optuna_gets_a_trial_per_setting(study, runs, tmp_path):
    spoken = study(GRID)
    records = {record["run"]: record for record in runs[:-2]} | {runs[-1]["run"]: runs[-1]}
    searches = recorded(spoken, records)
    to_optuna.write(spoken, searches, tmp_path / "optuna.db")
    found = loaded(tmp_path / "optuna.db", "fedavg")
    assert found.user_attrs == {"title": "Digits", "rule": "best-val", "seeds": [1, 2]}
    assert [trial.params for trial in found.trials] == [
        {"model.hidden": hidden, "budget.batch_size": size} for hidden in (5, 7) for size in (4, "full")
    ]
    assert [trial.state for trial in found.trials].count(TrialState.WAITING) == 1
    for trial, seeds in zip(found.trials, searches["fedavg"].records, strict=True):
        there = [record for record in seeds if record is not None]
        assert trial.user_attrs["runs"] == [record["run"] for record in there]
        if len(there) == 2:
            losses = [record["aggregated"] for record in there]
            assert trial.state is TrialState.COMPLETE
            assert trial.value == pytest.approx(sum(map(min, losses)) / 2)
            assert trial.intermediate_values == pytest.approx(
                {rounds: sum(both) / 2 for rounds, both in enumerate(zip(*losses, strict=True), 1)}
            )
            assert trial.user_attrs["accuracy (local)"] == pytest.approx(0.8)
    assert found.best_value == 0.375


RANGES = """
[methods.fedavg]
model = "mlp"
range.lr = { low = 1e-4, high = 1.0, log = true }
range."model.hidden" = { low = 2, high = 9, whole = true }
grid."budget.optimizer_state" = ["keep", "reset"]
search = { kind = "random", trials = 5 }
"""


def test_drawn_settings_keep_their_ranges(study, tmp_path):
    spoken = study(RANGES)
    records = {run.hash: made(run) for run in asked(spoken.file)}
    searches = recorded(spoken, records)
    to_optuna.write(spoken, searches, tmp_path / "optuna.db")
    trials = loaded(tmp_path / "optuna.db", "fedavg").trials
    assert [trial.params for trial in trials] == [
        {name: setting[name] for name in ("lr", "model.hidden", "budget.optimizer_state")}
        for setting in searches["fedavg"].settings
    ]
    assert trials[0].distributions == {
        "lr": optuna.distributions.FloatDistribution(1e-4, 1.0, log=True),
        "model.hidden": optuna.distributions.IntDistribution(2, 9),
        "budget.optimizer_state": optuna.distributions.CategoricalDistribution(["keep", "reset"]),
    }


def test_diverged_settings_fail_and_dropped_ones_are_pruned(study):
    method = study('[methods.fedavg]\nmodel = "mlp"\ngrid.lr = [1, 2, 3]\n').methods["fedavg"]
    good, bad = ({"status": status, "aggregated": losses, "run": "r", "scores": []}
                 for status, losses in (("finished", [0.5, 0.25]), ("diverged", [0.1, None])))  # fmt: skip
    settings = tuple({"lr": float(rate)} for rate in (1, 2, 3))
    search = SearchResult("fedavg", settings, (1, 2), ((good, good), (good, bad), (good, good)), dropped=frozenset({2}))
    trials = [to_optuna.trial(method, search, number) for number in range(3)]
    assert [trial.state for trial in trials] == [TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED]
    assert [trial.value for trial in trials] == [0.25, None, 0.25]
    assert trials[1].intermediate_values == pytest.approx({1: 0.3})
    assert [trial.params for trial in trials] == [{"lr": 1}, {"lr": 2}, {"lr": 3}]


def test_a_method_without_search_and_validation_is_one_trial(study):
    method = study('[methods.fedavg]\nmodel = "mlp"\nfixed.lr = 0.1\n').methods["fedavg"]
    record = {"status": "finished", "aggregated": [None], "run": "r", "scores": []}
    trial = to_optuna.trial(method, SearchResult("fedavg", ({"lr": 0.1},), (1,), ((record,),)), 0)
    assert (trial.params, trial.value, trial.state) == ({}, math.inf, TrialState.COMPLETE)


# Atomic writing ---------------------------------------------------------------------------------------------------


def test_the_target_appears_at_the_end(tmp_path):
    with new_place(tmp_path / "deep" / "out") as made_at:
        made_at.mkdir()
        (made_at / "file").write_text("content")
        assert not (tmp_path / "deep" / "out").exists()
    assert [file.read_text() for file in (tmp_path / "deep" / "out").iterdir()] == ["content"]
    with pytest.raises(SilobenchError, match="out: already exists"), new_place(tmp_path / "deep" / "out"):
        raise AssertionError("never begun")


def half_made(place: Path, error: Exception) -> None:
    with new_place(place) as made_at:
        made_at.write_text("half")
        raise error


def test_a_failed_export_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        half_made(tmp_path / "out", ZeroDivisionError())
    with pytest.raises(SilobenchError, match=r"out: cannot be written \(No space left on device\)"):
        half_made(tmp_path / "out", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert list(tmp_path.iterdir()) == []
