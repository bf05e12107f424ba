"""Study files: what a good one means, and the one line a bad one is answered with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import spec
from bench.types import Budget, SpecError

GOOD = """
title = "A study"
paper = "fenda"
seeds = [1, 2]

[data]
name = "fed_heart_disease"

[budget]
rounds = 15
local_steps = 100
batch_size = 4
optimizer = "adamw"

[methods.fedavg]
model = "logistic"
grid.lr = [0.1, 0.01]

[methods.far]
algorithm = "fedprox"
model = { name = "mlp", hidden = 5 }
fixed.lr = 1
grid = { weight_decay = [0.0, 0.1], mu = [1, 2, 3] }
budget = { local_epochs = 2, batch_size = "full" }
data.normalisation = "pooled"

[[tables]]
id = "mine/first"
metric = "accuracy"
printed = "2:fed_heart_disease:accuracy"
rows = [{ method = "FedAvg", of = "fedavg" }, { method = "FedProx", of = "far", checkpoints = ["local"] }]

[[figures]]
id = "mine/first"
kind = "bars"
title = "The same, drawn"
tables = ["mine/first"]
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "study.toml") -> Path:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_methods_take_the_study_s_keys_and_put_their_own_over_them(write):
    study = spec.read(write(GOOD))
    assert study.seeds == (1, 2)
    assert study.methods["fedavg"].algorithm == spec.Choice("fedavg", {})
    assert study.methods["fedavg"].budget == Budget(15, local_steps=100, batch_size=4, optimizer="adamw")
    far = study.methods["far"]
    assert far.algorithm.name == "fedprox"
    assert far.model == spec.Choice("mlp", {"hidden": 5})
    assert far.data == spec.Choice("fed_heart_disease", {"normalisation": "pooled"})
    # Local epochs take the place of the study's local steps.
    assert far.budget == Budget(15, local_epochs=2, batch_size="full", optimizer="adamw")


def test_settings_are_the_product_in_the_order_of_the_file(write):
    far = spec.read(write(GOOD)).methods["far"]
    tried = [(setting["weight_decay"], setting["mu"]) for setting in far.grid]
    assert tried == [(0.0, 1), (0.0, 2), (0.0, 3), (0.1, 1), (0.1, 2), (0.1, 3)]
    assert all(setting["lr"] == 1 for setting in far.grid)


def test_method_without_a_grid_has_one_setting(write):
    study = spec.read(write(changed("grid.lr = [0.1, 0.01]\n", "")))
    assert study.methods["fedavg"].grid == ({},)


def test_printed_numbers_come_from_the_paper_s_folder(write):
    study = spec.read(write(GOOD))
    numbers = study.printed(study.tables["mine/first"])
    assert spec.Number("FedAdam", "local", 0.742, 0.0) in numbers
    assert len([number for number in numbers if number.method == "FedAdam"]) == 2


def test_methods_behind_a_figure_are_those_of_its_tables(write):
    alpha = '[[figures]]\nid = "a"\nkind = "alpha"\ntitle = "A"\nof = "apfl"\n[methods.apfl]\nmodel = "mlp"\n'
    study = spec.read(write(GOOD + alpha))
    assert study.methods_behind([], ["mine/first"]) == {"fedavg", "far"}
    assert study.methods_behind([], ["a"]) == {"apfl"}


def test_study_without_a_table_gets_one_of_all_its_methods(write):
    without = GOOD[: GOOD.index("[[tables]]")]
    (table,) = spec.read(write(without, "my study.toml")).with_a_table().tables.values()
    assert table.id == "my-study"
    assert [row.of for row in table.rows] == ["fedavg", "far"]
    study = spec.read(write(GOOD))
    assert study.with_a_table() is study


@pytest.mark.parametrize(
    ("seeds", "meant"), [("{ from = 8, to = 11 }", (8, 9, 10, 11)), ("{ from = 3, to = 3 }", (3,))]
)
def test_seeds_one_after_another_need_not_be_listed(write, seeds, meant):
    assert spec.read(write(changed("seeds = [1, 2]", f"seeds = {seeds}"))).seeds == meant


HUGE = f"[{', '.join(map(str, range(1, 1002)))}]"
BAD = {
    "not TOML": ("seeds = [1, 2]", "seeds = [1, 2", "line"),
    "unknown key": ("seeds = [1, 2]", "seed = [1, 2]", "unknown key 'seed': did you mean 'seeds'?"),
    "unknown key of a section": ("rounds = 15", "round = 15", "budget: unknown key 'round': did you mean 'rounds'?"),
    "unknown key of a method": ("grid.lr =", "gird.lr =", "methods.fedavg: unknown key 'gird': did you mean 'grid'?"),
    "unknown key of a row": ('{ method = "FedAvg"', '{ name = "FedAvg"', "tables[0].rows[0]: unknown key 'name'"),
    "key missing": ('title = "A study"', "", "title is missing"),
    "rounds missing": ("rounds = 15\n", "", "budget: rounds is missing"),
    "model missing": ('model = "logistic"', "", "methods.fedavg.model is missing"),
    "title a number": ('title = "A study"', "title = 3", "title = 3: expected a valid string"),
    "section a number": ('paper = "fenda"', 'paper = "fenda"\nselect = 3', "select = 3: expected a table"),
    "no seeds": ("seeds = [1, 2]", "seeds = []", "seeds is empty; give at least one"),
    "seed twice": ("seeds = [1, 2]", "seeds = [1, 2, 1]", "seeds: 1 stands more than once"),
    "seed in quotes": ("seeds = [1, 2]", 'seeds = [1, "2"]', "seeds[1] = '2': expected a valid integer"),
    "seed true": ("seeds = [1, 2]", "seeds = [true]", "seeds[0] = True: expected a valid integer"),
    "seed broken": ("seeds = [1, 2]", "seeds = [1.5]", "seeds[0] = 1.5: expected a valid integer"),
    "seeds backwards": (
        "seeds = [1, 2]",
        "seeds = { from = 2, to = 1 }",
        "seeds: expected a list of whole numbers, or",
    ),
    "seeds without an end": ("seeds = [1, 2]", "seeds = { from = 2 }", "seeds: expected a list of whole numbers, or"),
    "endless seeds": ("seeds = [1, 2]", "seeds = { from = 0, to = 10000 }", "10,001 seeds are more than 10,000"),
    "no rounds": ("rounds = 15", "rounds = 0", "budget: rounds = 0: expected a whole number of at least 1"),
    "batch size 0": ("batch_size = 4", "batch_size = 0", "budget: batch_size = 0: expected a whole number"),
    "batch size in words": ("batch_size = 4", 'batch_size = "all"', "budget: batch_size = 'all': expected"),
    "full at a method": ('batch_size = "full"', "batch_size = -1", "methods.far.budget: batch_size = -1"),
    "steps and epochs": ("local_epochs = 2", "local_epochs = 2, local_steps = 3", "exactly one of local_steps"),
    "neither steps nor epochs": ("local_steps = 100\n", "", "budget: give exactly one of local_steps"),
    "unknown optimiser": ('"adamw"', '"adam"', "budget: optimizer = 'adam': did you mean 'adamw'?"),
    "validation above 1": ("rounds = 15", "rounds = 15\nvalidation = 1.0", "validation = 1.0: expected a share"),
    "validation NaN": ("rounds = 15", "rounds = 15\nvalidation = nan", "budget.validation = nan: expected a finite"),
    "validation in quotes": ("rounds = 15", 'rounds = 15\nvalidation = "0.2"', "budget.validation = '0.2': expected"),
    "search without validation": ("rounds = 15", "rounds = 15\nvalidation = 0", "methods.fedavg: validation = 0"),
    "unknown data set": ('"fed_heart_disease"', '"fed_heart"', "unknown data set 'fed_heart': did you mean"),
    "unknown option of a data set": ("data.normalisation", "data.normalization", "did you mean 'normalisation'?"),
    "data option a date": ('data.normalisation = "pooled"', "data.normalisation = 2024-01-01", "methods.far.data = "),
    "unknown algorithm": ('"fedprox"', '"fedprx"', "methods.far.algorithm: unknown algorithm 'fedprx': did you mean"),
    "unknown algorithm as key": ("methods.fedavg]", "methods.fedavgg]", "methods.fedavgg: unknown algorithm"),
    "unknown model": ('"logistic"', '"logistics"', "methods.fedavg.model: unknown model 'logistics': did you mean"),
    "unknown option of a model": ("hidden = 5", "hiden = 5", "model mlp has no option 'hiden': did you mean 'hidden'?"),
    "model a number": ('model = "logistic"', "model = 3", "methods.fedavg.model: expected a name, or a table"),
    "method key of two words": ("methods.fedavg]", 'methods."fed avg"]', "methods.fed avg"),
    "no methods": (GOOD[GOOD.index("[methods.fedavg]") : GOOD.index("[[tables]]")], "[methods]\n", "methods is empty"),
    "unknown hyper-parameter": ("grid.lr", "grid.lrr", "fedavg with adamw has no hyper-parameter 'lrr': did you mean"),
    "hyper-parameter of another": ("grid.lr", "grid.mu", "fedavg with adamw has no hyper-parameter 'mu'"),
    "momentum with adamw": ("grid.lr", "grid.momentum", "fedavg with adamw has no hyper-parameter 'momentum'"),
    "empty grid": ("mu = [1, 2, 3]", "mu = []", "methods.far.grid.mu is empty; give at least one"),
    "value twice": ("mu = [1, 2, 3]", "mu = [1, 2, 1.0]", "methods.far.grid.mu: 1.0 stands more than once"),
    "value NaN": ("mu = [1, 2, 3]", "mu = [nan]", "methods.far.grid.mu[0] = nan: expected a finite number"),
    "value infinite": ("fixed.lr = 1", "fixed.lr = inf", "methods.far.fixed.lr = inf: expected a finite number"),
    "value in quotes": ("fixed.lr = 1", 'fixed.lr = "1"', "methods.far.fixed.lr = '1': expected a finite number"),
    "learning rate 0": ("fixed.lr = 1", "fixed.lr = 0", "methods.far.fixed.lr = 0: expected a finite number above 0"),
    "negative mu": (
        "mu = [1, 2, 3]",
        "mu = [1, -5]",
        "methods.far.grid.mu = -5: expected a finite number",
    ),
    "width 0": ("hidden = 5", "hidden = 0", "methods.far.model.hidden = 0: expected a whole number"),
    "value no list": ("mu = [1, 2, 3]", "mu = 1", "methods.far.grid.mu = 1: expected a valid list"),
    "in grid and fixed": ("mu = [1, 2, 3]", "lr = [1]", "methods.far: lr stands in grid and in fixed; keep one"),
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
        f'title = "A study"\n# {"x" * 1_000_000}',
        "larger than 1,000,000 bytes",
    ),
    "unknown rule": (
        "[data]",
        '[select]\nrule = "best-test"\n[data]',
        "select.rule = 'best-test': expected 'best-val'",
    ),
    "unknown checkpoint": ('["local"]', '["last"]', "tables[0].rows[1].checkpoints[0] = 'last': expected 'latest'"),
    "unknown score": ('of = "fedavg" }', 'of = "fedavg", score = "model x" }', "tables[0].rows[0].score = 'model x'"),
    "row of an unknown method": ('of = "far"', 'of = "fer"', "tables[0].rows[1].of = 'fer': did you mean 'far'?"),
    "row twice": ('method = "FedProx"', 'method = "FedAvg"', "tables[0].rows: 'FedAvg' stands more than once"),
    "id outside the folder": ('id = "mine/first"\nmetric', 'id = "../first"\nmetric', "tables[0].id = '../first'"),
    "unknown printed numbers": ('"2:fed_heart_disease:accuracy"', '"2:fed_heart:accuracy"', "did you mean"),
    "unknown paper": (
        'paper = "fenda"',
        'paper = "fend"',
        "paper = 'fend' has no printed numbers: did you mean 'fenda'",
    ),
    "figure of an unknown table": ('tables = ["mine/first"]', 'tables = ["mine/frst"]', "figures[0]: table = "),
    "figure of an unknown kind": ('kind = "bars"', 'kind = "pie"', "figures[0] = "),
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


def test_an_id_stands_in_one_study_only(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        text = GOOD.replace('paper = "fenda"', "").replace('printed = "2:fed_heart_disease:accuracy"', "")
        (tmp_path / name / "study.toml").write_text(text)
    monkeypatch.setattr("bench.spec.experiments.folder", lambda kind: tmp_path)
    with pytest.raises(SpecError, match=r"two/study.toml: tables: 'mine/first' stands in .*one/study.toml already"):
        spec.published("tables")


def test_every_study_in_experiments_can_be_read():
    assert {"quickstart", "fenda/2-heart"} <= spec.published("tables").keys()


def test_checking_a_study_needs_no_torch_once_the_registry_is_cached(write, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    code = f"import sys; from bench import spec; spec.read(__import__('pathlib').Path({str(write(GOOD))!r})); "
    code += "print(*{'torch', 'pandas', 'scipy'} & sys.modules.keys())"
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert "torch" in first.stdout
    assert second.stdout == "\n"


def test_tables_name_rows_in_common(write):
    rows = '[rows]\nboth = [{ method = "FedAvg", of = "fedavg" }, { method = "FedProx", of = "far" }]\n'
    common = GOOD.replace("[[tables]]", f"{rows}[[tables]]").replace(
        'rows = [{ method = "FedAvg", of = "fedavg" }, { method = "FedProx", of = "far", checkpoints = ["local"] }]',
        'rows = "both"',
    )
    assert [row.of for row in spec.read(write(common)).tables["mine/first"].rows] == ["fedavg", "far"]
    with pytest.raises(SpecError, match=r"tables: rows = 'bath': did you mean 'both'\?"):
        spec.read(write(common.replace('rows = "both"', 'rows = "bath"'), "other.toml"))
    with pytest.raises(SpecError, match=r"tables: rows = 'both': there are no \[rows\]"):
        spec.read(write(common.replace(rows, ""), "another.toml"))
