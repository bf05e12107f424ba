"""Figures that a study declares: what is taken from records, and what is drawn of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench.report.figures import client_bars, heatmaps, line_plots, study_figures
from bench.report.tables import rank_tests
from bench.report.tables.build import build
from bench.report.tables.table import Row, TableSpec
from bench.spec import (
    CurvesSection,
    LayersSection,
    Number,
    RanksSection,
    TrajectoriesSection,
)
from bench.types import SilobenchError, SpecError

METHODS = ("FedAvg", "Local", "APPLE")
SCORES = {"accuracy": [[0.1, 0.3], [0.5, 0.9]]}
CURVES = {"rounds": [2, 4], "scores": SCORES}
P = [[[0.5, -0.5], [0.2, 0.8]], [[0.6, 0.4], [0.1, 0.9]], [[0.7, 0.3], [0.0, 1.0]]]


@pytest.fixture
def drawn(monkeypatch):
    """Arguments of the line drawing, by keyword and position."""
    seen = []
    for name in ("curves", "trajectories", "layers"):
        monkeypatch.setattr(line_plots, name, lambda *given, **named: seen.append((given, named)) or [])
    return seen


@pytest.fixture
def chosen(record, choice):
    def run(**changed):
        plain = {"curves": CURVES, "aggregated": [0.9, 0.7, 0.6, None], "traces": {"p": P, "alpha": [[0.5, 0.5]] * 3}}
        return record([0.5, 0.9], spec={"seed": 7}, sizes=[10, 30], **plain, **changed)

    return {"apple": choice(run(), run()), "apfl": choice(run(), None), "synthetic": choice(run(synthetic=True))}


class Study:
    profile = "short"


def draw(figure, chosen, tmp_path):
    return study_figures.draw(Study(), figure, {}, chosen, {}, tmp_path / "figure")


def curves_section(**keys):
    rows = [{"method": "APPLE", "of": "apple"}, {"method": "APFL", "of": "apfl"}]
    return CurvesSection(**{"id": "c", "kind": "curves", "title": "C", "scores": ["accuracy"], "rows": rows} | keys)


class TestFromRecords:
    def test_curves_are_means_over_clients_of_each_run(self, drawn, chosen, tmp_path):
        draw(curves_section(scores=["accuracy", "validation"]), chosen, tmp_path)
        ((panels, _), named) = drawn[0]
        assert named["title"] == "C (short profile)"
        rounds, runs = panels["test accuracy"]["APPLE"]
        assert (rounds, runs) == ([2, 4], [[pytest.approx(0.2), pytest.approx(0.7)]] * 2)
        assert panels["validation loss"]["APPLE"] == ([1, 2, 3, 4], [[0.9, 0.7, 0.6, None]] * 2)
        assert panels["test accuracy"]["APFL"] == ([], [])  # a run is missing

    def test_curves_end_where_the_first_run_stopped(self, drawn, chosen, choice, tmp_path):
        (whole, _) = chosen["apple"].records
        first = {"rounds": [2, 3], "scores": {name: rows[:2] for name, rows in SCORES.items()}}
        stopped = whole | {"curves": first, "aggregated": [0.8, 0.7, 0.7], "stopped": 3}
        draw(curves_section(scores=["accuracy", "validation"]), chosen | {"apple": choice(whole, stopped)}, tmp_path)
        panels = drawn[0][0][0]
        assert panels["test accuracy"]["APPLE"] == ([2], [[pytest.approx(0.2)]] * 2)
        assert panels["validation loss"]["APPLE"] == ([1, 2, 3], [[0.9, 0.7, 0.6], [0.8, 0.7, 0.7]])

    def test_curves_can_count_clients_by_test_samples(self, drawn, chosen, tmp_path):
        draw(curves_section(weights="test_size"), chosen, tmp_path)
        assert drawn[0][0][0]["test accuracy"]["APPLE"][1][0] == [pytest.approx(0.25), pytest.approx(0.8)]

    def test_trajectories_are_of_the_first_seed(self, drawn, chosen, tmp_path):
        section = TrajectoriesSection(id="t", kind="trajectories", title="T", of="apple", absolute=True)
        draw(section, chosen, tmp_path)
        ((watched, clients, _), named) = drawn[0]
        assert watched[0] == [[0.5, 0.5], [0.2, 0.8]]
        assert clients == ["north", "south"]
        assert named == {"title": "T (short profile), seed 7", "what": "|p|", "client": 0}

    def test_layers_are_divided_by_the_first_or_the_least(self, drawn, chosen, tmp_path):
        section = LayersSection(id="l", kind="layers", title="L", of="apple", traces=["p"], round="first")
        for normalise, expected in (("none", [0.2, 0.8]), ("first", [1.0, 4.0]), ("min", [1.0, 4.0])):
            draw(section.model_copy(update={"normalise": normalise}), chosen, tmp_path)
            assert drawn.pop()[0][0]["p"][1] == pytest.approx(expected)
        # A model that no longer learns has nothing to divide by: a gap in the figure.
        draw(section.model_copy(update={"normalise": "first", "round": "last"}), chosen, tmp_path)
        assert any(math.isnan(value) for layers in drawn.pop()[0][0]["p"] for value in layers)

    def test_synthetic_runs_are_in_the_title(self, drawn, chosen, tmp_path):
        section = TrajectoriesSection(id="t", kind="trajectories", title="T", of="synthetic", trace="alpha")
        draw(section, chosen, tmp_path)
        assert drawn[0][1]["title"].startswith("SYNTHETIC DATA: T")

    def test_what_was_not_watched_is_named(self, chosen, tmp_path):
        section = TrajectoriesSection(id="t", kind="trajectories", title="T", of="apple", trace="alhpa")
        with pytest.raises(SpecError, match="has no trace 'alhpa': did you mean 'alpha'"):
            draw(section, chosen, tmp_path)
        layers = LayersSection(id="l", kind="layers", title="L", of="apple", traces=["alpha"])
        with pytest.raises(SpecError, match="a number for each layer"):
            draw(layers, chosen, tmp_path)

    def test_a_missing_run_is_named(self, choice, tmp_path):
        section = TrajectoriesSection(id="t", kind="trajectories", title="T", of="apple")
        with pytest.raises(SilobenchError, match="with seed 2021 is missing"):
            draw(section, {"apple": choice(None)}, tmp_path)


@pytest.fixture
def table(choice):
    def make(**options):
        rows = tuple(Row(method, method, checkpoints=("local",)) for method in METHODS)
        scores = {"FedAvg": [0.9, 0.2], "Local": [0.5, 0.4], "APPLE": [0.3, 0.1]}
        chosen = {method: choice(scores[method], scores[method]) for method in METHODS}
        chosen |= options.pop("chosen", {})
        spec = TableSpec("f", "F", "digits", "accuracy", rows, columns="clients", silo=None, **options)
        return build(spec, chosen, [Number("Local", "local", 0.55, None, "north")])

    return make


class TestDrawn:
    def test_a_heat_map_repeats_byte_for_byte_with_printed_numbers_and_holes(self, table, choice, tmp_path):
        holes = table(chosen={"APPLE": choice(None, [0.5, 0.5])})
        first = [file.read_bytes() for file in heatmaps.heatmap(holes, tmp_path / "a", title="A")]
        assert [file.read_bytes() for file in heatmaps.heatmap(holes, tmp_path / "b", title="A")] == first
        assert first[0] != heatmaps.heatmap(table(), tmp_path / "c", title="A")[0].read_bytes()

    def test_words_can_be_read_on_every_shade(self):
        assert [heatmaps._readable_on(colour) for colour in ("white", "#ffe945", "#00224e", "black")] == [
            "#000000", "#000000", "white", "white",
        ]  # fmt: skip

    def test_nothing_to_show_is_said(self, table, choice, tmp_path):
        nothing = table(chosen={method: choice(None) for method in METHODS})
        for draw_ in (heatmaps.heatmap, client_bars.client_bars):
            with pytest.raises(SilobenchError, match="no client has a number"):
                draw_(nothing, tmp_path / "a", title="A")
        with pytest.raises(SilobenchError, match="no method has all its runs"):
            line_plots.curves({"accuracy": {"FedAvg": ([], [])}}, tmp_path / "a", title="A")

    def test_bars_of_clients_are_drawn_with_holes(self, table, choice, tmp_path):
        holes = table(chosen={"APPLE": choice(None, [0.5, 0.5])})
        assert all(file.stat().st_size for file in client_bars.client_bars(holes, tmp_path / "a", title="A"))

    def test_a_diagram_of_ranks_is_over_the_clients(self, table, tmp_path):
        section = RanksSection(id="r", kind="cd", title="R", table="f")
        assert len(study_figures.ranks(section, table(), tmp_path / "r")) == 2
        assert rank_tests.rank_table(table()).blocks == 2
        broken = replace(table(), cells=tuple(replace(cell, mean=None, state="missing") for cell in table().cells))
        with pytest.raises(SilobenchError, match="rank tests need every run"):
            study_figures.ranks(section, broken, tmp_path / "r")

    def test_curves_with_gaps_bands_and_a_method_without_runs(self, tmp_path):
        panels = {"test accuracy": {"A": ([1, 2, 3], [[0.1, None, 0.3], [0.2, 0.3, 0.4]]), "B": ([], [])}}
        assert len(line_plots.curves(panels, tmp_path / "a", title="A")) == 2

    def test_trajectories_take_numbers_or_one_number_for_each_client(self, tmp_path):
        clients = ["north", "south"]
        for watched in (P, [[0.1, 0.2], [0.3, 0.4]]):
            assert len(line_plots.trajectories(watched, clients, tmp_path / "a", title="A", what="p")) == 2
        with pytest.raises(SilobenchError, match="an entry for each of 3 clients"):
            line_plots.trajectories(P, [*clients, "west"], tmp_path / "a", title="A", what="p")
        with pytest.raises(SilobenchError, match="client = 5: expected 0 to 1"):
            line_plots.trajectories(P, clients, tmp_path / "a", title="A", what="p", client=5)

    def test_layers_have_their_names(self, tmp_path):
        panels = {"sensitivity": [[1.0, 10.0], [2.0, 30.0]]}
        assert (
            len(line_plots.layers(panels, ["a", "b"], tmp_path / "l", title="L", names=["conv", "fc"], log=True)) == 2
        )
        with pytest.raises(SilobenchError, match="3 names for 2 layers"):
            line_plots.layers(panels, ["a", "b"], tmp_path / "l", title="L", names=["x", "y", "z"])

    def test_lines_differ_by_dashes_once_colours_come_again(self):
        styles = [tuple(line_plots._style(number).items()) for number in range(28)]
        assert len(set(styles)) == 28
