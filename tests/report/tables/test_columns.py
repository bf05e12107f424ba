"""Clients as columns, other values than the mean, other centers and intervals, and metrics of which less is better."""

from __future__ import annotations

import pytest

from bench.report import statistics
from bench.report.tables import compare, render
from bench.report.tables.build import build
from bench.report.tables.rank_tests import rank_table
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number
from bench.types import SilobenchError, SpecError

ROWS = (Row("FedAvg", "fedavg", checkpoints=("local",)), Row("Silo", "local", checkpoints=("local",)))


def spec(*rows, metric="accuracy", **options):
    return TableSpec("paper/15", "Table 15", "covertype", metric, rows or ROWS, **options)


@pytest.fixture
def chosen(choice):
    return {
        "fedavg": choice([0.9, 0.6, 0.5], [0.8, 0.6, 0.5]),
        "local": choice([0.5, 0.6, 0.7], [0.5, 0.6, 0.9]),
    }


def scored(record, metric, *scores):
    """A run with another metric than accuracy."""
    run = record(list(scores))
    run["scores"] = [[rule, model, client, metric, value] for rule, model, client, _, value in run["scores"]]
    return run


class TestClients:
    """Global Layers, Tables 15 to 17."""

    PRINTED = (
        Number("FedAvg", "local", 0.85, 0.01, "north"),
        Number("FedAvg", "local", 0.4, None, "2"),
        Number("Silo", "local", 0.5, None, "north"),
        Number("Silo", "local", 0.8, None, "west"),
    )

    def test_printed_numbers_stand_beside_the_client_they_name(self, chosen):
        table = build(spec(columns="clients"), chosen, self.PRINTED)
        assert [(cell.client, cell.printed) for cell in table.cells] == [
            ("all", None), ("0", 0.85), ("1", None), ("2", 0.4), ("all", None), ("0", 0.5), ("1", None), ("2", 0.8),
        ]  # fmt: skip
        assert table.cell("FedAvg", "local", "0").verdict == "agrees"
        # .5 against .4: no radius on either side, but both below their own silo on that client.
        assert table.cell("FedAvg", "local", "2").verdict == "same side"

    def test_methods_are_ordered_within_each_client(self, chosen):
        found = compare.agreement(build(spec(columns="clients"), chosen, self.PRINTED))
        assert found.cells.of == 4
        assert found.orderings == (2, 2)
        assert found.correlation is None

    def test_what_does_not_hold_is_said_with_the_clients_where(self, chosen):
        turned = [Number("FedAvg", "local", 0.4, None, client) for client in ("north", "west")]
        turned += [Number("Silo", "local", 0.9, None, client) for client in ("north", "west")]
        found = compare.agreement(build(spec(columns="clients"), chosen, turned))
        assert (found.orderings, found.broken) == ((1, 2), ("Silo over FedAvg (north)",))

    def test_every_client_has_its_asterisks(self, choice):
        runs = {"fedavg": choice([0.9, 0.6], [0.9, 0.6]), "local": choice([0.5, 0.6], [0.5, 0.6])}
        table = build(spec(columns="clients"), runs)
        assert [cell.above_silo for cell in table.cells[:3]] == [True, True, False]

    def test_text_has_a_line_and_files_have_a_column_for_each_client(self, chosen):
        table = build(spec(columns="clients"), chosen, self.PRINTED)
        text = render.render(table)
        assert "Method  Checkpoint  Client  Ours" in text
        assert any(line.split()[:3] == ["FedAvg", "Local", "north"] for line in text.splitlines())
        assert "| Method | Mean | north | south | west |" in render.document(table, "md")
        headings, rows = render.layout(table)
        assert headings == ["Mean", "north", "south", "west"]
        assert [cell.ours.split()[0] for cell in rows[0][1]] == ["0.650", "0.850", "0.600", "0.500"]

    def test_a_row_printed_of_something_else_has_no_verdict(self, chosen):
        fedavg, silo = ROWS
        printed = [Number(row.method, "local", 0.3, client="north") for row in ROWS]
        table = build(spec(fedavg, silo.model_copy(update={"compared": False}), columns="clients"), chosen, printed)
        assert (table.cell("FedAvg", "local", "0").verdict, table.cell("Silo", "local", "0").verdict) == ("agrees", "")
        assert table.cell("Silo", "local", "0").printed == 0.3
        assert any(line.startswith("Agreement: 1 of 1 cells agree") for line in table.footnotes)

    def test_a_printed_client_that_is_none_is_named(self, chosen):
        with pytest.raises(SpecError, match="on client 'noth': did you mean 'north'"):
            build(spec(columns="clients"), chosen, [Number("FedAvg", "local", 0.5, None, "noth")])

    def test_without_records_the_clients_are_unknown(self, choice):
        lost = {"fedavg": choice(None), "local": choice(None)}
        table = build(spec(columns="clients"), lost, self.PRINTED)
        assert [cell.note for cell in table.incomplete] == ["missing 1/1"] * 2


class TestValues:
    def test_fairness_is_the_variance_of_the_clients_medians(self, choice):
        runs = choice([0.2, 0.6], [0.4, 0.6], [0.3, 0.9])  # medians .3 and .6
        table = build(spec(ROWS[0], value="fairness"), {"fedavg": runs})
        (cell,) = table.cells
        assert cell.mean == pytest.approx(0.15**2)
        assert (cell.ci95, cell.n_seeds) == (None, 3)
        assert table.spec.sign == -1
        assert any("variance over clients" in line for line in table.footnotes)

    def test_participation_counts_clients_better_than_alone_and_with_fedavg(self, choice):
        chosen = {"ditto": choice([0.7, 0.7, 0.7]), "local": choice([0.6, 0.8, 0.6]), "fedavg": choice([0.5, 0.5, 0.7])}
        row = Row("Ditto", "ditto", checkpoints=("local",))
        table = build(spec(row, value="participation", against=("local", "fedavg")), chosen)
        assert table.cell("Ditto", "local").mean == pytest.approx(1 / 3)

    def test_participation_by_losses_counts_lower_ones(self, record, choice):
        chosen = {
            name: choice(scored(record, "loss", *scores))
            for name, scores in (("ditto", [0.3, 0.9]), ("local", [0.4, 0.4]), ("fedavg", [0.5, 0.5]))
        }
        row = Row("Ditto", "ditto", checkpoints=("local",))
        table = build(spec(row, metric="loss", value="participation", against=("local", "fedavg")), chosen)
        assert table.cell("Ditto", "local").mean == 0.5
        assert table.spec.sign == 1

    def test_a_missing_run_of_what_it_is_held_against_takes_the_number_away(self, choice):
        chosen = {"ditto": choice([0.7]), "local": choice(None), "fedavg": choice([0.5])}
        row = Row("Ditto", "ditto", checkpoints=("local",))
        table = build(spec(row, value="participation", against=("local", "fedavg")), chosen)
        assert table.cell("Ditto", "local").note == "missing 1/3"

    def test_counts_are_those_of_the_records_and_know_no_better(self, record, choice):
        chosen = {
            "fedavg": choice(record([0.5, 0.5], parameters=151)),
            "local": choice(record([0.4, 0.4], parameters=14)),
        }
        table = build(spec(value="parameters", digits=0), chosen)
        assert [cell.mean for cell in table.cells] == [151, 14]
        assert not any(cell.above_silo for cell in table.cells)
        down = build(spec(value="floats_down"), chosen)
        assert {cell.mean for cell in down.cells} == {1400}

    def test_parameters_of_models_that_differ_stand_by_client(self, record, choice):
        chosen = {
            "fedavg": choice(record([0.5, 0.5], parameters=151, client_parameters=[151, 121])),
            "local": choice(record([0.4, 0.4], parameters=14, client_parameters=[14])),  # pooled: one model
        }
        table = build(spec(value="parameters", columns="clients"), chosen)
        assert [(cell.client, cell.mean) for cell in table.cells] == [
            *(("all", 136), ("0", 151), ("1", 121)),
            *(("all", 14), ("0", 14), ("1", 14)),
        ]

    def test_counts_agree_or_do_not_and_order_nothing(self, record, choice):
        chosen = {
            "fedavg": choice(record([0.5, 0.5], parameters=151)),
            "local": choice(record([0.4, 0.4], parameters=14)),
        }
        printed = [Number("FedAvg", "local", 152), Number("Silo", "local", 14)]
        table = build(spec(value="parameters", digits=0), chosen, printed)
        assert [cell.verdict for cell in table.cells] == ["off", "agrees"]
        assert "Agreement: 1 of 2 cells agree." in table.footnotes

    def test_a_record_from_before_they_were_counted_is_refused(self, record, choice):
        chosen = {name: choice(record([0.5, 0.5], parameters=151)) for name in ("fedavg", "local")}
        with pytest.raises(
            SpecError, match="has no count of parameters by client, because it is from an older version; train it again"
        ):
            build(spec(value="parameters", columns="clients"), chosen)


class TestCenters:
    def test_median_with_a_bootstrap(self, choice):
        runs = choice([0.1, 0.3], [0.3, 0.5], [0.9, 0.9])
        table = build(spec(ROWS[0], center="median", interval="bootstrap"), {"fedavg": runs})
        cell = table.cell("FedAvg", "local")
        assert cell.mean == pytest.approx(0.4)
        assert cell.ci95 == statistics.bootstrap([0.2, 0.4, 0.9], "median").radius
        assert cell.normal95 is None
        assert any("half the width of the 95 % bootstrap interval of the median" in line for line in table.footnotes)

    def test_a_normal_interval(self, choice):
        runs = choice([0.1, 0.3], [0.3, 0.5])
        cell = build(spec(ROWS[0], interval="normal"), {"fedavg": runs}).cell("FedAvg", "local")
        assert cell.ci95 == pytest.approx(1.959964 * 0.141421 / 2**0.5, rel=1e-5)  # 1.96 SD / sqrt(n)

    def test_clients_can_count_by_their_test_samples(self, record, choice):
        runs = choice(record([0.9, 0.1], sizes=[30, 10]))
        row = ROWS[0]
        assert build(spec(row, weights="test_size"), {"fedavg": runs}).cell("FedAvg", "local").mean == pytest.approx(
            0.7
        )
        assert build(spec(row), {"fedavg": runs}).cell("FedAvg", "local").mean == pytest.approx(0.5)

    def test_test_samples_may_differ_from_seed_to_seed(self, record, choice):
        runs = choice(record([0.9, 0.1], sizes=[30, 10]), record([0.9, 0.1], sizes=[20, 20]))
        assert build(spec(ROWS[0]), {"fedavg": runs}).cell("FedAvg", "local").n_seeds == 2


class TestLosses:
    @pytest.fixture
    def table(self, record, choice):
        chosen = {
            "fedavg": choice(*[scored(record, "loss", 0.2, 0.3)] * 2),
            "local": choice(*[scored(record, "loss", 0.6, 0.7)] * 2),
        }
        printed = [Number("FedAvg", "local", 0.3, 0.01), Number("Silo", "local", 0.65, 0.01)]
        return build(spec(metric="loss", ranks=True), chosen, printed)

    def test_an_asterisk_is_for_less(self, table):
        assert [cell.above_silo for cell in table.overall] == [True, False]
        assert [cell.printed_above_silo for cell in table.overall] == [True, False]
        assert any("* Better than Silo: the confidence intervals do not overlap." in line for line in table.footnotes)

    def test_less_ranks_first_and_orders_hold(self, table):
        assert list(rank_table(table).average) == [1.0, 2.0]
        assert compare.agreement(table).orderings == (1, 1)


class TestCurves:
    """APPLE: the round is picked by test samples, or by validation."""

    @pytest.fixture
    def runs(self, record, choice):
        curves = {"rounds": [1, 2, 3], "scores": {"accuracy": [[0.5, 0.5], [0.9, 0.7], [0.6, 0.6]]}}
        return {"apple": choice(record([0.6, 0.6], curves=curves, aggregated=[0.9, 0.8, 0.1]))}

    def test_the_oracle_and_its_twin_are_columns(self, runs):
        row = Row("APPLE", "apple", checkpoints=("best-test (oracle)", "best-val"))
        table = build(spec(row), runs, [Number("APPLE", "best-test (oracle)", 0.81)])
        oracle, twin = table.cell("APPLE", "best-test (oracle)"), table.cell("APPLE", "best-val")
        assert (oracle.mean, twin.mean) == (pytest.approx(0.8), pytest.approx(0.6))
        assert oracle.printed == 0.81
        assert table.cell("APPLE", "best-test (oracle)", "0").mean == 0.9
        assert any("test samples select the round" in line for line in table.footnotes)
        assert "Best test round (oracle)" in render.document(table, "html")

    def test_a_table_of_the_oracle_alone_is_titled_so(self, runs):
        row = Row("APPLE", "apple", checkpoints=("best-test (oracle)",))
        assert build(spec(row), runs).title == "Table 15 (oracle)"

    def test_no_curve_no_number(self, record, choice):
        runs = {"a": choice(record([0.5, 0.5], curves={}, aggregated=[0.1]))}
        with pytest.raises(SilobenchError, match="set test_every"):
            build(spec(Row("A", "a", checkpoints=("best-val",))), runs)


class TestProfiles:
    def test_a_profile_is_in_the_title_and_agrees_with_nothing(self, chosen):
        printed = [Number("FedAvg", "local", 0.65, 0.1), Number("Silo", "local", 0.6)]
        table = build(spec(profile="short", searched=("Search: none.",)), chosen, printed)
        assert table.title == "Table 15 (short profile)"
        assert {cell.verdict for cell in table.cells} == {""}
        assert compare.agreement(table) is None
        assert table.cell("FedAvg", "local").printed == 0.65
        assert any(line.startswith("Profile short:") for line in table.footnotes)
        assert "Search: none." in table.footnotes


def test_a_row_may_have_a_metric_of_its_own(record, choice):
    run = record([0.5, 0.7])
    run["scores"] += [[rule, model, client, "auroc_present", 0.9] for rule, model, client, _, _ in run["scores"]]
    rows = (ROWS[0], Row("FedAvg (present)", "fedavg", checkpoints=("local",), metric="auroc_present"))
    table = build(spec(*rows), {"fedavg": choice(run)})
    assert [cell.mean for cell in table.overall] == [pytest.approx(0.6), pytest.approx(0.9)]
    assert set(table.frame().query("method == 'FedAvg (present)'")["metric"]) == {"auroc_present"}
