"""Tables of a study, and the printed numbers next to ours."""

from __future__ import annotations

import pytest

from bench.types import SpecError
from tests.spec.example import STUDY, TABLE


def facts_beside(rows: list[tuple[str, str, str]]) -> str:
    """A table of parameters whose rows (method, of, printed) name facts of the paper."""
    text = '[[tables]]\nid = "mine/facts"\nvalue = "parameters"\ncolumns = "clients"\nrows = ['
    for method, of, printed in rows:
        text += f'\n{{ method = "{method}", of = "{of}", checkpoints = ["latest"], printed = "{printed}" }},'
    return f"{text}\n]\n"


def test_printed_numbers_are_those_of_single_clients(study):
    read = study(STUDY + TABLE)
    numbers = read.printed(read.tables["mine/one"])
    assert [number.value for number in numbers if (number.method, number.client) == ("GL", "comanche")] == [0.9209]
    assert {number.client for number in numbers} == {"all", "comanche", "neota", "poudre", "rawah"}


def test_without_columns_of_clients_only_those_over_all_are_taken(study):
    read = study(STUDY + TABLE.replace('columns = "clients"\n', ""))
    assert [number.method for number in read.printed(read.tables["mine/one"])] == ["Centralized"]
    with pytest.raises(SpecError, match='single clients only; set columns = "clients"'):
        study(STUDY + TABLE.replace('columns = "clients"\n', "").replace("15:covertype", "15:heart_cohorts"))


def test_a_row_may_name_facts_of_the_paper(study):
    rows = [
        ("FedAvg", "fedavg", "table8.parameters.gl"),
        ("GL", "given", "table1.covertype.poudre.train"),
    ]
    read = study(STUDY + facts_beside(rows))
    numbers = [(n.method, n.checkpoint, n.client, n.value) for n in read.printed(read.tables["mine/facts"])]
    poudre = ("GL", "latest", "all", 3509)  # of 3508
    counts = {"comanche": 915954, "neota": 915423, "poudre": 915600, "rawah": 915600}
    assert numbers == [*(("FedAvg", "latest", client, count) for client, count in counts.items()), poudre]


def test_a_fact_may_have_a_radius(study):
    text = STUDY.replace("global_layers", "fenda") + facts_beside([("FENDA-FL", "given", "table12.1.dice")])
    read = study(text.replace('columns = "clients"\n', ""))
    (number,) = read.printed(read.tables["mine/facts"])
    assert (number.value, number.ci95, number.client) == (0.9864, 0.0002, "all")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("parameters.gl", "parameter.gl", "'table8.parameter.gl' is not in paper.toml, there is no 'parameter'"),
        ("table8.parameters.gl", "title", "printed = 'title' is 'Global"),
        ("table8.parameters.gl", "table8", "expected numbers"),
        ('columns = "clients"\n', "", 'single clients only; set columns = "clients"'),
        ('["latest"]', '["latest", "local"]', "printed is the number of one cell; give the row one checkpoint"),
        (
            "rows = ",
            'printed = "15:covertype:auroc"\nrows = ',
            "printed is given for the table and for a row of it; remove one",
        ),
        (
            '"global_layers"',
            '"global_layer"',
            "paper = 'global_layer' has no printed numbers: did you mean 'global_layers'",
        ),
    ],
)
def test_a_fact_that_cannot_stand_beside_a_row(study, old, new, expected):
    text = STUDY + facts_beside([("FedAvg", "fedavg", "table8.parameters.gl")])
    with pytest.raises(SpecError) as error:
        study(text.replace(old, new))
    assert expected in str(error.value)


def test_printed_numbers_are_taken_in_our_unit(study):
    read = study(STUDY + TABLE.replace("[[tables]]", "[[tables]]\nprinted_unit = 0.01"))
    assert max(number.value for number in read.printed(read.tables["mine/one"])) < 0.01


def test_methods_held_against_are_behind_a_table(study):
    value = 'value = "participation"\nagainst = ["local", "given"]\n'
    text = TABLE[: TABLE.index("rows")].replace('columns = "clients"\nprinted = "15:covertype:auroc"\n', value)
    read = study(STUDY + text + 'rows = [{ method = "FedAvg", of = "fedavg" }]\n')
    assert read.methods_behind(["mine/one"], []) == {"fedavg", "local", "given"}


def test_a_method_held_against_is_one_of_the_studys(study):
    table = TABLE.replace('columns = "clients"', 'value = "participation"\nagainst = ["local", "gvien"]')
    with pytest.raises(SpecError, match=r"tables\[0\]\.against: unknown name 'gvien': did you mean 'given'"):
        study(STUDY + table)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ('value = "participation"', "needs against = [local training, FedAvg]"),
        ('against = ["local", "given"]', 'against has no meaning for value = "mean"'),
        ('center = "median"', 'center = "median" needs interval = "bootstrap"'),
        (
            'value = "participation"\nagainst = ["local", "given"]',
            'columns = "clients" has no meaning for value = "participation"',
        ),
        ('value = "faimess"', 'tables[0].value: expected "mean", "fairness"'),
    ],
)
def test_what_does_not_go_together_is_refused(study, key, expected):
    with pytest.raises(SpecError) as error:
        study(STUDY + TABLE.replace("[[tables]]", f"[[tables]]\n{key}"))
    assert expected in str(error.value)
