"""Environments behind a table: counted, and named by what differs."""

from __future__ import annotations

import pytest

from bench.report.environments import described, environments, mixed
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.report.verify import compare_environments

WIDE = {"BLAS": "MKL 2024.2", "capability": "AVX512", "Python": "3.12"}
NARROW = WIDE | {"capability": "AVX2", "MKL_CBWR": "AVX2"}
SPEC = TableSpec("paper/1", "Table 1", "heart", "accuracy", (Row("Silo", "silo", checkpoints=("local",)),))


@pytest.fixture
def run(record):
    """Return a function that makes a run of the environments."""
    return lambda *each, torch="2.13": record([0.7, 0.8], environments=list(each), versions={"torch": torch})


def notes(*runs) -> list[str]:
    return list(mixed(environments(runs)))


def test_runs_of_one_environment_have_no_footnote(run):
    assert notes(run(WIDE), run(WIDE)) == []
    assert notes(run(), run(torch="2.11")) == []
    assert notes() == []


def test_the_footnote_names_what_differs_and_counts_runs(run):
    (text,) = notes(run(NARROW), run(WIDE), run(WIDE))
    assert text == (
        "Environments of training differ, and rounding with them: "
        "capability AVX512, MKL_CBWR not set (2 runs); capability AVX2, MKL_CBWR AVX2 (1 run)."
    )


def test_versions_belong_to_the_environment(run):
    (text,) = notes(run(WIDE), run(WIDE, torch="2.15"))
    assert "torch 2.13 (1 run); torch 2.15 (1 run)" in text


def test_runs_without_environment_are_not_recorded(run):
    (text,) = notes(run(), run(WIDE))
    assert "BLAS MKL 2024.2, capability AVX512, Python 3.12, torch 2.13 (1 run); not recorded (1 run)" in text


def test_a_run_resumed_elsewhere_names_both(run):
    (text,) = notes(run(WIDE, NARROW))
    assert "capability AVX512, MKL_CBWR not set then capability AVX2, MKL_CBWR AVX2 (1 run)" in text


def test_all_facts_describe_equal_environments(run):
    found = described(environments([run(WIDE)]))
    assert list(found.values()) == ["BLAS MKL 2024.2, capability AVX512, Python 3.12, torch 2.13"]


def test_a_table_has_the_environments_of_its_runs(run, choice):
    same, other = (build(SPEC, {"silo": choice(run(WIDE), run(each))}) for each in (WIDE, NARROW))
    assert not any(note.startswith("Environments") for note in same.footnotes)
    assert sum(note.startswith("Environments") for note in other.footnotes) == 1
    assert other.environments.total() == 2


def test_environments_of_two_stores_are_compared(run, choice):
    wide, narrow, unknown = (build(SPEC, {"silo": choice(run(*each))}) for each in ([WIDE], [NARROW], []))
    assert compare_environments([(wide, wide)]) == ((), ())
    assert compare_environments([(narrow, wide)]) == (
        ("capability AVX2, MKL_CBWR AVX2",), ("capability AVX512, MKL_CBWR not set",),
    )  # fmt: skip
    assert compare_environments([(narrow, unknown)])[1] == ("not recorded",)
