"""Pages of the report: how they are gathered, findings as HTML, provenance, and axes of intervals."""

from __future__ import annotations

import json

import pytest

from bench.registry import folder
from bench.report import provenance
from bench.report.site import markdown, pages
from bench.report.site.content import Exhibit, Picture, TrainingTime
from bench.report.site.interval_plot import MARGIN, WIDTH, IntervalPlot
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.spec import Number, joint, published

ROWS = (
    Row("FedAvg", "fedavg", checkpoints=("local",)),
    Row("FENDA-FL", "fenda", checkpoints=("local",)),
    Row("Silo", "local", checkpoints=("local",)),
    Row("Client 0", "local", score="model 0", checkpoints=("local",)),
)
SPEC = TableSpec("fenda/2-heart", "Table 2", "heart", "accuracy", ROWS)


@pytest.fixture
def chosen(choice, record):
    return {
        "fedavg": choice([0.70, 0.72], [0.70, 0.72]),
        "fenda": choice([0.90, 0.92], [0.90, 0.92]),
        "local": choice(*[record([0.5, 0.6], everywhere=[0.5, 0.4])] * 2),
    }


@pytest.fixture
def table(chosen):
    return build(SPEC, chosen)


def test_every_folder_of_experiments_has_a_page():
    gathered = {page.paper: page for page in pages.gather({})}
    assert list(gathered) == sorted({file.parent.name for file in folder("experiments").glob("*/*.toml")})
    fenda = gathered["fenda"]
    assert fenda.title.startswith("FENDA-FL: Personalized Federated Learning")
    assert fenda.notes.startswith("# FENDA-FL")
    assert fenda.audit.of("follows")
    assert fenda.exhibits == fenda.pictures == fenda.costs == ()
    absent = [title for page in gathered.values() for title in page.absent]
    entries = {entry.title for kind in ("tables", "figures") for entry in published(kind).values()}
    entries |= {joined.tables[name].title for name, joined in joint("tables").items()}
    entries |= {joined.figures[name].title for name, joined in joint("figures").items()}
    assert set(absent) == entries
    assert gathered["quickstart"].title == published("tables")["quickstart"].title


def test_what_was_made_is_not_absent(table, chosen, record, tmp_path):
    figure = Picture("fenda/3-heart", "Figure 3", tmp_path / "3.png", "bars")
    made = pages.Made(exhibits=[Exhibit(table, chosen)], pictures=[figure], drawn={figure.id})
    place = folder("experiments") / "fenda"
    (fenda,) = [page for page in pages.gather({place: made}) if page.paper == "fenda"]
    assert fenda.exhibits == (Exhibit(table, chosen),)
    assert fenda.pictures == (figure,)
    tables, figures = published("tables"), published("figures")
    assert tables["fenda/2-heart"].title not in fenda.absent
    assert tables["fenda/10-heart"].title in fenda.absent
    # Its table is not there, its figure is; both have the same title.
    assert tables["fenda/figure3-heart"].title in fenda.absent
    assert figures["fenda/6-heart"].title in fenda.absent


def test_what_was_made_stands_in_the_order_of_the_paper(chosen, tmp_path):
    ids = ["a/2-heart", "a/2-heart-seeds", "a/10-heart", "a/A2-heart", "a/A10-heart"]
    exhibits = [Exhibit(build(SPEC.model_copy(update={"id": name}), chosen), chosen) for name in reversed(ids)]
    figures = [Picture(name, name, tmp_path / "x.png", "bars") for name in reversed(ids)]
    made = pages.Made(exhibits=exhibits, pictures=figures, drawn=set(ids))
    page = pages.gather({tmp_path / "a": made})[0]
    assert [exhibit.table.spec.id for exhibit in page.exhibits] == ids
    assert [picture.id for picture in page.pictures] == ids


def test_a_table_of_a_profile_is_not_absent(chosen):
    short = Exhibit(build(SPEC.model_copy(update={"id": "fenda/2-heart-short", "profile": "short"}), chosen), chosen)
    place = folder("experiments") / "fenda"
    (fenda,) = [page for page in pages.gather({place: pages.Made(exhibits=[short])}) if page.paper == "fenda"]
    assert published("tables")["fenda/2-heart"].title not in fenda.absent
    assert published("tables")["fenda/10-heart"].title in fenda.absent


def test_costs_are_those_of_the_run_batches_behind_the_runs(tmp_path):
    assert pages.costs(tmp_path, {"a"}) == ()
    (tmp_path / "records").mkdir()
    lines = []
    for name, runs in (("one", "ab"), ("two", "cd"), ("other", "e")):
        text = "".join(f'{{"format":1,"run":"{run}","spec":{{}}}}\n' for run in runs)
        (tmp_path / "records" / f"{name}.jsonl").write_text(text)
        lines.append({"population": name, "runs": len(runs), "seconds": 1.5, "path": "stack", "machine": "Linux"})
    lines.append(lines[0] | {"population": "deleted"})
    (tmp_path / "costs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert pages.costs(tmp_path, {"b", "c", "d", "x"}) == (TrainingTime("Linux", 2, 1.5), TrainingTime("Linux", 2, 1.5))


def test_findings_bring_no_markup_and_no_broken_link():
    html = markdown.html(
        "# Title\n\n<b onclick=x>bold</b> [code](../bench/cli/main.py) [*paper*](https://example.org/a?b&c) "
        "[bad](javascript:alert(1)) ![picture](https://example.org/x.png)\n\n|a|b|\n|:-|-:|\n|<i>|2|\n\n## Part\n"
    )
    assert '<h2 id="findings-0-title">Title</h2>' in html
    assert ">Part</h3>" in html
    assert '<a href="https://example.org/a?b&amp;c"><em>paper</em></a>' in html
    assert html.count("<a ") == 1
    assert " code " in html
    assert " picture<" in html
    assert "&lt;b onclick=x&gt;" in html
    assert '<th class="right" scope="col">b</th>' in html
    assert '<td class="left">&lt;i&gt;</td>' in html
    assert not any(mark in html for mark in ("<img", "style=", "<b ", "<i>", 'href="javascript'))


def test_sources_are_the_methods_behind_the_rows(record, choice):
    def run(seed, split, **more):
        spec = {"data": {"fingerprint": split, "name": "heart"}, "model": {"name": "mlp"}, "seed": seed}
        made_with = {"versions": {"torch": "2", "silobench": "1"}, "path": "stack"}
        return record([0.5, 0.6], everywhere=[0.5, 0.4], run=f"{seed:x}", spec=spec, **made_with, **more)

    chosen = {
        "fedavg": choice(run(1, "a", sha256="s"), run(2, "b"), settings=3),
        "fenda": choice(None),
        "local": choice(run(3, "a")),
    }
    table = build(SPEC, chosen)
    fedavg, fenda, local = provenance.sources(table, chosen)
    assert (fedavg.rows, fedavg.searched, fedavg.rule) == (("FedAvg",), 3, "best-val")
    assert fedavg.runs[0] == provenance.RunProvenance(2021, "1", "finished", "a", "silobench 1, torch 2", "stack", "s")
    varies = provenance.VARIES
    expected = {"data": {"fingerprint": varies, "name": "heart"}, "model": {"name": "mlp"}, "seed": varies}
    assert json.loads(fedavg.spec) == expected
    assert fenda.runs[0].status == "missing"
    assert fenda.spec == ""
    assert local.rows == ("Silo", "Client 0")
    assert json.loads(local.spec)["seed"] == 3


def test_the_runs_a_share_is_measured_against_are_behind_it_too(chosen):
    spec = TableSpec(
        "shares",
        "Shares",
        "heart",
        "accuracy",
        ROWS[1:2],
        value="participation",
        against=("local", "fedavg"),
        silo=None,
    )
    assert provenance.behind(build(spec, chosen)) == {"fenda": ["FENDA-FL"], "local": [], "fedavg": []}


def test_intervals_lie_on_one_axis(table, chosen, choice):
    axis = IntervalPlot.of(table)
    cells = [cell for cell in table.overall if cell.mean is not None]
    ends = [end for cell in cells for end in axis.span(cell.mean, cell.ci95)]
    assert (min(ends), max(ends)) == (MARGIN, WIDTH - MARGIN)
    assert axis.silo == pytest.approx(0.55)
    assert axis.x(axis.low) < axis.x(axis.silo) < axis.x(axis.high)
    lost = {name: choice(None) for name in chosen}
    assert IntervalPlot.of(build(SPEC, lost)) is None


def test_the_axis_of_printed_single_runs_holds_what_they_are_held_against(chosen, choice):
    chosen = chosen | {"fedavg": choice([0.71, 0.73], [0.67, 0.69])}
    spec = SPEC.model_copy(update={"one_run": True})
    # Runs .72 and .68: mean .70, radius 12.706 * .02; that for a third run is the root of 3 times as long.
    for printed, low in (([], 0.70 - 0.2541), ([Number("FedAvg", "local", 0.71, None)], 0.70 - 0.2541 * 3**0.5)):
        assert IntervalPlot.of(build(spec, chosen, printed)).low == pytest.approx(low, abs=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.52, 0.84, ["0.6", "0.7", "0.8"]),
        (0.0, 1.0, ["0.0", "0.5", "1.0"]),
        (-3.0, 4.0, ["-2", "0", "2", "4"]),
        (0.0011, 0.0071, ["0.002", "0.004", "0.006"]),
        (140.0, 4e6, ["1000000", "2000000", "3000000", "4000000"]),
        (0.5, 0.5, ["0.5"]),
    ],
)
def test_an_axis_has_few_round_ticks(low, high, ticks):
    axis = IntervalPlot(low, high, None)
    assert axis.ticks == ticks
    assert all(low <= float(tick) <= high for tick in axis.ticks)


def test_headings_of_findings_lead_to_their_places_and_names_are_unique():
    text = "# Title\n\n## Same *part*\n\ntext\n\n## Same `part`\n"
    found = markdown.headings(text)
    assert [heading for _, heading in found] == ["Same part", "Same part"]
    assert len({name for name, _ in found}) == 2
    assert all(f'id="{name}"' in markdown.html(text) for name, _ in found)
