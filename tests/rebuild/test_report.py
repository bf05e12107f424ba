"""Reports rebuilt from records: published tables, own studies, profiles and joint tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import ANY

import pytest

from bench.data.files import locate
from bench.rebuild.collect import filled
from bench.rebuild.record_sets import own_records, published_records
from bench.rebuild.report import rebuild
from bench.registry import folder
from bench.report import publish
from bench.report.tables import render
from bench.sweep import noted
from bench.sweep.store import Store
from bench.types import SpecError

PUBLISHED = Path(__file__).parents[2] / "results" / "published"


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    """There are no raw files on this machine, and none may be downloaded."""
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(locate, "download", None)


@pytest.mark.parametrize("records", published_records(PUBLISHED), ids=lambda records: records.store.name)
def test_published_numbers_follow_from_the_published_records(records):
    """Every number of the committed csv files, byte for byte."""
    found = Store(records.store).records()
    compared = 0
    for file in records.files():
        for study in filled(file, found):
            for name in study.tables:
                stem = records.stem(study.study.stem(name))
                table = publish.table(study.study, study.chosen, name)
                assert render.content(table, "csv") == stem.with_name(f"{stem.name}.csv").read_bytes()
                compared += 1
    assert compared > 0


def test_a_published_report_needs_no_raw_data_and_rewrites_tables_beside_the_records(tmp_path, capsys):
    root = tmp_path / "published"
    shutil.copytree(PUBLISHED / "player" / "cifar10-jpeg" / "records", root / "player" / "jpeg" / "records")
    assert rebuild(published_records(root), root, tmp_path / "site")
    written = capsys.readouterr().out.splitlines()
    assert str(root / "player" / "jpeg" / "1-cifar10-short.tex") in written
    assert not (root / "player" / "player").exists()
    page = (tmp_path / "site" / "player.html").read_text()
    assert "short profile" in page
    before = {file: file.read_bytes() for file in root.rglob("*-short.*")}
    rebuild(published_records(root), root, tmp_path / "site")
    assert {file: file.read_bytes() for file in root.rglob("*-short.*")} == before


def test_a_folder_without_published_records_is_refused(tmp_path):
    with pytest.raises(SpecError, match="no published records"):
        published_records(tmp_path)


def test_a_profile_that_no_study_has_is_refused(tmp_path):
    with pytest.raises(SpecError, match="no study has a profile 'shrt': did you mean 'short'"):
        rebuild(own_records(tmp_path, tmp_path), tmp_path, tmp_path / "site", profiles=["shrt"])
    assert not (tmp_path / "site").exists()


def test_a_study_file_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"mine\.toml: no such study file"):
        own_records(tmp_path, tmp_path, [tmp_path / "mine.toml"])


MINE = """
title = "My study"
seeds = [1, 2]
data = "digits"
[budget]
rounds = 1
local_epochs = 1
batch_size = "full"
[methods.fedavg]
model = "logistic"
fixed.lr = 0.1
"""


def test_a_study_of_your_own_has_a_page_once_it_was_swept(silobench, tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    assert silobench("sweep", "mine.toml", "--quiet")[0] == 0
    assert silobench("report")[0] == 0
    assert "My study" in (tmp_path / "results/report/mine.html").read_text()
    assert (tmp_path / "results/tables/mine.csv").exists()
    (tmp_path / "mine.toml").rename(tmp_path / "moved.toml")
    silobench("report")
    assert silobench("report", "moved.toml")[0] == 0
    assert "My study" in (tmp_path / "results/report/moved.html").read_text()


def test_two_studies_with_one_table_id_are_not_written_over_each_other(silobench, tmp_path):
    table = '[[tables]]\nid = "same"\nrows = [{ method = "FedAvg", of = "fedavg" }]\n'
    for name, rounds in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.toml").write_text(MINE.replace("rounds = 1", f"rounds = {rounds}") + table)
        assert silobench("sweep", f"{name}.toml", "--quiet", "--out", f"tables-{name}")[0] == 0
    _, _, err = silobench("report")
    assert "two.toml: table 'same' left out; another study has a table of this id" in err


def test_own_studies_with_the_name_of_another_page_have_pages_of_their_own(silobench, tmp_path):
    files = [tmp_path / name for name in ("quickstart.toml", "index.toml", "other/index.toml")]
    for rounds, file in enumerate(files, 1):
        file.parent.mkdir(exist_ok=True)
        table = f'[[tables]]\nid = "table{rounds}"\nrows = ["fedavg"]\n'
        file.write_text(MINE.replace("rounds = 1", f"rounds = {rounds}") + table)
        assert silobench("sweep", file, "--quiet")[0] == 0
    assert silobench("report") == (0, ANY, "")
    site = tmp_path / "results/report"
    for name in ("quickstart-2", "index-2", "index-3"):
        assert "My study" in (site / f"{name}.html").read_text()
    assert "My study" not in (site / "quickstart.html").read_text()


def test_studies_of_experiments_are_not_noted_in_a_store(tmp_path):
    """Reports include them anyway, and another installation of silobench has them elsewhere."""
    noted.note(tmp_path, folder("experiments") / "quickstart" / "quickstart.toml")
    assert noted.studies(tmp_path) == []
