"""One line for every fault of a study file: file, key and what was expected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import spec
from bench.types import SpecError
from tests.spec.example import GOOD, changed

HUGE = f"[{', '.join(map(str, range(1, 1002)))}]"
BAD = {
    "not TOML": ('title = "A study"', 'title = "A study', "line 2, column 17: not TOML: Illegal character"),
    "not TOML, with its line": ("rounds = 15", "rounds = = 15", "rounds = = 15"),
    "cut off": ('tables = ["mine/first"]', "tables = [", "line 37: not TOML: Invalid value: tables = ["),
    "seeds a number": ("seeds = [1, 2]", "seeds = 3", "seeds: expected a list, got 3; write seeds = [3]"),
    "grid a number": (
        "lr = [0.1, 0.01]",
        "lr = 0.1",
        "methods.fedavg.grid.lr: expected a list, got 0.1; write lr = [0.1]",
    ),
    "no checkpoints": ('["local"]', "[]", "tables[0].rows[1].checkpoints: empty; give at least one"),
    "batch size a list": ("batch_size = 4", "batch_size = [4]", "budget.batch_size: expected a whole number"),
    "family without two extractors": (
        'algorithm = "fedprox"\nmodel = { name = "mlp", hidden = 5 }',
        'algorithm = "fenda"\nmodel = "logistic"',
        "methods.far.model: fenda needs a model with two extractors, and the family 'logistic' has none",
    ),
    "defaults of a budget": ("[data]", "[defaults]\nbudget.rounds = 3\n[data]", "defaults.budget: write [budget]"),
    "unknown baseline": (
        'metric = "accuracy"',
        'metric = "accuracy"\nbaselines = ["FedAvgg"]',
        "tables[0].baselines: unknown name 'FedAvgg': did you mean 'FedAvg'?",
    ),
    "unknown placeholder": (
        'title = "The same, drawn"',
        'title = "On {dta}"',
        "figures[0]: unknown placeholder {dta}: did you mean 'data'?",
    ),
    "unknown key": ("seeds = [1, 2]", "seed = [1, 2]", "seed: unknown key: did you mean 'seeds'?"),
    "unknown key of a section": ("rounds = 15", "round = 15", "budget.round: unknown key: did you mean 'rounds'?"),
    "unknown key of a method": ("grid.lr =", "gird.lr =", "methods.fedavg.gird: unknown key: did you mean 'grid'?"),
    "unknown key of a row": ('{ method = "FedAvg"', '{ name = "FedAvg"', "tables[0].rows[0].name: unknown key"),
    "key missing": ('title = "A study"', "", "title: missing"),
    "rounds missing": ("rounds = 15\n", "", "budget.rounds: missing"),
    "model missing": ('model = "logistic"', "", "methods.fedavg.model: missing"),
    "title a number": ('title = "A study"', "title = 3", "title: expected text in quotes, got 3"),
    "section a number": ('paper = "fenda"', 'paper = "fenda"\nselect = 3', "select: expected a table, got 3"),
    "no seeds": ("seeds = [1, 2]", "seeds = []", "seeds: empty; give at least one"),
    "seed twice": ("seeds = [1, 2]", "seeds = [1, 2, 1]", "seeds: 1 is given twice"),
    "seed in quotes": ("seeds = [1, 2]", 'seeds = [1, "2"]', 'seeds[1]: expected a whole number, got "2"'),
    "seed true": ("seeds = [1, 2]", "seeds = [true]", "seeds[0]: expected a whole number, got true"),
    "seed broken": ("seeds = [1, 2]", "seeds = [1.5]", "seeds[0]: expected a whole number, got 1.5"),
    "seeds backwards": (
        "seeds = [1, 2]",
        "seeds = { from = 2, to = 1 }",
        "seeds: expected a list of whole numbers, or",
    ),
    "seeds without an end": ("seeds = [1, 2]", "seeds = { from = 2 }", "seeds: expected a list of whole numbers, or"),
    "endless seeds": ("seeds = [1, 2]", "seeds = { from = 0, to = 10000 }", "10,001 seeds are more than 10,000"),
    "no rounds": ("rounds = 15", "rounds = 0", "budget.rounds: expected a whole number from 1 to 1,000,000, got 0"),
    "batch size 0": (
        "batch_size = 4",
        "batch_size = 0",
        'budget.batch_size: expected a whole number from 1 to 1,000,000, or "full", got 0',
    ),
    "batch size in words": ("batch_size = 4", 'batch_size = "all"', "budget.batch_size: expected a whole number"),
    "full at a method": (
        'batch_size = "full"',
        "batch_size = -1",
        "methods.far.budget.batch_size: expected a whole number",
    ),
    "steps and epochs": ("local_epochs = 2", "local_epochs = 2, local_steps = 3", "exactly one of local_steps"),
    "neither steps nor epochs": ("local_steps = 100\n", "", "budget: give exactly one of local_steps"),
    "unknown optimiser": ('"adamw"', '"adam"', "budget.optimizer: unknown value 'adam': did you mean 'adamw'?"),
    "validation above 1": (
        "rounds = 15",
        "rounds = 15\nvalidation = 1.0",
        "budget.validation: expected a share of at least 0 and below 1, got 1.0",
    ),
    "validation NaN": ("rounds = 15", "rounds = 15\nvalidation = nan", "budget.validation: expected a share"),
    "validation in quotes": (
        "rounds = 15",
        'rounds = 15\nvalidation = "0.2"',
        "budget.validation: expected a share of at least 0 and below 1, got '0.2'",
    ),
    "search without validation": (
        "rounds = 15",
        "rounds = 15\nvalidation = 0",
        "budget.validation: 0 leaves no samples to select one of 2 settings by",
    ),
    "unknown data set": ('"fed_heart_disease"', '"fed_heart"', "unknown data set 'fed_heart': did you mean"),
    "unknown option of a data set": ("data.normalisation", "data.normalization", "did you mean 'normalisation'?"),
    "data option a date": (
        'data.normalisation = "pooled"',
        "data.normalisation = 2024-01-01",
        "methods.far.data: expected a finite number, text, true, false or a list",
    ),
    "unknown algorithm": ('"fedprox"', '"fedprx"', "methods.far.algorithm: unknown algorithm 'fedprx': did you mean"),
    "unknown algorithm as key": ("methods.fedavg]", "methods.fedavgg]", "methods.fedavgg: unknown algorithm"),
    "unknown model": ('"logistic"', '"logistics"', "methods.fedavg.model: unknown model 'logistics': did you mean"),
    "unknown option of a model": ("hidden = 5", "hiden = 5", "model mlp has no option 'hiden': did you mean 'hidden'?"),
    "model a number": (
        'model = "logistic"',
        "model = 3",
        'methods.fedavg.model: expected a name, or a table with the key "name", got 3',
    ),
    "method key of two words": (
        "methods.fedavg]",
        'methods."fed avg"]',
        'methods."fed avg": expected letters, digits, - and _',
    ),
    "no methods": (GOOD[GOOD.index("[methods.fedavg]") : GOOD.index("[[tables]]")], "[methods]\n", "methods: empty"),
    "unknown hyper-parameter": ("grid.lr", "grid.lrr", "fedavg with adamw has no hyper-parameter 'lrr': did you mean"),
    "hyper-parameter of another": ("grid.lr", "grid.mu", "fedavg with adamw has no hyper-parameter 'mu'"),
    "momentum with adamw": ("grid.lr", "grid.momentum", "fedavg with adamw has no hyper-parameter 'momentum'"),
    "option of another schedule": (
        "fixed.lr = 1",
        "fixed.lr = 1\nfixed.lr_final = 0.1",
        "methods.far.fixed.lr_final: fedprox with adamw has no hyper-parameter 'lr_final'",
    ),
    "option that its schedule does not have": (
        'batch_size = "full" }',
        'batch_size = "full", schedule = "cosine" }\nfixed.lr_decay = 0.5',
        "methods.far.fixed.lr_decay: fedprox with adamw and schedule 'cosine' has no hyper-parameter 'lr_decay'",
    ),
    "unknown schedule": (
        "rounds = 15",
        'rounds = 15\nschedule = "linear"',
        "budget.schedule: expected one of constant, cosine, exponential, step, got 'linear'",
    ),
    "cosine with halving": (
        "grid.lr = [0.1, 0.01]",
        'grid.lr = [0.1, 0.01]\nbudget.schedule = "cosine"\nsearch = { kind = "halving", trials = 4, first = 1 }',
        "methods.fedavg.budget.schedule: the cosine schedule depends on the number of rounds, which halving shortens",
    ),
    "patience with halving": (
        "grid.lr = [0.1, 0.01]",
        'grid.lr = [0.1, 0.01]\nbudget.patience = 3\nsearch = { kind = "halving", trials = 4, first = 1 }',
        "methods.fedavg.budget.patience: halving drops settings itself; leave patience out",
    ),
    "patience with the cosine schedule": (
        "rounds = 15",
        'rounds = 15\nschedule = "cosine"\npatience = 3',
        "budget.patience: the cosine schedule depends on the number of rounds, which early stopping shortens",
    ),
    "negative patience": ("rounds = 15", "rounds = 15\npatience = -1", "budget.patience: expected a whole number"),
    "empty grid": ("mu = [1, 2, 3]", "mu = []", "methods.far.grid.mu: empty; give at least one"),
    "value twice": ("mu = [1, 2, 3]", "mu = [1, 2, 1.0]", "methods.far.grid.mu: 1.0 is given twice"),
    "value NaN": ("mu = [1, 2, 3]", "mu = [nan]", "methods.far.grid.mu[0]: expected a finite number"),
    "value infinite": ("fixed.lr = 1", "fixed.lr = inf", "methods.far.fixed.lr: expected a finite number"),
    "value in quotes": (
        "fixed.lr = 1",
        'fixed.lr = "1"',
        "methods.far.fixed.lr: expected a finite number above 0, got",
    ),
    "learning rate 0": (
        "fixed.lr = 1",
        "fixed.lr = 0",
        "methods.far.fixed.lr: expected a finite number above 0, got 0",
    ),
    "negative mu": (
        "mu = [1, 2, 3]",
        "mu = [1, -5]",
        "methods.far.grid.mu: expected a finite number of at least 0, got -5",
    ),
    "width 0": ("hidden = 5", "hidden = 0", "methods.far.model.hidden: expected a whole number"),
    "option of a model in the grid": (
        "mu = [1, 2, 3]",
        '"model.hidden" = [0]',
        'methods.far.grid."model.hidden": expected',
    ),
    "hyper-parameter as option": (
        'algorithm = "fedprox"',
        'algorithm = { name = "fedprox", mu = 1 }',
        "methods.far.algorithm.mu: mu is a hyper-parameter of fedprox, not an option; give it in grid or fixed",
    ),
    "option of the algorithm that the key names": (
        'model = "logistic"',
        'model = "logistic"\nalgorithm = { name = "fedavg", mu = 1 }',
        "methods.fedavg.algorithm.mu: algorithm fedavg has no option 'mu'",
    ),
    "value no list": ("mu = [1, 2, 3]", "mu = 1", "methods.far.grid.mu: expected a list, got 1; write mu = [1]"),
    "in grid and fixed": ("mu = [1, 2, 3]", "lr = [1]", "methods.far.fixed.lr: also given in grid; remove one"),
    "million cells": (
        "weight_decay = [0.0, 0.1], mu = [1, 2, 3]",
        f"weight_decay = {HUGE}, mu = {HUGE}",
        "methods.far.grid: 1,002,001 combinations are more than 1,000,000",
    ),
    "million runs": (
        "weight_decay = [0.0, 0.1], mu = [1, 2, 3]",
        f"weight_decay = {HUGE}, mu = [{', '.join(map(str, range(900)))}]",
        "1,801,804 runs are more than 1,000,000",
    ),
    "no study but data": (
        'title = "A study"',
        f'title = "A study"\n# {"x" * 10_000_000}',
        "larger than 10,000,000 bytes",
    ),
    "unknown rule": (
        "[data]",
        '[select]\nrule = "best-test"\n[data]',
        'select.rule: expected "best-val", got "best-test"',
    ),
    "unknown checkpoint": (
        '["local"]',
        '["last"]',
        'tables[0].rows[1].checkpoints[0]: expected "latest", "global", "local"',
    ),
    "unknown score": (
        'of = "fedavg" }',
        'of = "fedavg", score = "model x" }',
        'tables[0].rows[0].score: expected "own", or "model" and the number of a client, got "model x"',
    ),
    "row of an unknown method": (
        'of = "far"',
        'of = "fer"',
        "tables[0].rows[1].of: unknown name 'fer': did you mean 'far'?",
    ),
    "row twice": ('method = "FedProx"', 'method = "FedAvg"', "tables[0].rows: 'FedAvg' is given twice"),
    "id outside the folder": (
        'id = "mine/first"\nmetric',
        'id = "../first"\nmetric',
        'tables[0].id: expected letters, digits, -, _ and / between them, got "../first"',
    ),
    "unknown printed numbers": ('"2:fed_heart_disease:accuracy"', '"2:fed_heart:accuracy"', "did you mean"),
    "unknown paper": (
        'paper = "fenda"',
        'paper = "fend"',
        "paper = 'fend' has no printed numbers: did you mean 'fenda'",
    ),
    "figure of an unknown table": (
        'tables = ["mine/first"]',
        'tables = ["mine/frst"]',
        "figures[0].tables: unknown name 'mine/frst': did you mean 'mine/first'?",
    ),
    "unknown key of a figure": (
        'title = "The same',
        'titel = "The same',
        "figures[0].titel: unknown key: did you mean 'title'?",
    ),
    "key of a figure missing": ('tables = ["mine/first"]', "", "figures[0].tables: missing; this key is needed"),
    "figure's tables no list": (
        'tables = ["mine/first"]',
        'tables = "mine/first"',
        'figures[0].tables: expected a list, got "mine/first"; write tables = ["mine/first"]',
    ),
    "kind of a figure missing": ('kind = "bars"', "", "figures[0].kind: missing; this key is needed"),
    "figure of an unknown kind": ('kind = "bars"', 'kind = "pie"', 'figures[0].kind: expected "bars"'),
}


@pytest.mark.parametrize(("old", "new", "expected"), BAD.values(), ids=BAD)
def test_a_bad_study_is_answered_with_one_line(write, old, new, expected):
    file = write(changed(old, new))
    with pytest.raises(SpecError) as error:
        spec.read(file)
    message = str(error.value)
    assert message.startswith(f"{file}: ")
    assert expected in message
    assert "\n" not in message


def test_a_missing_file_and_a_folder_are_answered_with_one_line(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(SpecError, match="give the path of a study file"):
            spec.read(path)


@given(st.data())
def test_whatever_byte_is_changed_there_is_a_study_or_one_line(tmp_path_factory, data):
    content = bytearray(GOOD.encode())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.mktemp("studies") / "study.toml"
    file.write_bytes(content)
    answer = ""
    try:
        spec.read(file)
    except SpecError as error:
        answer = str(error)
    assert "\n" not in answer
