"""Commands on a store of records: their lines, JSON and CSV; none of them changes a record."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from bench.sweep.lease import Leases
from bench.sweep.store import Store
from tests.records import asked, made
from tests.sweep.scripted import wait_for

STUDY = """
title = "Digits"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 2
local_epochs = 1
[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 1.0]
[methods.fedprox]
model = { name = "mlp", hidden = 5 }
fixed = { lr = 0.1, mu = 0.5 }
"""


@pytest.fixture
def study(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


@pytest.fixture
def records(study):
    """FedAvg with lr 0.1 is finished; with lr 1 a seed diverged and the other one is missing; FedProx is finished."""
    fedavg, fedprox = ([run for run in asked(study) if run.algorithm["name"] == name] for name in ("fedavg", "fedprox"))
    losses = {(0.1, 1): 0.5, (0.1, 2): 0.25, (1.0, 1): None}
    found = [made(run, losses[key], score=0.5 + run.seed / 10)
             for run in fedavg if (key := (run.hyperparameters["lr"], run.seed)) in losses]  # fmt: skip
    return found + [made(run, 0.125) for run in fedprox]


@pytest.fixture
def store(tmp_path, records):
    """One run batch of FedAvg and one of FedProx."""
    store = Store(tmp_path / "results" / "runs")
    store.write(records[:3], seconds=65)
    store.write(records[3:], seconds=10)
    return store


def spoil(store: Store) -> None:
    """Damage the file of the records of FedProx."""
    file = next(file for file in store.files() if b"fedprox" in file.read_bytes())
    file.write_bytes(file.read_bytes()[:-100])


def snapshot(store: Store) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in store.path.rglob("*") if file.is_file()}


# status -----------------------------------------------------------------------------------------------------------


def test_the_state_of_a_store_that_is_not_there(silobench, tmp_path):
    assert silobench("status") == (
        0,
        "results/runs\n  training   0 run batches\n  finished   0 runs in 0 run batches, 0 s of training\n",
        "",
    )
    assert list(tmp_path.iterdir()) == []


def test_the_state_says_what_is_finished_and_what_is_in_work(silobench, store):
    (store.path / "snapshots").mkdir()
    (store.path / "snapshots" / "a.safetensors").write_bytes(bytes(2_500_000))
    with Leases(store, beat=0.01) as leases:
        leases.claim("a", {"text": "apfl on digits, 4 settings x 5 seeds", "runs": 20})
        leases.claim("b", {"text": "local on digits, seed 1", "runs": 1})
        leases.note("a", round=3, rounds=20, loss=0.4321)
        file = store.path / "leases" / "a.json"
        wait_for(lambda: b"0.4321" in file.read_bytes())
        status, out, err = silobench("status")
        document = json.loads(silobench("status", "--json")[1])
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[1] == "  training   2 run batches"
    assert lines[2].startswith(
        "    apfl on digits, 4 settings x 5 seeds  round 3 of 20  best validation loss 0.4321  running for 0 s  process"
    )
    assert lines[3].split("  ")[2:4] == ["local on digits, seed 1", ""]
    assert "starting" in lines[3]
    assert lines[4] == "  finished   5 runs in 2 run batches, 1 diverged, 1 min 15 s of training"
    assert lines[5] == "  snapshots  1 file, 2.5 MB, newest 0 s old"
    assert document["finished"] == {"runs": 5, "diverged": 1, "run_batches": 2, "seconds": 75.0}
    assert {key: document["training"][0][key] for key in ("run_batch", "runs", "round", "rounds", "loss", "pid")} == {
        "run_batch": "a", "runs": 20, "round": 3, "rounds": 20, "loss": 0.4321, "pid": os.getpid(),
    }  # fmt: skip
    assert document["training"][1]["round"] is None
    assert [(each["file"], each["bytes"]) for each in document["snapshots"]] == [("a.safetensors", 2_500_000)]
    assert document["damaged"] == []


def test_how_much_of_a_study_is_finished(silobench, store):
    status, out, _ = silobench("status", "study.toml")
    assert status == 0
    assert out.splitlines()[-3:] == [
        "study.toml: 5 of 6 runs finished, 1 diverged",
        "  fedavg   3 of 4, 1 diverged",
        "  fedprox  2 of 2",
    ]
    assert json.loads(silobench("status", "study.toml", "--json")[1])["study"] == {
        "file": "study.toml", "title": "Digits", "runs": 6, "finished": 5, "diverged": 1,
        "methods": {
            "fedavg": {"runs": 4, "finished": 3, "diverged": 1}, "fedprox": {"runs": 2, "finished": 2, "diverged": 0},
        },
    }  # fmt: skip


def test_of_a_search_that_asks_by_what_it_finds_all_trials_count(silobench, store, study):
    study.write_text(STUDY.partition("[methods.fedprox]")[0].replace("grid.lr = [0.1, 1.0]",
        'range.lr = { low = 0.1, high = 1.0 }\nsearch = { kind = "tpe", trials = 12, batch = 4 }'))  # fmt: skip
    runs = asked(study)
    assert len(runs) == 24
    store.write([made(run) for run in runs[:6]], seconds=1)
    assert silobench("status", "study.toml")[1].splitlines()[-1] == "  fedavg  6 of 24"


def test_damage_is_named_and_the_rest_is_shown(silobench, store):
    spoil(store)
    before = snapshot(store)
    for command in ("status", "runs"):
        status, out, err = silobench(command)
        assert status == 2
        assert err.count("\n") == 1
        assert ", line 2: truncated, its sha256 is " in err
        assert "fedavg" in out or "3 runs in 1 run batch, 1 diverged" in out
    assert silobench("export", "--to", "csv", "out")[0] == 2
    assert snapshot(store) == before


def test_looking_never_downloads(silobench, tmp_path, monkeypatch):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "heart.toml").write_text(STUDY.replace("digits", "fed_heart_disease"))
    status, _, err = silobench("status", "heart.toml")
    assert status == 2
    assert "and looking at records forbids downloads; " in err


@pytest.mark.parametrize("arguments", [["status"], ["runs"], ["show", "0"]])
def test_looking_imports_nothing_slow(arguments, store, tmp_path):
    code = (
        "import atexit, sys; from bench.cli.main import main\n"
        "slow = {'torch', 'numpy', 'pandas', 'scipy', 'sklearn', 'optuna', 'matplotlib', 'jinja2', 'pooch'}\n"
        "atexit.register(lambda: print('slow:', slow & sys.modules.keys(), file=sys.stderr))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.endswith("slow: set()\n")


# runs -------------------------------------------------------------------------------------------------------------


def test_runs_are_listed_in_order_a_line_each(silobench, store, records):
    status, out, _ = silobench("runs")
    head, *lines = out.splitlines()
    assert status == 0
    assert head.split() == [
        "run", "data", "algorithm", "setting", "seed", "status", "loss", "metric", "latest", "global", "local",
    ]  # fmt: skip
    assert [line.split() for line in lines] == [
        [records[number]["run"][:8], "digits", *rest.split()]
        for number, rest in (
            (0, "fedavg lr=0.1 1 finished 0.5 accuracy 0.6 0.6 0.6"),
            (1, "fedavg lr=0.1 2 finished 0.25 accuracy 0.7 0.7 0.7"),
            (2, "fedavg lr=1 1 diverged - accuracy - - -"),
            (3, "fedprox lr=0.1 mu=0.5 1 finished 0.125 accuracy 0.8 0.8 0.8"),
            (4, "fedprox lr=0.1 mu=0.5 2 finished 0.125 accuracy 0.8 0.8 0.8"),
        )
    ]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--algorithm", "fedprox"], [3, 4]),
        (["--status", "diverged"], [2]),
        (["--data", "digits", "--where", "lr=0.1"], [0, 1, 3, 4]),
        (["--where", "lr=0.1", "--where", "seed=2"], [1, 4]),
        (["--where", "mu=0.5"], [3, 4]),
        (["--where", "model=mlp"], [3, 4]),
        (["--where", "model.hidden=5"], [3, 4]),
        (["--where", "budget.batch_size=32"], [0, 1, 2, 3, 4]),
        (["--where", "lr=0.3"], []),
        (["--algorithm", "fedavg", "--where", "mu=0.5"], []),
    ],
)
def test_filters_keep_the_runs_that_were_set_so(silobench, store, records, filters, expected):
    status, out, _ = silobench("runs", "--json", *filters)
    assert status == 0
    assert [each["run"] for each in json.loads(out)] == [records[number]["run"] for number in expected]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--algorithm", "fedproxx"], "no run has algorithm = 'fedproxx': did you mean 'fedprox'?"),
        (["--data", "digit"], "no run has data = 'digit': did you mean 'digits'?"),
        (["--status", "done"], "no run has status = 'done': expected one of diverged, finished"),
        (["--where", "model.hiden=5"], "no run has a setting 'model.hiden': did you mean 'model.hidden'?"),
        (["--where", "lr"], "'lr': expected name=value"),
        (["--store", "elsewhere"], "elsewhere: no such store; name the folder of records with --store"),
    ],
)
def test_a_filter_that_no_run_can_pass_is_refused(silobench, store, filters, expected):
    assert silobench("runs", *filters) == (2, "", f"error: {expected}\n")


def test_runs_as_csv_are_a_table(silobench, store, records):
    frame = pd.read_csv(io.StringIO(silobench("runs", "--csv")[1]))
    assert list(frame["run"]) == [record["run"] for record in records]
    assert list(frame.columns[-5:]) == ["latest", "global", "local", "lr", "mu"]
    assert frame["loss"].fillna(-1).tolist() == [0.5, 0.25, -1, 0.125, 0.125]
    assert frame["mu"].fillna(-1).tolist() == [-1, -1, -1, 0.5, 0.5]


def test_what_else_differs_between_runs_is_shown(silobench, store, study):
    study.write_text(STUDY.replace("hidden = 5", "hidden = 7"))
    store.write([made(run) for run in asked(study) if run.algorithm["name"] == "fedprox"], seconds=1)
    lines = silobench("runs", "--where", "seed=1")[1].splitlines()
    assert [" ".join(line.split()[3:-7]) for line in lines[1:]] == [
        "lr=0.1", "lr=1", "lr=0.1 mu=0.5 model.hidden=5", "lr=0.1 mu=0.5 model.hidden=7",
    ]  # fmt: skip


# show -------------------------------------------------------------------------------------------------------------


def test_a_run_is_shown_in_full(silobench, store, records):
    status, out, _ = silobench("show", records[3]["run"][:6].upper())
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == f"Run {records[3]['run']}, finished"
    assert "  model          mlp (dropout = 0, hidden = 5): 1,210 parameters" in lines
    assert "  setting        lr = 0.1, mu = 0.5" in lines
    assert "  communication  1,210 floats uploaded, 1,210 downloaded per client and round" in lines
    place = lines.index("accuracy on test samples")
    assert [line.split() for line in lines[place + 1 : place + 5]] == [
        ["client", "samples", "latest", "global", "local"],
        ["north", "10", "0.75", "0.75", "0.75"],
        ["south", "20", "0.85", "0.85", "0.85"],
        ["mean", "of", "own", "models", "0.8", "0.8", "0.8"],
    ]
    assert [line.split() for line in lines[-3:]] == [
        ["round", "all", "north", "south"], ["0", "0.225", "0.225", "0.225"], ["1", "0.125*", "0.125", "0.125"],
    ]  # fmt: skip
    shown = json.loads(silobench("show", records[3]["run"], "--json")[1])
    shown.pop("sha256")
    assert shown == records[3]


def test_a_diverged_run_says_where(silobench, store, records):
    out = silobench("show", records[2]["run"])[1]
    assert out.startswith(f"Run {records[2]['run']}, diverged in round 0 at client 1: a weight is not finite\n")


def test_scores_abroad_curves_and_traces_are_shown(silobench, study, tmp_path):
    (run, *_) = asked(study)
    scores = [["local", model, client, "accuracy", (2 * model + client) / 4] for model in (0, 1) for client in (0, 1)]
    record = made(
        run, synthetic=True, scores=scores,
        curves={"rounds": [1, 2], "scores": {"accuracy": [[0.5, None], [0.75, 0.25]]}},
        traces={"p": [[[1.0, 0.0], [0.0, 1.0]], [[0.75, 0.25], [0.5, 0.5]]], "alpha": [[0.5, 0.5], [0.125, 0.0625]]},
    )  # fmt: skip
    Store(tmp_path / "own").write([record], seconds=1)
    lines = silobench("show", run.hash, "--store", "own")[1].splitlines()
    assert lines[0] == f"Run {run.hash}, finished, on SYNTHETIC DATA"
    tables = "\n".join(" ".join(line.split()) for line in lines)
    assert "north 10 0\nsouth 20 0.75\nsouth, model of north 20 0.25\nnorth, model of south 10 0.5\n" in tables
    assert "mean of own models 0.375" in tables
    assert "accuracy on test samples by finished rounds\nrounds north south\n1 0.5 -\n2 0.75 0.25\n" in tables
    assert "alpha at the end of the last round\nnorth 0.125\nsouth 0.0625\n" in tables
    assert tables.endswith("p at the end of the last round\nnorth 0.75 0.25\nsouth 0.5 0.5")


def test_numbers_are_shown_to_their_last_digit_and_listed_in_short(silobench, study, tmp_path):
    study.write_text(STUDY.partition("[methods.fedprox]")[0].replace("grid.lr = [0.1, 1.0]", "fixed.lr = 0.0123456789"))
    Store(tmp_path / "own").write([made(asked(study)[0])], seconds=1)
    assert "lr = 0.0123456789" in silobench("show", "", "--store", "own")[1]
    assert " lr=0.0123457 " in silobench("runs", "--store", "own")[1]


def test_a_name_that_is_nobodys_or_several_is_one_line(silobench, store, records):
    first, *others = sorted(record["run"] for record in records)
    assert silobench("show", "")[2] == (
        f"error: run '' is ambiguous: {first}, {others[0]}, {others[1]} and 2 more; give more digits\n"
    )
    status, out, err = silobench("show", "nobody")
    assert (status, out) == (2, "")
    assert err == "error: results/runs: no run 'nobody'; list the runs with `silobench runs --store results/runs`\n"


def test_the_study_file_of_a_run_makes_the_same_record(silobench, study, tmp_path):
    for there, instead in (("[1, 2]", "[2]"), ("rounds = 2", "rounds = 1"), ("grid.lr = [0.1, 1.0]", "fixed.lr = 0.1")):
        study.write_text(study.read_text().replace(there, instead))
    study.write_text(study.read_text().partition("[methods.fedprox]")[0])
    assert silobench("sweep", "study.toml", "--quiet")[0] == 0
    (file,) = Store(tmp_path / "results/runs").files()
    (tmp_path / "again.toml").write_text(silobench("show", "", "--spec", "toml")[1])
    assert silobench("sweep", "again.toml", "--store", "again", "--quiet")[0] == 0
    (again,) = Store(tmp_path / "again").files()
    assert (again.name, again.read_bytes()) == (file.name, file.read_bytes())
    assert silobench("status", "again.toml")[1].splitlines()[-2] == "again.toml: 1 of 1 run finished"


# export -----------------------------------------------------------------------------------------------------------


def test_records_are_exported_whole_to_a_new_place(silobench, store):
    before = snapshot(store)
    assert silobench("export", "--to", "csv", "out/tables") == (0, "out/tables\n", "")
    status, out, err = silobench("export", "--to", "csv", "out/tables")
    assert (status, out) == (2, "")
    assert err == "error: out/tables: already exists; name another path or delete it first\n"
    assert snapshot(store) == before


def test_only_the_runs_of_a_study_are_exported(silobench, store, study, records, tmp_path):
    study.write_text(STUDY.replace("grid.lr = [0.1, 1.0]", "grid.lr = [0.1, 0.3]"))
    assert silobench("export", "--to", "csv", "out", "--study", "study.toml")[0] == 0
    kept = pd.read_csv(tmp_path / "out" / "runs.csv")["run"]
    assert sorted(kept) == sorted(record["run"] for record in (*records[:2], *records[3:]))


@pytest.mark.parametrize(
    ("form", "module", "extra"),
    [("parquet", "pyarrow", "parquet"), ("tensorboard", "tensorboard", "export"), ("mlflow", "mlflow", "export")],
)
def test_a_missing_extra_is_named_and_nothing_is_left(silobench, store, tmp_path, monkeypatch, form, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    before = sorted(tmp_path.iterdir())
    status, out, err = silobench("export", "--to", form, "out")
    assert (status, out) == (2, "")
    assert err == f"error: the library {module} is not installed; run pip install 'silobench[{extra}]'\n"
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_exported_is_one_line(silobench, store, study):
    assert silobench("export", "--to", "optuna", "out")[2] == (
        "error: --to optuna: exports searches; name their study file with --study\n"
    )
    study.write_text(STUDY.replace("rounds = 2", "rounds = 3"))
    assert silobench("export", "--to", "csv", "out", "--study", "study.toml")[2] == (
        "error: study.toml: no finished runs; there is nothing to export\n"
    )
