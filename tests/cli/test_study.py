"""Commands `silobench sweep` and `silobench plan`."""

from __future__ import annotations

import pandas as pd
import pytest

from bench.sweep import study as running

STUDY = """
title = "Digits in one round"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 1
local_epochs = 1
batch_size = "full"
[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 1.0]
[methods.local]
model = "logistic"
fixed.lr = 0.1
"""
TABLE = """
[[tables]]
id = "digits/one"
rows = [{ method = "FedAvg", of = "fedavg" }, { method = "Silo", of = "local", checkpoints = ["local"] }]
[[figures]]
id = "digits/one"
kind = "bars"
title = "Digits, drawn"
tables = ["digits/one"]
"""
ALPHA = """
[methods.apfl]
model = "logistic"
fixed.lr = 0.1
grid.alpha_lr = [0.1, 0.01]
[[figures]]
id = "alpha"
kind = "alpha"
title = "APFL on digits"
of = "apfl"
[[tables]]
id = "apfl"
rows = [{ method = "APFL", of = "apfl", checkpoints = ["local"] }]
"""


@pytest.fixture
def sweep(silobench, tmp_path):
    def sweep(text: str) -> tuple[int, str, str]:
        (tmp_path / "study.toml").write_text(text)
        return silobench("sweep", "study.toml")

    return sweep


def test_a_study_becomes_its_tables_and_figures(sweep, tmp_path):
    status, out, _ = sweep(STUDY + TABLE)
    assert status == 0
    assert "Digits in one round" in out
    written = [line for line in out.splitlines() if line.startswith("results/tables/")]
    assert written == [f"results/tables/digits/one.{form}" for form in ("md", "csv", "tex", "html", "pdf", "png")]
    assert all((tmp_path / file).stat().st_size for file in written)
    frame = pd.read_csv(tmp_path / "results/tables/digits/one.csv")
    overall = frame[frame["client"] == "all"]
    assert overall[["method", "checkpoint"]].values.tolist() == [
        ["FedAvg", "global"], ["FedAvg", "local"], ["Silo", "local"],
    ]  # fmt: skip
    assert set(overall["dataset"] + " " + overall["metric"]) == {"digits accuracy"}
    assert overall["mean"].between(0, 1).all()


def test_a_second_time_nothing_is_trained_and_the_table_is_the_same(sweep, monkeypatch, tmp_path):
    from bench.train import engine

    first = sweep(STUDY + TABLE)
    monkeypatch.setattr(engine, "train", None)
    assert sweep(STUDY + TABLE)[:2] == first[:2]


def test_a_study_without_tables_gets_one_of_all_methods(sweep, tmp_path):
    assert sweep(STUDY)[0] == 0
    assert set(pd.read_csv(tmp_path / "results/tables/study.csv")["method"]) == {"fedavg", "local"}


def test_a_learning_rate_figure_is_drawn_from_the_search(sweep, tmp_path):
    status, out, _ = sweep(STUDY[: STUDY.index("[methods.fedavg]")] + ALPHA)
    assert status == 0
    assert "results/tables/alpha.pdf" in out
    assert (tmp_path / "results/tables/alpha.pdf").stat().st_size


def test_a_table_with_a_diverged_cell_is_made_and_exits_3(sweep, tmp_path):
    status, out, _ = sweep(STUDY.replace("grid.lr = [0.1, 1.0]", "fixed = { lr = 1e38, weight_decay = 1e38 }"))
    assert status == 3
    assert "diverged 2/2" in out
    assert pd.read_csv(tmp_path / "results/tables/study.csv").query("method == 'fedavg'")["mean"].isna().all()


def test_a_typing_error_in_a_study_is_found_before_anything_is_written(sweep, tmp_path):
    status, out, err = sweep(STUDY.replace("rounds", "round"))
    assert (status, out) == (2, "")
    assert err == "error: study.toml: budget.round: unknown key: did you mean 'rounds'?\n"
    assert [file.name for file in tmp_path.iterdir()] == ["study.toml"]


def test_a_damaged_record_is_named_and_deleting_it_helps(sweep, tmp_path):
    whole = sweep(STUDY)
    damaged = min((tmp_path / "results/runs/records").iterdir())
    damaged.write_bytes(damaged.read_bytes().replace(b"finished", b"finishes", 1))
    status, _, err = sweep(STUDY)
    assert status == 2
    assert err.startswith(f"error: {damaged.relative_to(tmp_path)}, line 1: damaged")
    damaged.unlink()
    assert sweep(STUDY)[:2] == whole[:2]


def test_ctrl_c_exits_130(sweep, monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_study", stopped)
    status, out, err = sweep(STUDY)
    assert (status, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["plan"], ["sweep", "--quiet"], ["sweep", "--dry-run"]])
def test_a_model_that_does_not_fit_the_data_is_one_line(silobench, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr("bench.sweep.cost.estimate.SHARE", 0.0)  # planning times the first method only
    text = STUDY.replace('[methods.local]\nmodel = "logistic"', '[methods.local]\nmodel = "cnn"')
    (tmp_path / "study.toml").write_text(text)
    status, out, err = silobench(*arguments, "study.toml")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: study.toml: methods.local: ")
    assert "cnn takes images" in err
    assert not (tmp_path / "results/runs/records").exists()
