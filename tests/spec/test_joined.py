"""Files of joint tables."""

from __future__ import annotations

import pytest

from bench.spec import joined
from bench.types import SpecError

JOINT = """
[defaults]
digits = 4
columns = [{ table = "{table}-a", label = "A" }, { table = "{table}-b", label = "B" }]
rows = "all"
[rows]
all = ["Local", "FedAvg"]
[[joint]]
id = "both"
title = "Both of {table}"
placeholders.table = "x"
[[joint]]
id = "few"
title = "Few"
placeholders.table = "y"
rows = ["FedAvg"]
digits = 2
[[figures]]
id = "ranks"
kind = "cd"
title = "Ranks"
table = "both"
"""
KNOWN = ["x-a", "x-b", "y-a", "y-b"]


def test_joint_tables_share_defaults(write):
    read = joined.read(write(JOINT), KNOWN)
    both, few = read.tables.values()
    assert (both.title, both.digits, both.rows) == ("Both of x", 4, ["Local", "FedAvg"])
    assert [(column.table, column.label) for column in both.columns] == [("x-a", "A"), ("x-b", "B")]
    assert ([column.table for column in few.columns], few.rows, few.digits) == (["y-a", "y-b"], ["FedAvg"], 2)
    assert list(read.figures) == ["ranks"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('rows = "all"', 'rows = "al"', "joint[0].rows: no list of rows is called 'al': did you mean 'all'?"),
        ('placeholders.table = "y"\n', "", "joint[1]: unknown placeholder {table}"),
        ('placeholders.table = "y"', 'placeholders.table = "z"', "joint[1].columns: unknown table 'z-a'"),
        ("digits = 4", "digits = 40", "joint[0].digits: expected at most 10, got 40"),
        ("digits = 2", "digit = 2", "joint[1].digit: unknown key: did you mean 'digits'?"),
        ("[defaults]", "[default]", "default: unknown key: did you mean 'defaults'?"),
        ('id = "few"', 'id = "both"', "joint: 'both' is given twice"),
        ('table = "both"', 'table = "bth"', "figures[0].table: unknown joint table 'bth': did you mean 'both'?"),
        ('all = ["Local", "FedAvg"]', 'all = ["FedAvg", "FedAvg"]', "joint[0].rows: 'FedAvg' is given twice"),
    ],
)
def test_a_faulty_file_is_answered_with_one_line(write, old, new, expected):
    file = write(JOINT.replace(old, new, 1))
    with pytest.raises(SpecError) as error:
        joined.read(file, KNOWN)
    assert str(error.value).startswith(f"{file}: ")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
