"""Profiles: a study with less of it."""

from __future__ import annotations

import pytest

from bench import spec
from bench.types import Budget, SpecError
from tests.spec.example import SEVERAL, STUDY

PROFILE = """
[profiles.short]
seeds = [1]
budget = { rounds = 2, local_epochs = 1 }
search = { kind = "tpe", trials = 2, batch = 1 }
methods.local.budget.rounds = 5
methods.local.grid.lr = [0.1]
"""


def test_the_file_as_it_stands_is_the_profile_paper(study, tmp_path):
    read = study(STUDY + PROFILE)
    assert (read.profile, read.seeds, read.stem("mine/one")) == ("paper", (1, 2, 3), "mine/one")
    assert spec.profile_names(tmp_path / "study.toml") == ["paper", "short"]


def test_a_profile_lies_over_the_file_key_by_key(study):
    read = study(STUDY + PROFILE, "short")
    assert (read.profile, read.seeds, read.stem("mine/one")) == ("short", (1,), "mine/one-short")
    # Local epochs take the place of local steps; a method's own budget stays unless it is named.
    assert read.methods["fedavg"].budget == Budget(2, local_epochs=1)
    assert read.methods["local"].budget == Budget(5, local_epochs=1)
    assert (read.methods["fedavg"].search.kind, read.methods["fedavg"].tried) == ("tpe", 2)
    assert (read.methods["local"].search.kind, read.methods["local"].tried) == ("grid", 1)
    assert read.methods["given"].tried == 1


def test_options_of_data_lie_over_those_of_every_data_set(study):
    one = '[data]\nname = "covertype"\n'
    text = STUDY.replace(one, SEVERAL) + "[profiles.short]\ndata = { partition = 'pathological' }\n"
    read = study(text, "short")
    assert [method.data.options["partition"] for method in read.methods.values()] == ["pathological"] * 6


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("seed = [1]", "profiles.short.seed: unknown key: did you mean 'seeds'?"),
        ("methods.fedavgg.fixed.lr = 1", "profiles.short.methods.fedavgg: unknown method: did you mean 'fedavg'?"),
        ("budget = 3", "profiles.short.budget: expected a table"),
    ],
)
def test_a_profile_that_cannot_be_is_found_whatever_is_read(study, changed, expected):
    with pytest.raises(SpecError) as error:
        study(f"{STUDY}[profiles.short]\n{changed}\n")
    assert str(error.value).endswith(f"study.toml: {expected}")


def test_a_value_that_cannot_be_is_blamed_on_the_profile(study):
    with pytest.raises(
        SpecError, match=r"study.toml, profile short: budget.rounds: expected a whole number from 1 to 1,000,000, got 0"
    ):
        study(f"{STUDY}[profiles.short]\nbudget.rounds = 0\n", "short")


def test_an_unknown_profile_is_answered_with_the_nearest(study):
    with pytest.raises(SpecError, match=r"profiles\.shrt: there is no such profile: did you mean 'short'"):
        study(STUDY + PROFILE, "shrt")
