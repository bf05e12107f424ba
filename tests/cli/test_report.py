"""Command `silobench report`: it shows what has records and trains nothing."""

from __future__ import annotations

import pytest

from tests import toy_experiments


@pytest.fixture(autouse=True)
def experiments(tmp_path, monkeypatch):
    """Hide all experiments but these."""
    return toy_experiments.install(tmp_path, monkeypatch)


def written(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("results/")]


def test_a_report_holds_joint_tables_and_their_diagrams(silobench, tmp_path):
    short = ("--profile", "short")
    assert silobench("reproduce-table", "digits/both", *short, "--quiet")[0] == 0
    status, out, _ = silobench("report", *short)
    assert status == 0
    assert {f"results/tables/digits/{name}-short.png" for name in ("heat", "both-ranks")} <= set(written(out))
    page = (tmp_path / "results/report/digits.html").read_text()
    assert "<figcaption>Digits twice, ranked (short profile)</figcaption>" in page


def test_a_report_shows_studies_with_all_records_and_trains_nothing(silobench, experiments, monkeypatch):
    from bench.train import engine

    for name in ("joint.toml", "one.toml"):
        (experiments / name).unlink()
    (experiments / "one.toml").write_text(toy_experiments.STUDY.format(name="one", lr=0.1))
    assert silobench("reproduce-table", "digits/one", "--profile", "short", "--quiet")[0] == 0
    monkeypatch.setattr(engine, "train", None)
    monkeypatch.setattr(engine, "run", None)
    status, out, _ = silobench("report", "--profile", "short")
    assert status == 0
    tables = [line for line in written(out) if line.startswith("results/tables/")]
    assert tables == [f"results/tables/digits/one-short.{form}" for form in ("md", "csv", "tex", "html")]
