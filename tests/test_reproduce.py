"""Reproduction of tables and figures: runs, files, profiles, joint tables, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
import pytest

from bench import reproduce
from bench.sweep.executors.local import InProcessExecutor
from bench.sweep.runner import Runner
from bench.sweep.training import WorkerSettings
from bench.types import SpecError
from tests import toy_experiments


@pytest.fixture(autouse=True)
def experiments(tmp_path, monkeypatch):
    """Hide all experiments but these."""
    return toy_experiments.install(tmp_path, monkeypatch)


@pytest.fixture
def folders(tmp_path):
    return reproduce.Folders(tmp_path / "runs", tmp_path / "tables", None)


@contextmanager
def training() -> Iterator[Runner]:
    """Open a runner that trains in this process."""
    with Runner(lambda progress: InProcessExecutor(WorkerSettings(None, None), progress)) as runner:
        yield runner


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
    assert err.endswith("one.toml: profiles.shrt: there is no such profile: did you mean 'short'?\n")


def test_a_joint_table_is_made_of_its_studies(silobench, tmp_path):
    status, out, _ = silobench("reproduce-table", "digits/both", "--profile", "short", "--quiet")
    assert status == 0
    assert written(out) == [f"results/tables/digits/both-short.{form}" for form in ("md", "csv", "tex", "html")]
    assert "Mean rank | One | Two" in (tmp_path / "results/tables/digits/both-short.md").read_text()
    assert "Average ranks over 2 data sets" in out
    status, out, _ = silobench("reproduce-figure", "digits/both-ranks", "--profile", "short", "--quiet")
    assert status == 0
    assert written(out) == [f"results/tables/digits/both-ranks-short.{form}" for form in ("pdf", "png")]


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


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('table = "digits/two"', 'table = "digits/tow"', "joint[0].columns: unknown table 'digits/tow': did you mean"),
        ('id = "digits/both"', 'id = "digits/one"', "tables: 'digits/one' is also in"),
        ('table = "digits/both"', 'table = "digits/boht"', "figures[0].table: unknown joint table 'digits/boht'"),
        ('label = "Two"', 'label = "One"', "joint[0].columns: 'One' is given twice"),
        ('title = "Digits twice"', 'titel = "Digits twice"', "joint[0].titel: unknown key: did you mean 'title'"),
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


def test_a_paper_is_all_of_its_tables_and_figures(folders, capsys):
    assert reproduce.reproduce_paper("digits", "short", folders, training)
    capsys.readouterr()
    made = {file.name for file in (folders.out / "digits").iterdir()}
    assert {"one-short.md", "two-short.md", "both-short.md", "heat-short.png", "both-ranks-short.png"} <= made


def test_what_is_left_out_of_a_paper_is_named(folders, experiments, capsys):
    text = (experiments / "two.toml").read_text().replace("[profiles.short]", "[profiles.brief]")
    (experiments / "joint.toml").unlink()
    (experiments / "two.toml").write_text(text)
    (experiments / "one.toml").write_text(toy_experiments.STUDY.format(name="one", lr=0.1))
    assert not reproduce.reproduce_paper("digits", "short", folders, training)
    out, err = capsys.readouterr()
    assert err == "digits/two: left out, no profile 'short'\n"
    assert "one-short.md" in out


def test_an_unknown_paper_names_the_nearest(folders):
    with pytest.raises(SpecError, match="unknown paper 'digit': did you mean 'digits'"):
        reproduce.reproduce_paper("digit", "paper", folders, training)


def test_a_study_with_the_table_of_another_is_refused_before_training(silobench, experiments, tmp_path):
    assert silobench("sweep", experiments / "one.toml", "--profile", "short", "--quiet")[0] == 0
    mine = tmp_path / "mine.toml"
    mine.write_text((experiments / "one.toml").read_text().replace("lr = [0.1, 1.0]", "lr = [0.2, 2.0]"))
    runs = (tmp_path / "results/runs/records").iterdir()
    before = {file.name: file.read_bytes() for file in runs}
    status, _, err = silobench("sweep", mine, "--profile", "short", "--quiet")
    assert status == 2
    assert "mine.toml: 'digits/one-short' is also the id of a table or figure of" in err
    assert "give one of them another id" in err
    assert {file.name: file.read_bytes() for file in (tmp_path / "results/runs/records").iterdir()} == before
