"""Kinds of claims, each on numbers that can be checked by hand, and messages for malformed claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bench.report.audit.claims import KINDS, ClaimResult, Printed, PrintedCell, half_unit, near
from bench.report.audit.findings import audit, audit_folder, document
from bench.report.audit.text import render
from bench.types import SpecError

HEAD = "table,dataset,metric,method,checkpoint,value,ci95,client,sd,mark"


def cell(value: float, ci95: float | None = None, **place) -> PrintedCell:
    given = {"table": "1", "dataset": "d", "metric": "accuracy", "method": "A", "checkpoint": "local", "client": "all"}
    own = {"sd": None, "marks": (), "digits": 3, "scale": 1} | {
        key: place.pop(key) for key in [*place] if key not in given
    }
    return PrintedCell(**given | place, value=value, ci95=ci95, **own)


def columns(
    values: dict[str, list[float]], told: dict[str, float] | None = None, digits: int = 3
) -> tuple[PrintedCell, ...]:
    """Methods by their values on data sets d0, d1 ..., and their printed mean ranks."""
    cells = [
        cell(value, dataset=f"d{i}", method=method, digits=digits)
        for method, own in values.items()
        for i, value in enumerate(own)
    ]
    return (*cells, *(cell(rank, dataset="mean_rank", method=method) for method, rank in (told or {}).items()))


def check(kind: str, rows=(), /, facts=None, groups=None, **arguments) -> ClaimResult:
    return KINDS[kind](Printed(facts or {}, tuple(rows), groups or {}), **arguments)


def fits(checked: ClaimResult) -> list[bool]:
    return [part.follows for part in checked.parts]


# Numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "unit"), [(4, 0.5), (40, 0.5), (7.5, 0.05), (0.9964, 5e-5), (1e-3, 5e-4), (4.0, 0.5)]
)
def test_half_a_unit_of_the_last_digit(number, unit):
    assert half_unit(number) == pytest.approx(unit)


def test_rounding_counts_halves_for_the_printed_number():
    assert near(0.8245, 0.82)
    assert near(0.825, 0.82)
    assert near(0.815, 0.82)
    assert not near(0.8251, 0.82)


def test_a_share_is_shown_as_the_paper_prints_it():
    share = cell(0.8829, digits=4, scale=100)
    assert (share.shown(), share.shown(0.5, more=1)) == ("88.29", "50.000")
    assert cell(4.1e-3, digits=-1).shown() == "4.1e-03"
    assert cell(0.724).shown(0.1) == "0.100"


# PrintedCell by cell -------------------------------------------------------------------------------------------------

TWO = (cell(0.8, 0.03, method="A"), cell(0.75, 0.03, method="B"))


@pytest.mark.parametrize(
    ("by", "follows"),
    [("value", True), ("radius", False), ("difference", True), ("overlap", True)],
)
def test_above_by(by, follows):
    """0.05 apart: less than both radii (0.06), more than the root of their squares (0.042)."""
    assert check("above", TWO, cells={"method": "A"}, than={"method": "B"}, by=by).follows is follows


def test_below_is_the_other_way_round():
    assert not check("above", TWO, cells={"method": "A"}, than={"method": "B"}, below=True).follows
    assert check("above", TWO, cells={"method": "B"}, than={"method": "A"}, below=True).follows
    assert check("above", TWO, cells={"method": "B"}, than={"method": "A"}, by="overlap").follows


def test_ties_are_not_above_unless_equal_will_do():
    tie = (cell(0.8, method="A"), cell(0.8, method="B"))
    assert not check("above", tie, cells={"method": "A"}, than={"method": "B"}).follows
    assert check("above", tie, cells={"method": "A"}, than={"method": "B"}, or_equal=True).follows


def test_a_method_counts_by_its_better_checkpoint_unless_one_is_named():
    cells = (
        cell(0.7, method="A", checkpoint="global"),
        cell(0.9, method="A", checkpoint="local"),
        cell(0.8, method="B"),
    )
    assert check("above", cells, cells={"method": "A"}, than={"method": "B"}).follows
    assert not check("above", cells, cells={"method": "A", "checkpoint": "global"}, than={"method": "B"}).follows


def test_only_the_best_of_several_or_named_pairs_or_enough_of_them():
    cells = (cell(0.9, method="A1"), cell(0.7, method="A2"), cell(0.8, method="B1"), cell(0.6, method="B2"))
    both = {"cells": {"method": "a"}, "than": {"method": "b"}}
    groups = {"a": ["A1", "A2"], "b": ["B1", "B2"]}
    assert fits(check("above", cells, groups=groups, **both)) == [True, True, False, True]
    assert check("above", cells, groups=groups, best=True, **both).follows
    assert fits(check("above", cells, groups=groups, pairs=[("A2", "B2")], **both)) == [True]
    assert check("above", cells, groups=groups, at_least=3, **both).follows
    assert not check("above", cells, groups=groups, at_least=4, **both).follows


def test_cells_of_different_columns_are_not_compared():
    cells = (cell(0.9, method="A"), cell(0.8, method="B", dataset="e"))
    with pytest.raises(SpecError, match="can be compared"):
        check("above", cells, cells={"method": "A"}, than={"method": "B"})


def test_an_interval_that_is_not_printed_compares_with_nothing():
    cells = (cell(0.9, method="A"), cell(0.8, method="B"))
    with pytest.raises(SpecError, match="no ci95 is printed for 1, d, accuracy, A, local"):
        check("above", cells, cells={"method": "A"}, than={"method": "B"}, by="radius")


def test_marks_stand_on_the_best_or_on_another_place():
    cells = (cell(0.9, method="A"), cell(0.8, method="B", marks=("bold",)), cell(0.7, method="C"))
    (part,) = check("marked", cells, cells={}, mark="bold").parts
    assert (part.printed, part.recomputed, part.follows) == ("B 0.800", "A 0.900", False)
    assert check("marked", cells, cells={}, mark="bold", place=2).follows
    assert not check("marked", cells, cells={}, mark="bold", below=True).follows
    assert check("marked", cells[1:], cells={}, mark="bold").follows
    (part,) = check("marked", cells, cells={}, mark="underline").parts
    assert part.printed == "no underline"


def test_one_of_several_best_may_carry_the_mark():
    tie = (cell(0.9, method="A", marks=("bold",)), cell(0.9, method="B"))
    assert check("marked", tie, cells={}, mark="bold").follows


def test_stars():
    star = ("star",)
    cells = (
        cell(0.50, 0.01, method="Silo"),
        cell(0.53, 0.01, method="A", marks=star),  # 0.52 > 0.51
        cell(0.52, 0.01, method="B", marks=star),  # an exact tie
        cell(0.51, 0.01, method="C", marks=star),
        cell(0.53, 0.01, method="D"),
        cell(0.51, 0.01, method="E"),
        cell(0.60, 0.01, method="Central"),
    )
    checked = check("starred", cells, cells={}, never=("Central",))
    assert fits(checked) == [True, True, False, False, True]
    assert checked.why == "5 cells; 1 star on an exact tie; 1 of Central pass the rule without a star"


def test_averages_round_to_what_is_printed():
    cells = (cell(0.60, client="0"), cell(0.65, client="1"), cell(0.62, table="2", digits=2))
    of, equals = {"table": "1"}, {"table": "2"}
    assert check("average", cells, of=of, equals=equals).follows  # 0.625
    assert check("average", cells, of=of, equals=0.62, each=()).follows
    assert not check("average", cells, of=of, equals=0.61, each=()).follows
    parts = check("average", cells, of=[{"table": "1", "client": "1"}], equals=0.65).parts
    assert [part.recomputed for part in parts] == ["0.6500"]


def test_tables_that_repeat_each_other():
    cells = (cell(0.5, 0.01, method="A, all"), cell(0.5, 0.02, table="2"), cell(0.6, table="2", method="B"))
    (part,) = check("same", cells, cells={"table": "1"}, others={"table": "2"}, called={"A, all": "A"}).parts
    assert not part.follows  # another radius
    with pytest.raises(SpecError, match="no cell in common"):
        check("same", cells, cells={"table": "1"}, others={"table": "2"})


def test_rows_that_are_alike():
    cells = columns({"A": [0.1, 0.2, 0.3], "B": [0.1, 0.2, 0.4], "C": [0.1, 0.5, 0.6]})
    (part,) = check("distinct", cells, cells={}, columns=("value",), at_most=1).parts
    assert (part.what, part.recomputed) == ("A and B", "2 of 3 alike")
    assert check("distinct", cells, cells={}, columns=("value",), at_most=2).follows


def test_deviations_copied_from_another_table():
    cells = (
        *(cell(0.8, 0.1, sd=0.2, client=name, table="1") for name in "ab"),
        cell(0.7, 0.1, sd=0.2, client="a", table="2", metric="auroc"),
        cell(0.7, 0.1, sd=0.3, client="b", table="2", metric="auroc"),
    )
    (part,) = check("distinct", cells, cells={}, of="table", columns=("sd", "ci95"), at_most=0).parts
    assert (part.what, part.recomputed) == ("Tables 1 and 2", "1 of 2 alike: a")


def test_intervals_are_normal_and_know_that_deviations_are_rounded():
    sd, n = 0.1555, 21
    radius = round(1.959964 * sd / math.sqrt(n), 4)
    good, slip = (cell(0.797, each, sd=sd, digits=4, client=str(i)) for i, each in enumerate((radius, radius - 2e-4)))
    checked = check("interval", (good, slip), cells={}, runs={"d": n})
    assert fits(checked) == [True, False]
    assert checked.why == "normal intervals fit 1 of 2 radii, t intervals 0"


def test_lift_over_the_better_and_the_worse():
    cells = [
        cell(value, method=method, client=client, scale=100)
        for client, values in {"a": (0.90, 0.80, 0.70), "b": (0.60, 0.40, 0.50)}.items()
        for method, value in zip("XYZ", values, strict=True)
    ]
    own = {"method": "X", "others": ["Y", "Z"], "table": "1", "value": "lift"}
    for over, told in (("better", 10), ("worse", 20)):
        assert check("lift", cells, {"lift": {"d": {"accuracy": told}}}, over=over, **own).follows
    assert not check("lift", cells, {"lift": {"d": {"accuracy": 10.6}}}, over="better", **own).follows
    nearly = {"lift": {"d": {"accuracy": 11}}}
    assert not check("lift", cells, nearly, over="better", **own).follows
    assert check("lift", cells, nearly, over="better", about=("d.accuracy",), **own).follows
    assert check("lift", cells, {"lift": 12.5}, over="better", relative=True, client="a", **own).follows


def test_what_is_not_printed_cannot_be_checked():
    assert check("unprinted", because="drawn") == ClaimResult((), None, "drawn")


# Ranks --------------------------------------------------------------------------------------------------------

# On d0 A > B = C, on d1 A = B > C: mean ranks 1.25, 2, 2.75; as far as rounding goes A has 1 to 1.5.
RANKED = {"A": [0.9, 0.8], "B": [0.7, 0.8], "C": [0.7, 0.6]}


def test_mean_ranks_share_ties_and_rounding_may_break_them():
    told = {"A": 1.5, "B": 2.0, "C": 3.0}
    checked = check("mean_rank", columns(RANKED, told), cells={})
    assert fits(checked) == [True, True, True]
    assert checked.parts[0].recomputed == "1.25 (1.00 to 1.50 by rounding)"
    checked = check("mean_rank", columns(RANKED, told), cells={}, exact=True)
    assert fits(checked) == [False, True, False]
    assert checked.why == "1 of 3 follow"


def test_lower_is_better():
    told = {"A": 2.8, "B": 2.0, "C": 1.2}
    assert check("mean_rank", columns(RANKED, told), cells={}, lower=True, exact=True).follows
    assert not check("mean_rank", columns(RANKED, told), cells={}, exact=True).follows


def test_the_misprint_that_explains_more():
    """B's 0.04 was printed as 0.004, which made it the least."""
    right = {"A": [0.03, 0.03], "B": [0.04, 0.04], "C": [0.05, 0.05], "D": [0.06, 0.06]}
    told = {"A": 1.0, "B": 2.0, "C": 3.0, "D": 4.0}
    assert check("mean_rank", columns(right, told), cells={}, lower=True).follows
    wrong = right | {"B": [0.04, 0.004]}
    checked = check("mean_rank", columns(wrong, told), cells={}, lower=True, misprint="power of ten")
    assert checked.why == "2 of 4 follow; 4 would if B on d1 had 0.04 for 0.004"


def test_no_slip_is_named_where_several_explain_as_much():
    told = {"A": 1.5, "B": 1.5}
    cells = columns({"A": [0.9, 0.9], "B": [0.8, 0.8]}, told)
    assert check("mean_rank", cells, cells={}, misprint="other value").why == "0 of 2 follow"


@given(arrays.arrays(np.int64, st.tuples(st.integers(2, 5), st.integers(2, 6)), elements=st.integers(0, 4)))
def test_true_mean_ranks_always_follow(values):
    """Rounded to a digit they follow from exact values, and from every coarser print of them."""
    ranks = scipy.stats.rankdata(-values, axis=1).mean(axis=0).round(1)
    told = {f"m{i}": float(rank) for i, rank in enumerate(ranks)}
    exact = columns({f"m{i}": [float(value) for value in column] for i, column in enumerate(values.T)}, told)
    assert check("mean_rank", exact, cells={}, exact=True).follows
    coarse = columns({f"m{i}": [float(value // 2) for value in column] for i, column in enumerate(values.T)}, told)
    assert check("mean_rank", coarse, cells={}).follows


def test_friedman_is_scipys_and_the_printed_p_may_be_a_bound():
    rng = np.random.default_rng(0)
    values = rng.permuted(np.tile(np.arange(5.0), (7, 1)), axis=1)
    cells = columns({f"m{i}": list(column) for i, column in enumerate(values.T)})
    p = scipy.stats.friedmanchisquare(*values.T).pvalue
    for told, follows in ((f"{p:.3f}", True), (f"< {p * 1.01}", True), (f"< {p * 0.99}", False), ("0.999", False)):
        (part,) = check("friedman", cells, {"p": told}, cells={}, p="p").parts
        assert (part.recomputed, part.follows) == (f"{p:.3g}", follows)
    with pytest.raises(SpecError, match="expected a p-value"):
        check("friedman", cells, {"p": "small"}, cells={}, p="p")


def test_who_leads_and_whether_it_is_more_than_chance():
    values = {"A": [0.9] * 8, "B": [0.8] * 8, "C": [0.7] * 8}
    cells = columns(values, {"A": 1.0, "B": 2.0, "C": 3.0})
    assert check("leads", cells, cells={}, method="A").follows
    assert not check("leads", cells, cells={}, method="B").follows
    # Nemenyi's critical difference of 3 methods on 8 data sets is 2.343 sqrt(3 x 4 / (6 x 8)) = 1.17.
    assert fits(check("significantly_better", cells, cells={}, method="A")) == [False, True]


def test_ranks_need_every_value():
    cells = [each for each in columns(RANKED) if (each.method, each.dataset) != ("B", "d1")]
    with pytest.raises(SpecError, match="nothing is printed of B on d1"):
        check("mean_rank", cells, cells={})


# Counts -------------------------------------------------------------------------------------------------------


def test_counted_says_when_all_is_printed_twice():
    facts = {"n": [20, 8]}
    items = [{"what": "a", "printed": "n.0", "counted": 10}, {"what": "b", "printed": "n.1", "counted": 2, "times": 2}]
    checked = check("counted", facts=facts, items=_items("counted", items))
    assert fits(checked) == [False, False]
    assert checked.why == "all are printed 2 times as large"


def _items(kind: str, items: list[dict]):
    """Items as a claim has them once it is read."""
    from bench.report.audit import count_claims

    form = {"counted": "CountedItem", "weights": "ChainItem", "seeds": "SeedsItem", "equal": "OtherItem"}[kind]
    return [getattr(count_claims, form)(**item) for item in items]


def test_weights_of_assumed_widths_refute_nothing():
    """3 x 2 + 2 x 1 = 8 weights and 3 biases."""
    for told, follows in ((11, True), (8, None)):
        items = _items("weights", [{"what": "net", "printed": told, "chains": [[3, 2, 1]]}])
        checked = check("weights", items=items)
        assert checked.follows is follows
    assert checked.why == "widths are assumed; with their biases left out 1 of 1 are as printed"


@pytest.mark.parametrize(
    ("ranges", "runs", "follows"),
    [
        ([[8, 28], [0, 101]], [21, 101], [True, False]),  # neither reading gives both
        ([[8, 28], [0, 100]], [21, 101], [True, True]),
        ([[8, 29], [0, 101]], [21, 101], [True, True]),
    ],
)
def test_seeds_are_read_in_one_way(ranges, runs, follows):
    items = [{"what": str(i), "printed": n, "seeds": f"ranges.{i}"} for i, n in enumerate(runs)]
    assert fits(check("seeds", facts={"ranges": ranges}, items=_items("seeds", items))) == follows


def test_sums_by_row_and_by_column():
    rows = {"a": {"x": 1, "y": 2, "sum": 3}, "b": {"x": 4, "y": 5, "sum": 8}, "all": {"x": 5, "y": 7, "sum": 12}}
    assert fits(check("total", facts={"rows": rows}, rows="rows", of=["x", "y"], equals="sum")) == [True, False, True]
    columns = check("column_total", facts={"rows": rows}, rows="rows", of=["x", "y", "sum"], equals="all")
    assert [(part.recomputed, part.follows) for part in columns.parts] == [("5", True), ("7", True), ("11", False)]
    assert check("adds_up", facts={"lists": [[1, 2], [3]]}, of=["lists.0", "lists.1"], equals=6).follows


def test_shared_entries():
    parts = check("disjoint", facts={"a": ["x", "y"], "b": ["y"], "c": ["z"]}, lists=["a", "b", "c"]).parts
    assert [part.recomputed for part in parts] == ["y", "nothing shared", "nothing shared"]


def test_chosen_values_were_tried():
    facts = {"chosen": {"d": {"lr": 0.1, "name": "cos"}}, "grid": {"lr": [0.01, 0.1], "name": ["exp"]}}
    assert fits(check("on_grid", facts=facts, chosen="chosen", grid="grid")) == [True, False]
    facts = {"chosen": {"d": {"A": 0.1, "B": 0.1}}, "grid": {"d": [1e-3, 1e-4]}}
    assert fits(check("on_grid", facts=facts, chosen="chosen", grid="grid", each=True, factors={"B": 100})) == [
        False,
        True,
    ]
    tuned = {"d": {"A": {"lr": {"range": [0.1, 1e-3], "best": [0.01, 0.1]}, "mu": {"range": [1.0, 0.1], "best": 0.01}}}}
    assert fits(check("on_decades", facts={"tuned": tuned}, tuned="tuned")) == [True, False]


def test_shares_of_clients_tell_how_many_there_are():
    cells = [cell(value) for value in (0.0, 0.25, 0.75)]
    (part,) = check("multiples", cells, cells={}, clients={"d": 5}).parts
    assert (part.recomputed, part.follows) == ("the shares are of 4", False)
    assert check("multiples", cells, cells={}, clients={"d": 8}).follows


def test_a_mistake_costs_at_least_ln_2():
    cells = (cell(7.0, table="loss"), cell(0.9, table="right"))
    losses, right = {"table": "loss"}, {"table": "right"}
    assert not check("loss_floor", cells, losses=losses, accuracies=right, unit=0.0099).follows  # 0.0693 of 0.0693
    assert check("loss_floor", cells, losses=losses, accuracies=right, unit=0.01).follows


def test_one_threshold_for_all():
    steps = {"a": {"before": [1.0, 1.1], "at": [1.2, 1.3]}, "b": {"before": [1.25, 1.3], "at": [2.0, 3.0]}}
    assert check("threshold", facts={"steps": steps}, steps="steps").follows
    steps["b"]["before"] = [1.3, 1.4]
    assert not check("threshold", facts={"steps": steps}, steps="steps").follows


def test_one_sample_more_shows_in_the_radius():
    """One of 100 samples, in one of four clients and one of five runs: 0.0025 / 5 x 2.776."""
    cells = (cell(0.7, 0.0), cell(0.7, 0.001, method="B"))
    checked = check("distinct_runs", cells, {"test": [10, 100, 20, 30]}, cells={}, test="test", runs=5)
    assert fits(checked) == [False, True]
    assert checked.parts[0].recomputed == "± 0.001 or more"
    assert 0.0025 / 5 * scipy.stats.t.ppf(0.975, 4) == pytest.approx(0.00139, abs=1e-5)
    assert check("distinct_runs", cells, {"test": [1000] * 4}, cells={}, test="test", runs=5).follows


# A folder -----------------------------------------------------------------------------------------------------

GOOD = """
[claims.first]
where = "Table 1"
says = "A is above B"
kind = "above"
cells = { method = "A" }
than = { method = "B" }
note = "a note"
"""


@pytest.fixture
def paper(tmp_path):
    def write(claims: str = GOOD, rows: str = "1,d,accuracy,A,local,0.5,,all,,\n1,d,accuracy,B,local,0.6,,all,,\n"):
        (tmp_path / "paper.toml").write_text('title = "A paper"\npercent = ["accuracy"]\n[sizes]\nn = 3\n')
        (tmp_path / "printed.csv").write_text(f"{HEAD}\n{rows}")
        (tmp_path / "audit.toml").write_text(claims)
        return tmp_path

    return write


def test_a_folder_is_read_checked_and_rendered(paper):
    found = audit_folder(paper())
    (finding,) = found.findings
    assert (finding.claim, finding.verdict, finding.why) == ("first", "does not follow", "0 of 1 hold. a note")
    assert document(found)["findings"][0]["parts"] == (
        {"what": "A against B", "printed": "above", "recomputed": "50 against 60", "follows": False},
    )
    lines = render(found, 80).splitlines()
    assert lines[0] == "A paper"
    assert " ".join(lines[1:3]) == (
        "1 claims checked against the paper's own numbers: 0 follow, 1 do not, 0 cannot be checked."
    )
    assert "  ! A against B  printed above  recomputed 50 against 60" in lines
    assert max(map(len, lines)) <= 80


def test_long_findings_are_cut_short_unless_asked_for(paper):
    rows = "".join(
        f"1,d{i},accuracy,{method},local,0.{value},,all,,\n"
        for i in range(20)
        for method, value in (("A", 5), ("B", 6))
    )
    found = audit_folder(paper(rows=rows))
    assert "    and 8 more (--full)" in render(found, 80)
    assert render(found, 80, full=True).count("  ! ") == 20


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "above"', 'kind = "abov"', r"claims\.first\.kind = 'abov': did you mean 'above'\?"),
        ("than =", "then =", r"claims\.first: (than is missing|kind 'above' has no key 'then': did you mean 'than'\?)"),
        ('note = "a note"', 'at_most = 3', r"kind 'above' has no key 'at_most': did you mean 'at_least'\?"),
        ('{ method = "A" }', '{ method = "C" }', r"nothing is printed with method = 'C' in .*: expected one of A, B"),
        ('{ method = "A" }', '{ metod = "A" }', r"'metod' is no column of the printed.*: did you mean 'method'\?"),
        ('{ method = "A" }', "3", r"claims\.first: cells = 3: expected a valid dictionary"),
        ('where = "Table 1"', "", r"claims\.first\.where: expected a text, found None"),
        ("[claims.first]", "[claim.first]", r"unknown key 'claim': did you mean 'claims'\?"),
        ("[claims.first]", "[claims.first", "audit.toml: "),
    ],
)  # fmt: skip
def test_a_claim_that_is_none_is_one_line(paper, old, new, message):
    with pytest.raises(SpecError, match=message) as raised:
        audit_folder(paper(GOOD.replace(old, new, 1)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            'kind = "adds_up"\nof = ["sizes.m"]\nequals = 3',
            r"'sizes\.m' is not in paper\.toml, there is no 'm': expected one of n",
        ),
        ('kind = "adds_up"\nof = []\nequals = "sizes"', r"'sizes' = .* in paper\.toml: expected a number"),
        ('kind = "adds_up"\nof = ["sizes.n"]\nequals = 3', r"does not have the form that kind 'adds_up' expects"),
        ('kind = "equal"\nitems = [{ what = "n", printed = 3 }]', r"items\.0\.again is missing"),
    ],
)
def test_a_fact_that_is_none_is_one_line(paper, arguments, message):
    with pytest.raises(SpecError, match=message) as raised:
        audit_folder(paper(f'[claims.first]\nwhere = "Table 1"\nsays = "so"\n{arguments}\n'))
    assert "audit.toml: claims.first" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", ["", "half"])
def test_a_number_that_is_none_names_its_line(paper, value):
    with pytest.raises(SpecError, match=r"printed\.csv: line 3: expected numbers"):
        audit_folder(paper(rows=f"1,d,accuracy,A,local,0.5,,all,,\n1,d,accuracy,B,local,{value},,all,,\n"))


def test_a_csv_without_a_column_names_it(paper):
    place = paper()
    (place / "printed.csv").write_text("table,dataset,metric,method,checkpoint,value,ci95\n")
    with pytest.raises(SpecError, match=r"printed\.csv: no column 'client'"):
        audit_folder(place)


@pytest.mark.parametrize("file", ["paper.toml", "printed.csv"])
def test_a_missing_file_is_named(paper, file):
    place = paper()
    (place / file).unlink()
    with pytest.raises(SpecError, match=f"{file}: No such file"):
        audit_folder(place)


def test_an_unknown_paper_is_answered_with_the_nearest():
    with pytest.raises(SpecError, match="unknown paper 'fend': did you mean 'fenda'"):
        audit("fend")
