"""Every kind of table in one article, as pdfTeX sets it."""

from __future__ import annotations

import re
import subprocess
import unicodedata
from dataclasses import replace

import pytest

from bench.report.tables.build import build
from bench.report.tables.latex import ESCAPES, SMALL
from bench.report.tables.render import document, write
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
    every = tuple(row.model_copy(update={"checkpoints": ("latest", "global", "local")}) for row in ROWS)
    hostile = SPEC.model_copy(
        update={
            "id": HOSTILE[2],
            "title": " ".join(HOSTILE),
            "rows": tuple(Row(name, "fedavg") for name in HOSTILE),
            "silo": HOSTILE[0],
            "notes": HOSTILE,
        }
    )
    lost = chosen | {"fedavg": choice(None, [0.9, 0.9])}
    return {
        "beside printed numbers": build(SPEC, chosen, PRINTED),
        "of ours alone": build(SPEC, chosen),
        "with rank tests": build(SPEC.model_copy(update={"ranks": True}), chosen, PRINTED),
        "of single runs": build(SPEC.model_copy(update={"one_run": True}), chosen, PRINTED),
        "of every checkpoint": build(SPEC.model_copy(update={"rows": every}), chosen, PRINTED),
        "with lost runs": build(SPEC, lost, PRINTED),
        "of a stand-in": replace(build(SPEC, chosen, PRINTED), synthetic=True),
        "of anyone's names": build(hostile, chosen, [replace(PRINTED[0], method=HOSTILE[1])]),
    }


def rows_of(table):
    text = document(table, "tex")
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    return [line.split(" & ") for line in body.splitlines()[1:]]


def test_checkpoints_are_rows_unless_every_method_has_all_of_them(kinds):
    labels = [row[0] for row in rows_of(kinds["beside printed numbers"])]
    assert labels == [
        "FedAvg, server (global)",
        "FedAvg, local",
        "FENDA-FL, local",
        "Silo, server (global)",
        "Silo, local",
    ]
    wide = kinds["of every checkpoint"]
    assert [row[0] for row in rows_of(wide)] == ["FedAvg", "FENDA-FL", "Silo"]
    assert r" & Latest & \multicolumn{3}{c}{Server (global)}" in document(wide, "tex")


def test_printed_numbers_have_columns_only_beside_those_that_have_some(choice):
    rows = (Row("FedAvg", "fedavg"), Row("Silo", "local"))
    chosen = {"fedavg": choice([0.7, 0.7]), "local": choice([0.6, 0.6])}
    text = document(build(SPEC.model_copy(update={"rows": rows}), chosen, PRINTED[:1]), "tex")
    assert r" & \multicolumn{3}{c}{Server (global)} & Local \\" in text
    assert r"\cmidrule(lr){2-4}" in text
    assert r"Method & Ours & Printed & Diff. & Ours \\" in text
    assert r"FedAvg & \textbf{0.700} & 0.700 $\pm$ 0.000 & $+0.000^\ddagger$ & \textbf{0.700} \\" in text
    assert r"Silo & 0.600 &  &  & 0.600 \\" in text


def test_the_best_of_a_column_is_bold_baselines_left_out(choice):
    rows = tuple(Row(name, name, checkpoints=("local",)) for name in "abc")
    chosen = {"a": choice([0.70001, 0.7]), "b": choice([0.7, 0.7]), "c": choice([0.9, 0.9])}
    spec = SPEC.model_copy(update={"rows": rows, "silo": None, "baselines": ("c",)})
    bold = [r"\textbf" in row[1] for row in rows_of(build(spec, chosen))]
    assert bold == [True, True, False]  # equal as shown
    assert "best of ours in bold" in document(build(spec, chosen), "tex")
    losses = {key: choice(record_with(each, "loss")) for key, each in chosen.items()}
    bold = [
        r"\textbf" in row[1]
        for row in rows_of(build(spec.model_copy(update={"metric": "loss", "baselines": ()}), losses))
    ]
    assert bold == [True, True, False]  # of losses the lowest


def record_with(chosen, metric):
    (record,) = chosen.records
    return record | {"scores": [[*key, metric, value] for *key, _, value in record["scores"]]}


@pytest.mark.slow
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
        assert ESCAPES[ord(letter)] == f"$\\{name}$"
