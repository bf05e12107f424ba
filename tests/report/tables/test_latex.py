"""Every kind of table in one article, as pdfTeX sets it."""

from __future__ import annotations

import re
import subprocess
import unicodedata
from dataclasses import replace

import pytest

from bench.report.tables.build import build
from bench.report.tables.render import LATEX, SMALL, write
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number

ROWS = (Row("FedAvg", "fedavg"), Row("FENDA-FL", "fenda", checkpoints=("local",)), Row("Silo", "local"))
SPEC = TableSpec("fenda/2-heart", "Table 2", "heart", "accuracy", ROWS)
PRINTED = [
    Number("FedAvg", "global", 0.7001, 0.0),
    Number("FENDA-FL", "local", 0.815, 0.002),
    Number("Silo", "local", 0.748, 0.0),
]
# The first two would be taken for arguments of the command that ends a row.
HOSTILE = ("[2cm] off", "*", r"\input{/etc/passwd} \end{tabular} %", "a & b\n\n\x00$c_1^2$ #{~}", '"Łódź" | <ä> ± ∞ αΩ')


@pytest.fixture
def kinds(choice):
    """A table of every kind by name."""
    chosen = {
        "fedavg": choice([0.70, 0.71], [0.70, 0.70]),
        "fenda": choice([0.88, 0.90], [0.90, 0.91]),
        "local": choice([0.74, 0.76], [0.76, 0.76]),
    }
    every = tuple(replace(row, checkpoints=("latest", "global", "local")) for row in ROWS)
    hostile = replace(
        SPEC,
        id=HOSTILE[2],
        title=" ".join(HOSTILE),
        rows=tuple(Row(name, "fedavg") for name in HOSTILE),
        silo=HOSTILE[0],
        notes=HOSTILE,
    )
    lost = chosen | {"fedavg": choice(None, [0.9, 0.9])}
    return {
        "beside printed numbers": build(SPEC, chosen, PRINTED),
        "of ours alone": build(SPEC, chosen),
        "with rank tests": build(replace(SPEC, ranks=True), chosen, PRINTED),
        "of single runs": build(replace(SPEC, one_run=True), chosen, PRINTED),
        "of every checkpoint": build(replace(SPEC, rows=every), chosen, PRINTED),
        "with lost runs": build(SPEC, lost, PRINTED),
        "of a stand-in": replace(build(SPEC, chosen, PRINTED), synthetic=True),
        "of anyone's names": build(hostile, chosen, [replace(PRINTED[0], method=HOSTILE[1])]),
    }


def test_every_kind_of_table_is_set_by_tex(kinds, program, tmp_path):
    latex = program("pdflatex")
    inputs = []
    for number, table in enumerate(kinds.values()):
        write(table, tmp_path / f"table{number}", forms=["tex"])
        inputs.append(rf"\input{{table{number}.tex}}\clearpage")
    article = [r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}", *inputs, r"\end{document}"]
    (tmp_path / "article.tex").write_text("\n".join(article))
    command = [latex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "article"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert run.returncode == 0, run.stdout[-2000:]
    assert f"({len(kinds)} pages" in run.stdout
    assert not re.search(r"Overfull \\hbox|multiply-defined", run.stdout)  # nothing runs off the page


def test_greek_letters_have_their_names():
    for name in SMALL.split():
        letter = unicodedata.lookup(f"greek small letter {name.replace('lambda', 'lamda')}")
        assert LATEX[ord(letter)] == f"$\\{name}$"
