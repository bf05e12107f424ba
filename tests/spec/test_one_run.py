"""A record alone is enough to make its run again: the study written from it asks for this run and no other."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import registry, spec
from bench.settings import resolve
from bench.spec.one_run import study_text
from bench.sweep.study import run_batches
from bench.types import Budget, RunSpec

STUDY = """
title = "All kinds of runs"
seeds = [3]
[data]
name = "digits"
partition_seed = {{ from = "seed" }}
[budget]
rounds = 2
local_epochs = 1
batch_size = "full"
optimizer = "{optimizer}"
schedule = "step"
[methods.{algorithm}]
model = {{ name = "mlp", hidden = 5 }}
fixed = {{ lr = 1e-5 }}
[methods.steps]
algorithm = "{algorithm}"
model = "mlp"
data = {{ partition_seed = 7 }}
budget = {{ local_steps = 3, batch_size = 4, validation = 0.25, evaluate = "trained", test_every = 1 }}
"""


def runs(file: Path) -> list[RunSpec]:
    asked, _ = run_batches(spec.read(file), {})
    return [run for run_batch in asked for run in run_batch.runs]


@pytest.mark.parametrize("algorithm", registry.catalogue("algorithms"))
def test_the_study_of_a_run_asks_for_it(tmp_path, algorithm):
    file = tmp_path / "study.toml"
    optimizer = registry.flags(algorithm)["optimizers"][0]
    file.write_text(STUDY.format(algorithm=algorithm, optimizer=optimizer))
    asked = runs(file)
    assert len(asked) == 2
    for run in asked:
        kept = json.loads(json.dumps(run.as_dict()))
        file.write_text(study_text(kept, title="again"))
        assert [each.hash for each in runs(file)] == [run.hash]


def test_a_run_dropped_by_halving_is_a_run_of_its_rounds(tmp_path):
    file = tmp_path / "study.toml"
    halving = '[search]\nkind = "halving"\ntrials = 3\nfirst = 1\n'
    text = STUDY.format(algorithm="fedavg", optimizer="sgd").partition("[methods.steps]")[0].replace("lr = 1e-5", "")
    file.write_text(text + "range.lr = { low = 0.1, high = 1.0 }\n" + halving)
    drawn = runs(file)
    assert len({run.hyperparameters["lr"] for run in drawn}) == 3
    file.write_text(study_text(drawn[1].as_dict(), title="again"))
    assert [run.hash for run in runs(file)] == [drawn[1].hash]


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1)
VALUES = st.recursive(NUMBERS | st.booleans() | st.text(), lambda values: st.lists(values, max_size=3), max_leaves=5)


@given(st.dictionaries(st.text(), VALUES | st.none(), max_size=4), st.text())
def test_whatever_stands_in_a_record_comes_back_from_toml(options, title):
    options.pop("name", None)
    run = RunSpec(
        {"name": "from_csv", "options": options, "fingerprint": "f", "by_seed": []}, {"name": "fedavg", "options": {}},
        {"name": "mlp", "options": options}, resolve("fedavg", "sgd", {}), Budget(1, local_steps=1), 5,
    )  # fmt: skip
    read = tomllib.loads(study_text(run.as_dict(), title=title))
    given = {name: value for name, value in options.items() if value is not None}
    assert read["title"] == title
    assert read["data"] == {"name": "from_csv", **given}
    assert read["methods"]["fedavg"]["model"] == {"name": "mlp", **given}
    assert read["methods"]["fedavg"]["fixed"] == run.hyperparameters
    assert read["seeds"] == [5]
