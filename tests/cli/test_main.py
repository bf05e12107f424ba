"""The command: what it prints and writes, its exit status, and how little it imports."""

from __future__ import annotations

import json
import subprocess
import sys

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


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["list", "algorithms"], ["list", "tables", "--json"], ["data", "list"], ["data", "info", "mnist"]],
)
def test_starting_imports_nothing_slow(arguments):
    code = (
        "import atexit, sys; from bench.cli.main import main\n"
        "slow = {'torch', 'numpy', 'pandas', 'scipy', 'sklearn', 'matplotlib', 'jinja2', 'pooch'}\n"
        "atexit.register(lambda: print(slow & sys.modules.keys(), file=sys.stderr))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("algorithms", "fedavg"), ("datasets", "fed_heart_disease"), ("models", "logistic"), ("tables", "quickstart"),
     ("figures", "fenda/3-heart")],
)  # fmt: skip
def test_lists_are_json_or_lines(silobench, kind, name):
    status, out, _ = silobench("list", kind, "--json")
    entries = json.loads(out)
    assert status == 0
    assert all(set(entry) >= {"name", "summary"} and entry["summary"] for entry in entries)
    assert name in [entry["name"] for entry in entries]
    lines = [line for line in silobench("list", kind)[1].splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == [entry["name"] for entry in entries]


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


def test_the_number_of_a_table_stands_for_all_of_its_parts(silobench):
    """Fed-IXI is downloaded by its users."""
    status, _, err = silobench("reproduce-table", "fenda/12")
    assert status == 3
    assert [line for line in err.splitlines() if "left out" in line] == [
        f"fenda/{part}: left out, data files are missing" for part in ("12-ixi", "12-ixi-parameters")
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["reproduce-table", "fenda/2-hart"],
            "error: unknown table 'fenda/2-hart': did you mean 'fenda/2-heart'?\n",
        ),
        (
            ["reproduce-figure", "fenda/3-hart"],
            "error: unknown figure 'fenda/3-hart': did you mean 'fenda/3-heart'?\n",
        ),
        (["sweep", "none.toml"], "error: none.toml: No such file or directory; give the path of a study file\n"),
    ],
)
def test_a_fault_is_one_line_and_exits_2(silobench, arguments, expected):
    assert silobench(*arguments) == (2, "", expected)


def test_a_typing_error_in_a_study_is_found_before_anything_is_written(sweep, tmp_path):
    status, out, err = sweep(STUDY.replace("rounds", "round"))
    assert (status, out) == (2, "")
    assert err == "error: study.toml: budget: unknown key 'round': did you mean 'rounds'?\n"
    assert [file.name for file in tmp_path.iterdir()] == ["study.toml"]


def test_a_damaged_record_is_named_and_deleting_it_mends(sweep, tmp_path):
    whole = sweep(STUDY)
    damaged = min((tmp_path / "results/runs/records").iterdir())
    damaged.write_bytes(damaged.read_bytes().replace(b"finished", b"finishes", 1))
    status, _, err = sweep(STUDY)
    assert status == 2
    assert err.startswith(f"error: {damaged.relative_to(tmp_path)}, line 1: damaged")
    damaged.unlink()
    assert sweep(STUDY)[:2] == whole[:2]


def test_an_unknown_kind_and_a_missing_argument_exit_2(silobench):
    for arguments in (["list", "tabels"], ["sweep"]):
        assert silobench(*arguments)[0] == 2


def test_ctrl_c_exits_130(sweep, monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_study", stopped)
    status, out, err = sweep(STUDY)
    assert (status, out) == (130, "")
    assert "Traceback" not in err


def test_quickstart_is_what_reproduce_table_makes_unless_told(silobench, monkeypatch):
    asked = []
    monkeypatch.setattr(running, "run_study", lambda study, store, **options: asked.append(study) or sys.exit(0))
    assert silobench("reproduce-table")[0] == 0
    assert list(asked[0].tables) == ["quickstart"]


def test_a_report_holds_what_has_all_its_records_and_trains_nothing(silobench, tmp_path, monkeypatch):
    from bench.train import engine

    for name, rounds in (("done", 1), ("other", 2)):
        folder = tmp_path / "experiments" / name
        folder.mkdir(parents=True)
        text = STUDY.replace("rounds = 1", f"rounds = {rounds}") + TABLE.replace("digits/one", name)
        (folder / "study.toml").write_text(text)
    monkeypatch.setattr("bench.spec.experiments.folder", lambda kind: tmp_path / "experiments")
    assert silobench("reproduce-table", "done")[0] == 0
    monkeypatch.setattr(engine, "train", None)
    status, out, _ = silobench("report")
    assert status == 0
    written = [line for line in out.splitlines() if line.startswith("results/tables/")]
    assert written == [f"results/tables/done.{form}" for form in ("md", "csv", "tex", "html", "pdf", "png")]
