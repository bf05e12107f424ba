"""Base files and defaults, and the file that is named for a fault."""

from __future__ import annotations

import pytest

from bench import spec
from bench.types import SpecError

BASE = """
title = "On {data}"
seeds = [1]
[data]
partition_seed = 5
[budget]
rounds = 3
local_steps = 1
[defaults]
model = { name = "mlp", hidden = 4 }
grid.lr = [0.1, 0.01]
[methods.fedavg]
[methods.fedprox]
grid.mu = [1.0]
[methods.fedper]
fixed.lr = 0.5
model.hidden = 8
[[tables]]
id = "{place}/{data.name}"
title = "Table on {data} of {data.partition_seed}"
[profiles.short]
budget.rounds = 1
methods."fed*".grid.lr = [0.1]
methods."fedp*".budget.rounds = 2
methods.fedper.fixed.lr = 0.4
"""
OWN = """
extends = "base.toml"
data = { name = "digits", label = "Digits" }
placeholders.place = "here"
[budget]
local_epochs = 2
[methods.apfl]
[[tables]]
id = "{place}/{data.name}"
digits = 4
[[tables]]
id = "other"
"""


@pytest.fixture
def own(write):
    """Write a study and its base file, with changes, and return the study's path."""

    def own(text: str = OWN, base: str = BASE):
        write(base, "base.toml")
        return write(text, "own.toml")

    return own


def test_a_study_lies_over_its_base(own):
    study = spec.read(own())
    assert study.title == "On Digits"
    assert list(study.methods) == ["fedavg", "fedprox", "fedper", "apfl"]
    assert (study.methods["apfl"].budget.rounds, study.methods["apfl"].budget.local_epochs) == (3, 2)
    assert study.methods["apfl"].budget.local_steps is None
    assert study.methods["fedavg"].data.options == {"partition_seed": 5}
    assert list(study.tables) == ["here/digits", "other"]
    assert study.tables["here/digits"].title == "Table on Digits of 5"
    assert study.tables["here/digits"].digits == 4


def test_methods_inherit_defaults(own):
    methods = spec.read(own()).methods
    assert methods["fedavg"].model.options == {"hidden": 4}
    assert methods["fedprox"].axes == {"lr": (0.1, 0.01), "mu": (1.0,)}
    assert (methods["fedper"].axes, methods["fedper"].fixed) == ({}, {"lr": 0.5})
    assert methods["fedper"].model.options == {"hidden": 8}


def test_a_profile_of_the_base_holds_for_the_study(own):
    file = own()
    assert spec.profile_names(file) == ["paper", "short"]
    short = spec.read(file, "short").methods
    assert {key: method.budget.rounds for key, method in short.items()} == {
        "fedavg": 1, "fedprox": 2, "fedper": 2, "apfl": 1,
    }  # fmt: skip
    assert short["fedprox"].axes == {"lr": (0.1,), "mu": (1.0,)}
    assert (short["fedper"].axes, short["fedper"].fixed) == ({}, {"lr": 0.4})
    assert short["apfl"].axes == {"lr": (0.1, 0.01)}


def test_patterns_name_methods_of_the_base(own):
    own_methods = '[methods."fed*"]\nfixed.momentum = 0.5\n[methods."fedp*"]\nfixed.momentum = 0.9\n'
    methods = spec.read(own(OWN + own_methods)).methods
    assert {key: method.fixed.get("momentum") for key, method in methods.items()} == {
        "fedavg": 0.5, "fedprox": 0.9, "fedper": 0.9, "apfl": None,
    }  # fmt: skip


def test_a_pattern_that_matches_no_method_is_refused(own):
    file = own(OWN + '[profiles.short]\nmethods."apple*".budget.rounds = 1\n')
    with pytest.raises(SpecError, match=r'own.toml: profiles.short.methods."apple\*": the pattern matches no method'):
        spec.read(file)


@pytest.mark.parametrize(
    ("own_part", "base_part", "profile", "expected"),
    [
        (("", ""), ("rounds = 3", "rounds = 0"), "paper", "base.toml: budget.rounds: expected a whole number"),
        (
            ("local_epochs = 2", "local_epochs = 0"),
            ("", ""),
            "paper",
            "own.toml: budget.local_epochs: expected a whole",
        ),
        (
            ("", ""),
            ("grid.lr =", "grid.lrr ="),
            "paper",
            "base.toml: defaults.grid.lrr: fedavg with sgd has no hyper-par",
        ),
        (("", ""), ("hidden = 4", "hiden = 4"), "paper", "base.toml: defaults.model.hiden: model mlp has no option"),
        (
            ("", ""),
            ("hidden = 8", "hiden = 8"),
            "paper",
            "base.toml: methods.fedper.model.hiden: model mlp has no option",
        ),
        (("digits = 4", "digits = 40"), ("", ""), "paper", "own.toml: tables[0].digits: expected at most 10, got 40"),
        (("", ""), ('title = "Table', 'titel = "Table'), "paper", "base.toml: tables[0].titel: unknown key"),
        (
            ("", ""),
            ("partition_seed = 5", "client = 5"),
            "paper",
            "base.toml: data.client: data set digits has no option",
        ),
        (("", ""), ("budget.rounds = 1", "budget.rounds = 0"), "short", "base.toml, profile short: budget.rounds: exp"),
        (
            ("", ""),
            ("budget.rounds = 2", "budget.rounds = -2"),
            "short",
            'base.toml, profile short: methods."fedp*".budget.rounds: expected a whole number',
        ),
        (("", ""), ("budget.rounds = 2", "bugdet.rounds = 2"), "short", 'methods."fedp*".bugdet: unknown key'),
        (("extends", "extend"), ("", ""), "paper", "own.toml: extend: unknown key: did you mean 'extends'?"),
        (("base.toml", "bse.toml"), ("", ""), "paper", "own.toml: extends: there is no file"),
        (("base.toml", "own.toml"), ("", ""), "paper", "own.toml: extends: expected the name of another file"),
        (("base.toml", "../base.toml"), ("", ""), "paper", "own.toml: extends: expected the name of another file"),
        (("", ""), ("seeds", 'extends = "own.toml"\nseeds'), "paper", "base.toml: extends: own.toml extends this file"),
        (("", ""), ("seeds = [1]", ""), "paper", "own.toml: seeds: missing"),
    ],
)
def test_the_file_with_the_faulty_key_is_named(own, own_part, base_part, profile, expected):
    (old, new), (base_old, base_new) = own_part, base_part
    file = own(OWN.replace(old, new, 1), BASE.replace(base_old, base_new, 1))
    with pytest.raises(SpecError) as error:
        spec.read(file, profile)
    assert expected in str(error.value)


def test_an_algorithm_without_a_name_is_the_one_of_the_key(study):
    text = BASE.replace("[data]", '[data]\nname = "digits"').replace("{place}", "here")
    text = text.replace("[methods.fedper]", "[methods.fedavg_ft]\nalgorithm.epochs = 2\n[methods.fedper]")
    assert study(text).methods["fedavg_ft"].algorithm == spec.Choice("fedavg_ft", {"epochs": 2})


def test_a_method_may_drop_what_it_would_inherit(own):
    text = OWN.replace("[methods.apfl]", '[methods.apfl]\ndrop = ["lr"]')
    assert spec.read(own(text)).methods["apfl"].axes == {}
    with pytest.raises(SpecError, match=r"own.toml: methods.apfl.drop: 'mu' is no hyper-parameter of \[defaults\]"):
        spec.read(own(text.replace('["lr"]', '["mu"]')))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[methods.apfl]", "[[tables]]\nid = [1]\n[methods.apfl]", "own.toml: tables[0].id: expected text"),
        ("[methods.apfl]", "[methods.apfl]\ndrop = [[1]]", "own.toml: methods.apfl.drop: [1] is no hyper-parameter"),
    ],
)
def test_keys_of_a_wrong_type_are_one_line(own, old, new, expected):
    with pytest.raises(SpecError) as error:
        spec.read(own(OWN.replace(old, new)))
    assert expected in str(error.value)


@pytest.mark.parametrize("wrong", ["methods = [1]", "methods = true", "profiles = 3", "profiles.short = 3"])
def test_a_base_file_with_a_wrong_type_is_one_line(own, wrong):
    """The study lays a table over it and has a fault of its own, whose file is searched."""
    study = "extends = 'base.toml'\n[methods.fedavg]\n[profiles.short]\nseeds = [2]"
    with pytest.raises(SpecError, match=r"own\.toml: methods\.fedavg\.model: missing"):
        spec.read(own(study, f"title = 'T'\ndata = 'digits'\n{wrong}"), "short")
