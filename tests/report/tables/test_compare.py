from __future__ import annotations

import pytest

from bench.report.tables import compare
from bench.report.tables.build import build
from bench.report.tables.rank_tests import rank_table
from bench.report.tables.table import Row, TableSpec
from bench.report.tables.verdicts import verdict
from bench.spec import Number
from bench.types import SilobenchError


@pytest.mark.parametrize(
    ("ours", "radius", "printed", "printed_radius", "silo", "printed_silo", "expected"),
    [
        (0.74, 0.02, 0.72, 0.0, 0.70, 0.75, "agrees"),  # inside the radii, whatever silo says
        (0.75, 0.03, 0.72, 0.0, None, None, "agrees"),  # on the border, where 0.75 - 0.72 > 0.03 in floats
        (0.74, 0.005, 0.72, 0.015, None, None, "agrees"),  # both radii count
        (0.80, 0.01, 0.75, None, 0.70, 0.70, "same side"),  # both above their silo
        (0.60, None, 0.65, None, 0.70, 0.70, "same side"),  # both below
        (0.80, 0.01, 0.75, 0.01, 0.70, 0.78, "off"),  # ours above, printed below
        (0.80, 0.01, 0.75, 0.01, 0.80, 0.70, "off"),  # ours level with silo, printed above
        (0.80, 0.01, 0.75, 0.01, 0.70, None, "off"),  # no printed silo
    ],
)
def test_verdict(ours, radius, printed, printed_radius, silo, printed_silo, expected):
    assert verdict(ours, radius, printed, printed_radius, silo, printed_silo) == expected


ROWS = (
    Row("FedAvg", "fedavg"),
    Row("FENDA-FL", "fenda", checkpoints=("local",)),
    Row("Silo", "local", checkpoints=("local",)),
    Row("Central", "central", checkpoints=("local",)),
)
SPEC = TableSpec("fenda/2", "Table 2", "heart", "accuracy", ROWS, baselines=("Central",))


@pytest.fixture
def chosen(choice):
    return {
        "fedavg": choice([0.70, 0.70], [0.70, 0.72]),
        "fenda": choice([0.88, 0.90], [0.90, 0.90]),
        "local": choice([0.74, 0.76], [0.76, 0.76]),
        "central": choice([0.97, 0.95], [0.96, 0.97]),
    }


def printed(**means):
    names = {"fedavg_global": ("FedAvg", "global"), "fedavg": ("FedAvg", "local"), "fenda": ("FENDA-FL", "local")}
    names |= {"silo": ("Silo", "local"), "central": ("Central", "local")}
    places = {name: names[name] for name in means}
    return [Number(*places[name], mean, 0.0) for name, mean in means.items()]


def test_every_printed_cell_gets_a_verdict_and_only_those(chosen):
    table = build(SPEC, chosen, printed(fedavg=0.60, fenda=0.90, silo=0.99, central=0.80))
    verdicts = {(cell.method, cell.checkpoint): cell.verdict for cell in table.overall}
    assert verdicts == {
        ("FedAvg", "global"): "",
        ("FedAvg", "local"): "same side",  # both below their silo
        ("FENDA-FL", "local"): "agrees",
        ("Silo", "local"): "off",  # silo itself has no side
        ("Central", "local"): "off",  # above our silo, below the printed one
    }


def test_asterisks_leave_out_silo_and_baselines(chosen):
    table = build(SPEC, chosen, printed(fenda=0.90, silo=0.75, central=0.95))
    starred = {cell.method: (cell.above_silo, cell.printed_above_silo) for cell in table.overall}
    assert starred == {
        "FedAvg": (False, False),
        "FENDA-FL": (True, True),
        "Silo": (False, False),
        "Central": (False, False),  # far above, but no federated strategy
    }


def test_agreement_by_hand(chosen):
    # Ours: FedAvg .705, FENDA .895, Silo .755, Central .9625. Printed, better checkpoint: FedAvg .724, Silo .748.
    numbers = printed(fedavg_global=0.700, fedavg=0.724, fenda=0.815, silo=0.748, central=0.732)
    found = compare.agreement(build(SPEC, chosen, numbers))
    # Orders, best first: ours Central FENDA Silo FedAvg; printed FENDA Silo Central FedAvg. Two of six pairs turn.
    assert (found.methods, found.orderings) == (4, (4, 6))
    assert found.broken == ("FENDA-FL over Central", "Silo over Central")
    assert any("4 of 6 printed orderings of 4 methods hold (not FENDA-FL over Central, Silo over Central), rank" in line
               for line in build(SPEC, chosen, numbers).footnotes)  # fmt: skip
    # Spearman: rank differences 0, 1, 1, 2 make 1 - 6 * 6 / (4 * 15).
    assert found.correlation.spearman == pytest.approx(0.4)


def test_agreement_counts_cells_and_asterisks_and_the_footnotes_says_so(chosen):
    # Ours against silo .755 +- .064: FedAvg .705 +- .064 below, FENDA .895 +- .064 above by both radii.
    numbers = printed(fedavg_global=0.90, fedavg=0.70, fenda=0.89, silo=0.75, central=0.95)
    table = build(SPEC, chosen, numbers)
    found = compare.agreement(table)
    assert found.cells == (4, 5)  # all but FedAvg's server model
    assert found.asterisks == (1, 2)  # printed: that one and FENDA
    assert any(
        "4 of 5 cells agree, 0 more are on the same side; 1 of 2 printed asterisks hold;" in t for t in table.footnotes
    )
    assert any("rank correlation 0.40 (Spearman), 0.33 (Kendall)" in text for text in table.footnotes)


def test_a_printed_tie_is_no_ordering_and_our_tie_holds_none(choice, chosen):
    tied = chosen | {"fenda": chosen["fedavg"]}
    found = compare.agreement(build(SPEC, tied, printed(fedavg=0.7, fenda=0.8, silo=0.8)))
    assert found.orderings == (1, 2)


def test_methods_without_a_number_are_not_counted_as_ordered(choice, chosen):
    broken = chosen | {"fenda": choice(None, [0.9, 0.9])}
    found = compare.agreement(build(SPEC, broken, printed(fedavg=0.7, fenda=0.8, silo=0.75)))
    assert (found.cells.of, found.methods, found.orderings.of) == (3, 2, 1)
    assert found.correlation is None


def test_nothing_printed_nothing_compared(chosen):
    table = build(SPEC, chosen)
    assert compare.agreement(table) is None
    assert not any("Verdict" in line for line in table.footnotes)


RANKED = (
    Row("FedAvg", "fedavg"),
    Row("Silo", "local", checkpoints=("local",)),
    Row("Client 0", "local", "model 0", ("local",)),
    Row("Central", "central", checkpoints=("local",)),
)


def ranked(record, choice, **others):
    everywhere = record([0.6, 0.6, 0.6], everywhere=[0.6, 0.5, 0.5])
    pooled = record([0.8], everywhere=[0.8, 0.9, 0.7])
    pooled |= {"clients": everywhere["clients"], "test_sizes": everywhere["test_sizes"]}
    chosen = {
        "fedavg": choice([0.7, 0.7, 0.9], [0.7, 0.7, 0.9]),
        "local": choice(everywhere),
        "central": choice(pooled),
    }
    return build(TableSpec("quick", "Quick", "digits", "accuracy", RANKED, ranks=True), chosen | others)


def test_ranks_block_by_client_and_leave_out_single_clients(record, choice):
    report = rank_table(ranked(record, choice))
    # FedAvg, Silo, Central on the three clients: ranks (2 3 1), (2 3 1), (1 3 2).
    assert report.methods == ("FedAvg", "Silo", "Central")
    assert report.blocks == 3
    assert report.average == pytest.approx([5 / 3, 3.0, 4 / 3])


def test_ranks_drop_clients_on_which_a_method_is_undefined(record, choice):
    table = ranked(record, choice, fedavg=choice([0.7, None, 0.9], [0.7, None, 0.9]))
    report = rank_table(table)
    assert any("Average ranks over the 2 of 3 clients with a value of every method" in text for text in table.footnotes)
    assert report.blocks == 2
    assert report.average == pytest.approx([1.5, 3.0, 1.5])


def test_ranks_refuse_a_missing_run_and_the_table_says_so(record, choice):
    table = ranked(record, choice, fedavg=choice([0.7, 0.7, 0.9], None))
    with pytest.raises(SilobenchError, match="FedAvg has missing 1/2"):
        rank_table(table)
    assert "Ranks: none; rank tests need every run, and FedAvg has missing 1/2; run it again first." in table.footnotes


def test_the_footnotes_prints_the_rank_tests(record, choice):
    foot = "\n".join(ranked(record, choice).footnotes)
    assert "Average ranks over 3 clients" in foot
    assert "Central 1.33, FedAvg 1.67, Silo 3.00" in foot
    assert "Friedman: chi2(2) = 4.67" in foot
    assert "F(2, 4) = 7.00" in foot
