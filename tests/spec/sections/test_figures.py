"""Figures of a study, and tables and figures of several data sets."""

from __future__ import annotations

import pytest

from bench.types import SpecError
from tests.spec.example import FIGURES, SEVERAL, STUDY, TABLE


def test_what_is_behind_each(study):
    read = study(STUDY + TABLE + FIGURES)
    behind = {name: read.methods_behind([], [name]) for name in read.figures}
    every = {"fedavg", "given", "local"}
    assert behind == {
        "mine/map": every,
        "mine/curves": {"fedavg"},
        "mine/watched": {"given"},
        "mine/layers": {"local"},
        "mine/bars": every,
        "mine/partition": set(),
    }
    assert read.figures["mine/curves"].metrics == {"accuracy"}
    assert read.shown_data(read.figures["mine/partition"]).name == "covertype"


def test_of_several_data_sets_there_is_one_for_each(study):
    table = TABLE.replace("15:covertype:auroc", "1:{data}:accuracy").replace('columns = "clients"\n', "")
    text = STUDY.replace('[data]\nname = "covertype"\n', SEVERAL).replace("global_layers", "apple")
    with pytest.raises(SpecError, match="printed = '1:cifar10:accuracy'"):  # that partition has no name
        study(text + table)
    read = study(text + table.replace('printed = "1:{data}:accuracy"\n', "") + FIGURES)
    assert list(read.tables) == ["mine/one-mnist-practical", "mine/one-cifar10"]
    assert "mine/map-cifar10" in read.figures
    assert read.figures["mine/map-mnist-practical"].table == "mine/one-mnist-practical"
    assert read.figures["mine/bars-cifar10"].tables == ["mine/one-cifar10"]
    assert read.figures["mine/watched-cifar10"].of == "given@cifar10"
    assert [row.of for row in read.figures["mine/curves-cifar10"].rows] == ["fedavg@cifar10"]
    assert read.shown_data(read.figures["mine/partition-cifar10"]).name == "cifar10"


def test_a_figure_may_name_one_of_several_data_sets_itself(study):
    text = STUDY.replace('[data]\nname = "covertype"\n', SEVERAL)
    alpha = '[[figures]]\nid = "a"\nkind = "trajectories"\ntitle = "A"\nof = "given@cifar10"\n'
    assert list(study(text + alpha).figures) == ["a"]
