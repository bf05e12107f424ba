"""The command ``silobench audit``."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from bench.cli.audit import audit
from bench.types import SpecError

app = typer.Typer()
app.command()(audit)


def test_a_paper_is_audited_as_text():
    result = CliRunner().invoke(app, ["fenda"])
    assert result.exit_code == 0
    assert result.output.startswith("FENDA-FL: Personalized Federated Learning")
    assert "! standard, large  printed 152  recomputed 151" in result.output
    assert "(--full)" in result.output
    full = CliRunner().invoke(app, ["fenda", "--full"])
    assert "(--full)" not in full.output
    assert len(full.output) > len(result.output)


@pytest.mark.parametrize("paper", ["apple", "fenda", "global_layers", "player"])
def test_every_paper_is_audited_as_json(paper):
    result = CliRunner().invoke(app, [paper, "--json"])
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["paper"] == paper
    for finding in found["findings"]:
        assert list(finding) == ["claim", "where", "says", "verdict", "parts", "why"]
        off = [part for part in finding["parts"] if not part["follows"]]
        assert off or finding["verdict"] != "does not follow"


def test_an_unknown_paper_is_one_line():
    result = CliRunner().invoke(app, ["aple"])
    assert isinstance(result.exception, SpecError)
    assert str(result.exception) == "unknown paper 'aple': did you mean 'apple'?"


def test_a_printed_table_without_results_is_what_the_audit_finds_about_it(silobench, tmp_path):
    status, out, _ = silobench("reproduce-table", "fenda/6")
    assert status == 0
    assert "Guy's, training                    printed 262  recomputed 249" in out
    assert "Fed-ISIC2019" in out
    assert "Table 8" not in out
    status, out, _ = silobench("reproduce-table", "player/A3")
    assert status == 0
    assert "the learning rates used were tried" in out
    assert not list(tmp_path.iterdir())
    assert silobench("reproduce-figure", "fenda/8")[0] == 2
