"""Profiles that a report shows, chosen by the recorded runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.rebuild.collect import filled
from bench.spec import read
from bench.sweep.recorded_metadata import NoRecordError, RecordedMetadata
from bench.sweep.study import run_batches
from bench.types import DataError
from tests.records import CLIENTS, made

STUDY = """
title = "Digits"
seeds = [1, 2, 3]
data = "digits"
[budget]
rounds = 2
local_epochs = 1
batch_size = "full"
[methods.fedavg]
model = "logistic"
fixed.lr = 0.1
[methods.local]
model = "logistic"
fixed.lr = 0.1
[profiles.few]
seeds = [1]
[profiles.short]
seeds = [1]
budget.rounds = 1
[[tables]]
id = "t"
rows = [{ method = "FedAvg", of = "fedavg" }, { method = "Silo", of = "local" }]
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


def runs_of(file, profile="paper"):
    batches, _ = run_batches(read(file, profile), {})
    return [run for batch in batches for run in batch.runs]


def records_of(*runs):
    return {run.hash: made(run) for run in runs}


def shown(file, records, profiles=None):
    return [(each.study.profile, each.tables) for each in filled(file, records, profiles=profiles)]


def test_nothing_on_record_shows_nothing(file):
    assert shown(file, {}) == []


def test_a_profile_whose_runs_are_part_of_a_complete_one_adds_nothing(file):
    """Profile "few" has some of the paper's seeds and the same budget."""
    assert shown(file, records_of(*runs_of(file))) == [("paper", ("t",))]


def test_profiles_with_runs_of_their_own_are_shown_side_by_side(file):
    records = records_of(*runs_of(file), *runs_of(file, "short"))
    assert shown(file, records) == [("paper", ("t",)), ("short", ("t",))]
    assert shown(file, records, ["short"]) == [("short", ("t",))]


def test_a_complete_profile_stands_before_one_that_lacks_runs(file):
    """The runs of "few" are part of the paper's, which is incomplete without the other seeds."""
    assert shown(file, records_of(*runs_of(file, "few"))) == [("few", ("t",))]


def test_of_incomplete_profiles_the_fullest_is_shown(file):
    without_few = [run for run in runs_of(file) if run.seed != 1 or run.algorithm["name"] == "local"]
    assert shown(file, records_of(*without_few)) == [("paper", ("t",))]


def test_every_method_of_a_table_needs_a_record(file):
    fedavg = [run for run in runs_of(file) if run.algorithm["name"] == "fedavg"]
    assert shown(file, records_of(*fedavg)) == []


def test_records_describe_the_data_that_they_were_made_with(file):
    runs = runs_of(file)
    data = next(iter(read(file).methods.values())).data
    metadata = RecordedMetadata(records_of(*runs).values())
    found = metadata(data)
    assert found.fingerprint == runs[0].data["fingerprint"]
    assert (found.clients, found.test_sizes, found.metrics, found.synthetic) == (
        CLIENTS,
        (10, 20),
        ("accuracy",),
        False,
    )
    with pytest.raises(NoRecordError, match="digits: no run with the options"):
        metadata(replace(data, options={"clients": 3}))
    with pytest.raises(NoRecordError):
        metadata(replace(data, options={"subsample": 0.1}))


def test_records_of_two_versions_of_the_data_are_told_apart(file):
    runs = runs_of(file)
    others = [replace(run, data={**run.data, "fingerprint": "other"}) for run in runs]
    with pytest.raises(DataError, match="the records are of 2 versions of the raw files"):
        filled(file, records_of(*runs, *others))
