"""Numbers of a table's row: center, radius, lost runs, counts, and single clients."""

from __future__ import annotations

import pytest

from bench.report.tables.table import Cell, Row, TableSpec
from bench.report.tables.values import cells
from bench.types import SpecError

ROW = Row("A", "a", checkpoints=("local",))
EMPTY = Cell("A", "local")


def spec(**keys):
    return TableSpec("t", "T", "heart", "accuracy", (ROW,), silo=None, **keys)


def filled(choice, *runs, unscored=(), row=ROW, **keys):
    chosen = choice if isinstance(choice, dict) else {"a": choice(*runs)}
    return cells(spec(**keys), row, EMPTY, chosen, 2, unscored)


def test_a_cell_is_the_mean_over_clients_then_over_runs(choice):
    overall, north, south = filled(choice, [0.6, 0.8], [0.8, 0.8])
    assert (overall.client, north.client, south.client) == ("all", "0", "1")
    assert overall.mean == pytest.approx(0.75)
    assert overall.ci95 == pytest.approx(12.706 * 0.05, rel=1e-3)  # runs 0.7 and 0.8
    assert overall.normal95 == pytest.approx(1.96 * 0.05, rel=1e-3)
    assert (north.mean, south.mean, south.ci95) == pytest.approx((0.7, 0.8, 0.0))
    assert overall.n_seeds == 2


def test_one_run_has_no_interval(choice):
    overall = filled(choice, [0.6, 0.8])[0]
    assert (overall.mean, overall.ci95, overall.normal95) == (pytest.approx(0.7), None, None)


def test_the_interval_may_be_normal_or_a_bootstrap_of_the_median(choice):
    runs = [0.5, 0.5], [0.6, 0.6], [1.0, 1.0]
    normal = filled(choice, *runs, interval="normal")[0]
    assert normal.mean == pytest.approx(0.7)
    assert normal.ci95 == pytest.approx(1.96 * 0.2645751 / 3**0.5, rel=1e-4)
    assert normal.normal95 is None
    median = filled(choice, *runs, center="median", interval="bootstrap")[0]
    assert median.mean == pytest.approx(0.6)
    assert median.ci95 == pytest.approx(0.25)  # resampled medians reach from 0.5 to 1.0


def test_clients_can_count_by_their_test_samples(choice, record):
    overall = filled({"a": choice(record([0.5, 0.8], sizes=[10, 20]))}, weights="test_size")[0]
    assert overall.mean == pytest.approx(0.7)


def test_missing_and_diverged_runs_leave_no_number(choice, record):
    lost = filled(choice, [0.6, 0.8], None)
    assert [(cell.mean, cell.state, cell.note) for cell in lost] == [(None, "missing", "missing 1/2")] * 3
    diverged = record([0.6, 0.8], status="diverged")
    assert filled(choice, diverged, [0.6, 0.8])[0].note == "diverged 1/2"
    both = filled(choice, diverged, None)[0]
    assert (both.state, both.note) == ("missing", "missing 1/2, diverged 1/2")


def test_undefined_scores_are_left_out(choice):
    overall, north, south = filled(choice, [None, 0.8], [0.6, None])
    assert overall.mean == pytest.approx(0.7)
    assert (north.mean, north.n_seeds) == (0.6, 1)
    assert filled(choice, [None, 0.8])[1].state == "undefined"
    assert south.n_seeds == 1


def test_a_client_without_test_samples_has_a_note_instead_of_a_number(choice, record):
    run = record([0.6, 0.8])
    run["scores"] = [score for score in run["scores"] if score[2] == 0]
    _, north, south = filled({"a": choice(run)}, unscored={1})
    assert (north.mean, south.mean, south.state) == (0.6, None, "not scored")
    with pytest.raises(SpecError, match="the records hold no local accuracy on client 1"):
        filled({"a": choice(run)})


def test_fairness_is_the_variance_of_the_clients_medians(choice):
    (cell,) = filled(choice, [0.5, 0.9], [0.7, 0.9], [0.6, 0.8], value="fairness")
    assert cell.mean == pytest.approx(0.15**2)  # medians 0.6 and 0.9
    assert cell.ci95 is None


def test_participation_counts_clients_that_gain_over_both(choice):
    chosen = {"a": choice([0.7, 0.7]), "alone": choice([0.6, 0.8]), "fedavg": choice([0.5, 0.5])}
    (cell,) = filled(chosen, value="participation", against=("alone", "fedavg"))
    assert cell.mean == 0.5
    lost = filled(chosen | {"fedavg": choice(None)}, value="participation", against=("alone", "fedavg"))
    assert lost[0].state == "missing"


def test_counts_come_from_the_records(choice, record):
    runs = [record([0.5, 0.5], parameters=10, client_parameters=[8, 12]) for _ in range(2)]
    assert filled({"a": choice(*runs)}, value="floats_down")[0].mean == 1400
    assert filled({"a": choice(*runs)}, value="parameters")[0].mean == 10
    by_client = filled({"a": choice(*runs)}, value="parameters", columns="clients")
    assert [(cell.client, cell.mean) for cell in by_client] == [("all", 10), ("0", 8), ("1", 12)]
    pooled = record([0.5, 0.5], client_parameters=[9])
    assert [cell.mean for cell in filled({"a": choice(pooled)}, value="parameters", columns="clients")] == [9, 9, 9]
    with pytest.raises(SpecError, match="has no count of parameters by client"):
        filled({"a": choice(record([0.5, 0.5]))}, value="parameters", columns="clients")
