"""The study that a file describes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench import spec
from bench.types import Budget
from tests.spec.example import GOOD, changed


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


def test_schedules_of_the_learning_rate_and_their_options_are_searched(write):
    names = '"budget.schedule" = ["constant", "cosine"]'
    named = spec.read(write(changed("grid.lr = [0.1, 0.01]", f"grid = {{ {names}, warmup = [1, 5] }}")))
    method = named.methods["fedavg"]
    found = [(each.budget.schedule, each.numbers.get("lr_final"), each.numbers["warmup"]) for each in
             map(method.at, method.grid)]  # fmt: skip
    assert found == [("constant", None, 1), ("constant", None, 5), ("cosine", 0, 1), ("cosine", 0, 5)]
    drawn = 'range.decay_every = { low = 1, high = 9, whole = true }\nsearch = { kind = "random", trials = 3 }'
    study = spec.read(write(changed("grid.lr = [0.1, 0.01]", f'budget.schedule = "step"\n{drawn}')))
    assert study.methods["fedavg"].tried == 3


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


def test_checking_a_study_needs_no_torch_once_the_registry_is_cached(write, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    code = f"import sys; from bench import spec; spec.read(__import__('pathlib').Path({str(write(GOOD))!r})); "
    code += "print(*{'torch', 'pandas', 'scipy'} & sys.modules.keys())"
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert "torch" in first.stdout
    assert second.stdout == "\n"
