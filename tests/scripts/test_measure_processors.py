"""Measured differences between processors: the script counts them, and the committed table is what the docs quote."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from bench.cli.verify import TOLERANCE

ROOT = Path(__file__).parent.parent.parent
MEASURED = (ROOT / "results/benchmarks/processors.md").read_text(encoding="utf-8")
# Pages that quote the largest differences, and the rows of the table that they are in.
QUOTED = ("README.md", "docs/reproducing-papers.md", "docs/cluster.md")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    yield importlib.import_module("measure_processors")
    sys.modules.pop("measure_processors")


def record(score: float | None, loss: float = 0.5) -> dict:
    numbers = {"status": "finished", "diverged": None, "curves": {}, "traces": {}}
    scores = [["local", 0, 0, "accuracy", score]]
    return {**numbers, "scores": scores, "validation": [[loss]], "aggregated": [loss], "environments": [{"a": "b"}]}


def test_records_that_differ_in_a_number_are_counted(script):
    own = {"a": record(0.5), "b": record(0.7), "c": record(None), "d": record(0.9)}
    other = {"a": record(0.75), "b": record(0.7, loss=0.6), "c": record(None), "d": record(0.9) | {"environments": []}}
    measured = [script.Measured(records, {}, frozenset("bcd")) for records in (other, own)]
    assert list(script._differences(*measured)) == ["2 of 4", "0.2500", "0", "none", "none", "none", "0"]


def rows() -> list[dict[str, str]]:
    """Return the rows of all tables of the committed file by column."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in MEASURED.splitlines() if line[:1] == "|"]
    head = lines[0]
    return [dict(zip(head, line, strict=True)) for line in lines if line != head and not line[0].startswith("---")]


def largest(column: str) -> float:
    return max(float(row[column]) for row in rows() if row[column] != "none")


def test_verify_allows_what_was_measured():
    print(f"\n15.2: the largest difference of a cell is {largest('cell')}, allowed is {TOLERANCE}")
    assert 0 < largest("cell") <= TOLERANCE
    assert {row["changed verdicts"] for row in rows()} == {"0"}


@pytest.mark.parametrize("page", QUOTED)
def test_pages_quote_measured_numbers(page):
    """A paragraph that links to the table has numbers of it, and the largest difference of a cell."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (paragraph,) = [each for each in re.split(r"\n\s*\n", text) if "results/benchmarks/processors.md" in each]
    numbers = re.findall(r"0\.\d{4}", paragraph)
    assert f"{largest('cell'):.4f}" in numbers
    assert set(numbers) <= set(re.findall(r"0\.\d{4}", MEASURED))
