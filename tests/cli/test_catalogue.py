"""Command `silobench list`: its lines, JSON and filters."""

from __future__ import annotations

import json

import pytest

from tests import toy_experiments


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    """Hide all experiments but these."""
    return toy_experiments.install(tmp_path, monkeypatch)


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
    lines = {line.split()[0] for line in silobench("list", kind)[1].splitlines()}
    assert {entry["name"] for entry in entries} <= lines


def test_tables_are_listed_a_line_each_below_their_paper(silobench, experiments):
    assert silobench("list", "tables")[1].splitlines() == [
        "digits",
        "  digits/both  16 runs  ready  Digits twice",
        "  digits/one   8 runs   ready  Digits, one",
        "  digits/two   8 runs   ready  Digits, two",
        "3 tables, 3 ready to run; details with --long",
    ]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--ready"], ["digits/both", "digits/one"]),
        (["--data-set", "cifar10"], ["digits/two"]),
        (["TWO"], ["digits/two"]),
        (["twice"], ["digits/both"]),
        (["--paper", "digits", "one", "--ready"], ["digits/one"]),
        (["nothing"], []),
    ],
)
def test_filters_keep_matching_tables(silobench, experiments, monkeypatch, tmp_path, filters, expected):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    text = (experiments / "two.toml").read_text().replace('"digits"', '"cifar10"')
    (experiments / "two.toml").write_text(text)
    (experiments / "joint.toml").write_text(toy_experiments.JOINT.replace('"digits/two"', '"digits/one"'))
    status, out, _ = silobench("list", "tables", *filters, "--json")
    assert (status, [entry["name"] for entry in json.loads(out)]) == (0, expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tables", "--paper", "digit"], "unknown paper 'digit': did you mean 'digits'?"),
        (["figures", "--data-set", "digit"], "no table or figure uses the data set 'digit': did you mean 'digits'?"),
        (["models", "--ready"], "--ready: only for tables and figures; leave it out to list models"),
    ],
)
def test_a_filter_that_cannot_match_is_one_line(silobench, experiments, arguments, expected):
    assert silobench("list", *arguments) == (2, "", f"error: {expected}\n")


def test_models_are_filtered_by_text(silobench):
    _, out, _ = silobench("list", "models", "MLP")
    assert {line.split()[0] for line in out.splitlines()} >= {"mlp", "parallel_mlp"}
    assert "efficientnet" not in out


def test_json_has_runs_data_and_profiles(silobench, experiments):
    entries = {entry["name"]: entry for entry in json.loads(silobench("list", "tables", "--json")[1])}
    assert entries["digits/one"] == {
        "name": "digits/one",
        "summary": "Digits, one",
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
    details = silobench("list", "tables", "--long")[1].splitlines()
    assert "    8 runs, no GPU needed; digits (none needed); profiles paper, short; can run now" in details


def test_details_show_the_time_of_a_planned_study(silobench, experiments, tmp_path, monkeypatch):
    def seconds() -> dict[str, float | None]:
        return json.loads(silobench("list", "tables", "digits/one", "--json")[1])[0]["seconds"]

    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    study = experiments / "one.toml"
    planned = json.loads(silobench("plan", study, "--profile", "short", "--json")[1])
    assert seconds() == {"paper": None, "short": planned["seconds"]}
    assert "short (about " in silobench("list", "tables", "--long")[1]
    study.write_text(study.read_text() + "\n")  # a changed file is another study
    assert seconds() == {"paper": None, "short": None}


def test_every_printed_table_is_listed(silobench):
    """FENDA-FL's Tables 2 to 12 are reproduced by studies or checked by the audit."""
    _, out, _ = silobench("list", "tables", "--json")
    names = {entry["name"] for entry in json.loads(out)}
    for number in range(2, 13):
        assert any(f"{name}-".startswith(f"fenda/{number}-") for name in names), number
    assert {"global_layers/1", "apple/3", "player/A3", "player/A4"} <= names
    _, out, _ = silobench("list", "tables", "--long")
    assert "fenda/6  no results to reproduce; the audit checks 3 claims\n    nothing to train; can run now" in out
