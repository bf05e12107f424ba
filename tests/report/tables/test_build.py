from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.scores import run_mean
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number
from bench.types import Chosen, SpecError


def spec(*rows, **options):
    return TableSpec("paper/1", "Table 1", "heart", "accuracy", rows or (Row("FedAvg", "fedavg"),), **options)


def test_a_cell_is_the_mean_over_clients_then_over_runs(choice):
    table = build(spec(), {"fedavg": choice([0.6, 0.8], [0.5, 0.7])})
    cell = table.cell("FedAvg", "local")
    assert cell.mean == pytest.approx(0.65)
    # Runs .7 and .6: s = .0707, t(1) = 12.706, radius 12.706 * .0707 / sqrt(2).
    assert cell.ci95 == pytest.approx(12.706 * 0.05, rel=1e-4)
    assert cell.normal95 == pytest.approx(1.960 * 0.05, rel=1e-4)
    assert cell.n_seeds == 2
    assert table.cell("FedAvg", "local", "1").mean == pytest.approx(0.75)


def test_a_single_run_has_no_radius(choice):
    cell = build(spec(), {"fedavg": choice([0.6, 0.8])}).cell("FedAvg", "local")
    assert (cell.mean, cell.ci95) == (pytest.approx(0.7), None)


def test_rows_choose_whose_model_is_tested_and_when(record, choice):
    run = record([0.9, 0.8], everywhere=[0.9, 0.5])
    run["scores"] += [["latest", 0, 0, "auroc", 0.1]]
    rows = (Row("Silo", "local", checkpoints=("latest", "local")), Row("Client 0", "local", "model 0", ("local",)))
    table = build(spec(*rows), {"local": choice(run, run)})
    assert table.cell("Silo", "local").mean == pytest.approx(0.85)
    assert table.cell("Client 0", "local").mean == pytest.approx(0.7)
    assert table.cell("Client 0", "latest") is None
    assert table.checkpoints == ("latest", "local")


def test_the_model_of_a_pooled_run_is_every_clients_own(record, choice):
    pooled = record([0.9], everywhere=[0.9, 0.5], clients=["north", "south"], test_sizes=[10, 10])
    table = build(spec(Row("Central", "central")), {"central": choice(pooled)})
    assert table.cell("Central", "local").mean == pytest.approx(0.7)
    assert table.cell("Central", "local", "1").mean == 0.5


def test_undefined_scores_are_left_out_and_counted(choice):
    table = build(spec(), {"fedavg": choice([0.6, None, 0.8], [0.6, None, 0.8])})
    assert table.cell("FedAvg", "local").mean == pytest.approx(0.7)
    assert table.cell("FedAvg", "local", "1").state == "undefined"
    # Two checkpoints of two runs.
    assert "accuracy is undefined on south in 4 of 4 scores, which the means leave out." in table.footnotes


def test_a_metric_defined_nowhere_is_no_number(choice):
    cell = build(spec(), {"fedavg": choice([None, None], [None, None])}).cell("FedAvg", "local")
    assert (cell.mean, cell.verdict) == (None, "undefined")


def test_a_client_without_test_samples_is_not_scored(record, choice):
    run = record([0.6, 0.8], sizes=[10, 0])
    run["scores"] = [score for score in run["scores"] if score[2] == 0]
    printed = [Number("FedAvg", "local", 0.6, client="north"), Number("FedAvg", "local", 0.8, client="south")]
    table = build(spec(columns="clients"), {"fedavg": choice(run, run)}, printed)
    assert table.cell("FedAvg", "local").mean == pytest.approx(0.6)
    assert table.cell("FedAvg", "local", "1").verdict == "not scored"
    assert "Agreement: 1 of 1 cells agree (1 more have no test samples)." in table.footnotes
    assert "Not scored, because they have no test samples: south." in table.footnotes


@pytest.mark.parametrize(
    ("lost", "state", "note"),
    [
        (["diverged"], "diverged", "diverged 1/4"),
        ([None, None], "missing", "missing 2/4"),
        ([None, "diverged"], "missing", "missing 1/4, diverged 1/4"),
    ],
)
def test_a_lost_run_takes_the_number_away(record, choice, lost, state, note):
    broken = [record([None, None], status="diverged") if what else None for what in lost]
    whole = [[0.6, 0.8]] * (4 - len(lost))
    number = Number("FedAvg", "local", 0.7, 0.0)
    table = build(spec(), {"fedavg": choice(*whole, *broken)}, [number])
    frame = table.frame()
    assert frame["mean"].isna().all()
    assert frame["ci95"].isna().all()
    assert set(frame["verdict"]) == {state}
    assert table.cell("FedAvg", "local").note == note
    assert [cell.checkpoint for cell in table.incomplete] == ["global", "local"]


def test_every_run_missing_still_makes_a_table(choice):
    table = build(spec(), {"fedavg": choice(None, None)})
    assert [cell.note for cell in table.cells] == ["missing 2/2", "missing 2/2"]


def test_the_csv_has_its_columns_and_a_row_per_client(choice):
    number = Number("FedAvg", "global", 0.72, 0.01)
    frame = build(spec(), {"fedavg": choice([0.6, 0.8], [0.5, 0.7])}, [number]).frame()
    assert ",".join(frame.columns) == (
        "table,dataset,metric,method,checkpoint,client,mean,ci95,n_seeds,printed,printed_ci95,verdict"
    )
    assert list(zip(frame["checkpoint"], frame["client"], strict=True)) == [
        ("global", "all"), ("global", "0"), ("global", "1"), ("local", "all"), ("local", "0"), ("local", "1"),
    ]  # fmt: skip
    assert frame["printed"].notna().tolist() == [True] + [False] * 5


def test_synthetic_data_say_so_in_the_title(record, choice):
    run = record([0.6, 0.8], synthetic=True)
    assert build(spec(), {"fedavg": choice([0.6, 0.8], run)}).title == "SYNTHETIC DATA: Table 1"
    assert build(spec(), {"fedavg": choice([0.6, 0.8])}).title == "Table 1"


def test_no_printed_number_stands_beside_synthetic_data(record, choice):
    printed = [Number("FedAvg", "global", 0.7, 0.1)]
    for synthetic, beside in ((False, {0.7}), (True, {None})):
        chosen = {"fedavg": choice([0.6, 0.8], record([0.6, 0.8], synthetic=synthetic))}
        [cell] = [cell for cell in build(spec(), chosen, printed).overall if cell.checkpoint == "global"]
        assert {cell.printed} == beside


def test_footnotes_say_how_the_numbers_were_computed(choice):
    chosen = {
        "fedavg": choice([0.6, 0.8], [0.5, 0.7], lr=0.1, weight_decay=0.01),
        "fedprox": choice([0.6, 0.8], [0.5, 0.7], [0.5, 0.7], settings=6, lr=0.001, mu=0.1, weight_decay=0.01),
    }
    rows = (Row("FedAvg", "fedavg"), Row("FedProx", "fedprox"))
    foot = build(spec(*rows, notes=("Read the README.",)), chosen).footnotes
    assert foot[0] == (
        "Selection rule: best-val. Chosen settings: weight_decay = 0.01 for all methods; FedAvg: lr = 0.1; "
        "FedProx: lr = 0.001, mu = 0.1."
    )
    assert "Seeds (FedAvg): 2021, 2022." in foot
    assert "Seeds (FedProx): 2021 to 2023." in foot
    assert any("3 runs (2 degrees of freedom)" in line and "0.456 times" in line for line in foot)  # 1.960 / 4.303
    assert foot[-1] == "Read the README."


scores = st.lists(st.lists(st.none() | st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=5)


@given(scores)
def test_no_mean_leaves_the_range_of_its_scores(runs):
    """Whatever is undefined, a mean lies between the scores it was made from, or is none at all."""
    records = tuple(
        {"run": "x", "status": "finished", "clients": list("abc"), "test_sizes": [1, 1, 1], "synthetic": False}
        | {"environments": [], "communication": {"up": 1, "down": 1}}
        | {"scores": [["local", client, client, "accuracy", score] for client, score in enumerate(run)]}
        for run in runs
    )
    chosen = Chosen("fedavg", "best-val", {}, records, tuple(range(len(runs))), 1, 0.5)
    table = build(spec(Row("FedAvg", "fedavg", checkpoints=("local",))), {"fedavg": chosen})
    defined = [score for run in runs for score in run if score is not None]
    mean = table.cell("FedAvg", "local").mean
    assert (mean is None) == (not defined)
    if defined:
        assert min(defined) <= mean <= max(defined)


def test_run_mean_of_a_lost_run_is_none(record):
    assert run_mean(None, "accuracy", "local") is None
    assert run_mean(record([0.6, 0.8]), "accuracy", "local") == pytest.approx(0.7)
    assert run_mean(record([0.6, 0.8], status="diverged"), "accuracy", "local") is None


def test_wrong_tables_are_refused_in_one_line(record, choice):
    fedavg = choice([0.6, 0.8])
    number = Number("FedAvg", "local", 0.7, 0.0)
    other = record([0.6, 0.8], clients=["east", "west"])
    half = record([0.6, 0.8])
    half["scores"] = [score for score in half["scores"] if score[2] == 0]
    cases = [
        (lambda: build(spec(Row("FedAvg", "fedavgg")), {"fedavg": fedavg}), "did you mean 'fedavg'"),
        (lambda: build(spec(), {"fedavg": fedavg}, [number, number]), "'FedAvg local' has two printed numbers"),
        (lambda: build(spec(), {"fedavg": fedavg}, [replace(number, method="FedAvgg")]), "did you mean 'FedAvg local'"),
        (lambda: build(spec(), {"fedavg": choice([0.6, 0.8], other)}), "records of different clients"),
        (lambda: build(spec(), {"fedavg": choice(half)}), "hold no global accuracy on client 1"),
        (lambda: build(spec(Row("FedAvg", "fedavg", "model 7")), {"fedavg": fedavg}), "no global accuracy of model 7"),
        (lambda: build(TableSpec("1", "", "heart", "auroc", (Row("A", "fedavg"),)), {"fedavg": fedavg}), "auroc"),
        (lambda: Row("FedAvg", "fedavg", "model x"), 'score: expected "own", or "model" and the number of a client'),
        (lambda: Row("FedAvg", "fedavg", checkpoints=("locals",)), 'checkpoints[0]: expected "latest"'),
        (lambda: Row("FedAvg", "fedavg", checkpoints=()), "checkpoints: empty"),
        (lambda: spec(Row("FedAvg", "fedavg"), Row("FedAvg", "other")), "row 'FedAvg' is given twice"),
        (lambda: TableSpec("1", "", "heart", "accuracy", ()), "rows: empty"),
        (lambda: spec(baselines=("FedAvgg",)), "did you mean 'FedAvg'"),
    ]
    for wrong, message in cases:
        with pytest.raises(SpecError) as caught:
            wrong()
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_tables_and_figures_never_load_torch():
    code = "import sys, bench.report.tables.render, bench.report.figures.bar_charts; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_footnotes_give_the_communication_cost(record):
    chosen = {"a": Chosen("a", "best-val", {"lr": 0.1}, (record([0.5, 0.7]), record([0.6, 0.8])), (1, 2), 1, 0.1)}
    table = build(TableSpec("t", "T", "d", "accuracy", (Row("A", "a"),)), chosen)
    assert "Communication cost (floats uploaded / downloaded per client and round): A 14 / 1,400." in table.footnotes
