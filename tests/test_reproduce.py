"""Tables and figures on the command line: figures of every kind, profiles, tables over data sets, what is listed."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from bench.data.files import download

STUDY = """
title = "Digits, {name}"
seeds = [1, 2]
[data]
name = "digits"
[budget]
rounds = 2
local_epochs = 1
batch_size = "full"
test_every = 1
[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 1.0]
[methods.apple]
model = "logistic"
fixed.lr = 0.1
[methods.local]
model = "logistic"
fixed.lr = {lr}
[profiles.short]
seeds = [1]
budget.rounds = 1
methods.fedavg.grid.lr = [0.1]
[[tables]]
id = "digits/{name}"
columns = "clients"
silo = "Local"
rows = [
  {{ method = "FedAvg", of = "fedavg", checkpoints = ["best-val"] }},
  {{ method = "Local", of = "local", checkpoints = ["best-val"] }},
  {{ method = "APPLE", of = "apple", checkpoints = ["best-val"] }},
]
"""
FIGURES = """
[[figures]]
id = "digits/heat"
kind = "heatmap"
title = "Heat"
table = "digits/one"
[[figures]]
id = "digits/each"
kind = "clients"
title = "Each client"
table = "digits/one"
[[figures]]
id = "digits/ranks"
kind = "cd"
title = "Ranks"
table = "digits/one"
[[figures]]
id = "digits/curves"
kind = "curves"
title = "Curves"
scores = ["accuracy", "validation"]
rows = [{ method = "FedAvg", of = "fedavg" }, { method = "Local", of = "local" }]
[[figures]]
id = "digits/relations"
kind = "trajectories"
title = "Relations"
of = "apple"
absolute = true
[[figures]]
id = "digits/partition"
kind = "partition"
title = "Who holds what"
"""
JOINT = """
[[joint]]
id = "digits/both"
title = "Digits twice"
columns = [{ table = "digits/one", label = "One" }, { table = "digits/two", label = "Two" }]
rows = ["FedAvg", "Local", "APPLE"]
[[figures]]
id = "digits/both-ranks"
kind = "cd"
title = "Digits twice, ranked"
table = "digits/both"
"""


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    place = tmp_path / "experiments"
    (place / "digits").mkdir(parents=True)
    (place / "digits" / "one.toml").write_text(STUDY.format(name="one", lr=0.1) + FIGURES)
    (place / "digits" / "two.toml").write_text(STUDY.format(name="two", lr=0.2))
    (place / "digits" / "joint.toml").write_text(JOINT)
    monkeypatch.setattr("bench.spec.experiments.folder", lambda kind: place)
    return place / "digits"


@pytest.fixture(autouse=True)
def only_these(experiments):
    """The command knows no other experiments."""


def written(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("results/")]


def test_every_kind_of_figure_is_drawn(silobench, tmp_path):
    status, out, err = silobench("sweep", "experiments/digits/one.toml", "--quiet")
    assert (status, err) == (0, "")
    figures = ["heat", "each", "ranks", "curves", "relations", "partition"]
    expected = [f"results/tables/digits/{name}.{form}" for name in figures for form in ("pdf", "png")]
    assert written(out)[4:] == expected
    assert all((tmp_path / file).stat().st_size > 4000 for file in expected)


def test_a_profile_is_another_file_and_says_so(silobench, tmp_path):
    status, out, _ = silobench("reproduce-table", "digits/one", "--profile", "short", "--quiet")
    assert status == 0
    assert written(out) == [f"results/tables/digits/one-short.{form}" for form in ("md", "csv", "tex", "html")]
    assert "Digits, one (short profile)" in out
    frame = pd.read_csv(tmp_path / "results/tables/digits/one-short.csv")
    assert set(frame["n_seeds"]) == {1}
    assert set(frame["table"]) == {"digits/one-short"}
    assert silobench("reproduce-figure", "digits/heat", "--profile", "short", "--quiet")[0] == 0
    assert (tmp_path / "results/tables/digits/heat-short.png").exists()


def test_an_unknown_profile_is_answered_with_the_known_ones(silobench):
    status, _, err = silobench("reproduce-table", "digits/one", "--profile", "shrt")
    assert status == 2
    assert err.endswith("one.toml: no profile 'shrt': did you mean 'short'?\n")


def test_a_joint_table_is_made_of_its_studies(silobench, tmp_path):
    status, out, _ = silobench("reproduce-table", "digits/both", "--profile", "short", "--quiet")
    assert status == 0
    assert written(out) == [f"results/tables/digits/both-short.{form}" for form in ("md", "csv", "tex", "html")]
    assert "Mean rank | One | Two" in (tmp_path / "results/tables/digits/both-short.md").read_text()
    assert "Average ranks over 2 data sets" in out
    status, out, _ = silobench("reproduce-figure", "digits/both-ranks", "--profile", "short", "--quiet")
    assert status == 0
    assert written(out) == [f"results/tables/digits/both-ranks-short.{form}" for form in ("pdf", "png")]


def test_a_report_holds_joint_tables_and_their_diagrams(silobench, tmp_path):
    short = ("--profile", "short")
    assert silobench("reproduce-table", "digits/both", *short, "--quiet")[0] == 0
    status, out, _ = silobench("report", *short)
    assert status == 0
    assert {f"results/tables/digits/{name}-short.png" for name in ("heat", "both-ranks")} <= set(written(out))
    page = (tmp_path / "results/report/digits.html").read_text()
    assert "<figcaption>Digits twice, ranked (short profile)</figcaption>" in page


def test_a_report_downloads_nothing(silobench, experiments, tmp_path, monkeypatch):
    for name in ("BENCH_DATA", "BENCH_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "_download", None)  # a call would end in a TypeError
    (experiments / "one.toml").write_text(STUDY.format(name="one", lr=0.1).replace('"digits"', '"cifar10"'))
    status, _, err = silobench("report")
    assert status == 0
    assert "one.toml: left out, " in err
    assert "a report forbids to download it" in err


def test_a_column_without_data_is_missing_and_ranked_around_only_when_told(silobench, experiments):
    text = (experiments / "two.toml").read_text()
    (experiments / "two.toml").write_text(
        text.replace('name = "digits"', 'name = "from_csv"\npath = "nowhere.csv"\ntarget = "y"')
    )
    short = ("reproduce-table", "digits/both", "--profile", "short", "--quiet")
    status, out, err = silobench(*short)
    assert (status, err) == (3, "")
    assert "not ranked" in out
    assert "Two is digits/two (missing: " in " ".join(out.split())
    text = (experiments / "joint.toml").read_text()
    third = '{ table = "digits/one", label = "Three" }, { table = "digits/one", label = "One" }'
    (experiments / "joint.toml").write_text(text.replace('{ table = "digits/one", label = "One" }', third))
    status, out, _ = silobench(*short, "--partial")
    assert status == 3
    assert "PARTIAL: Digits twice" in out
    assert "the 2 of 3 data sets with a value of every method" in " ".join(out.split())


def test_lists_say_what_is_needed(silobench):
    entries = {entry["name"]: entry for entry in json.loads(silobench("list", "tables", "--json")[1])}
    assert list(entries) == ["digits/one", "digits/two", "digits/both"]
    assert entries["digits/one"] | {"summary": ""} == {
        "name": "digits/one",
        "summary": "",
        "paper": "digits",
        "runs": 8,
        "gpu_hours": 0,
        "data": {"digits": "none needed"},
        "profiles": ["paper", "short"],
        "seconds": {"paper": None, "short": None},
        "ready": True,
    }
    assert entries["digits/both"]["runs"] == 16
    figures = {entry["name"]: entry for entry in json.loads(silobench("list", "figures", "--json")[1])}
    assert (figures["digits/curves"]["runs"], figures["digits/partition"]["runs"]) == (6, 0)
    text = silobench("list", "tables")[1]
    assert "    8 runs, no GPU needed; digits (none needed); profiles paper, short; can run now" in text.splitlines()


def test_a_list_says_how_long_a_study_takes_that_was_planned(silobench, experiments, tmp_path, monkeypatch):
    def seconds() -> dict[str, float | None]:
        return json.loads(silobench("list", "tables", "--json")[1])[0]["seconds"]

    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    study = experiments / "one.toml"
    planned = json.loads(silobench("plan", study, "--profile", "short", "--json")[1])
    assert seconds() == {"paper": None, "short": planned["seconds"]}
    assert "short (about " in silobench("list", "tables")[1]
    study.write_text(study.read_text() + "\n")  # is another one since
    assert seconds() == {"paper": None, "short": None}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('table = "digits/two"', 'table = "digits/tow"', "joint[0].columns: table 'digits/tow': did you mean"),
        ('id = "digits/both"', 'id = "digits/one"', "tables: 'digits/one' stands in"),
        ('table = "digits/both"', 'table = "digits/boht"', "figures[0].table = 'digits/boht': did you mean"),
        ('label = "Two"', 'label = "One"', "joint[0].columns: 'One' stands more than once"),
        ('title = "Digits twice"', 'titel = "Digits twice"', "joint[0]: unknown key 'titel': did you mean 'title'"),
    ],
)
def test_a_joint_file_that_cannot_be_is_answered_with_one_line(silobench, experiments, old, new, expected):
    text = (experiments / "joint.toml").read_text()
    (experiments / "joint.toml").write_text(text.replace(old, new, 1))
    if expected.startswith("tables"):  # the diagram is then of no table
        (experiments / "joint.toml").write_text(text.replace("digits/both", "digits/one"))
    status, _, err = silobench("reproduce-table", "digits/both")
    assert status == 2
    assert expected in err
    assert err.count("\n") == 1
