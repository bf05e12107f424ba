"""Tasks of FLamby, on a small package with its interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bench.data import load_dataset
from bench.data.files import cards, inventory
from bench.types import DataError, SpecError


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Remove imported modules of FLamby before and after each test."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "flamby"]:
        del sys.modules[name]


@pytest.fixture
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "stand_in")


stand_in = pytest.mark.usefixtures("_stand_in")


@stand_in
def test_a_binary_task():
    federation = load_dataset("flamby:fed_heart_disease")
    assert (federation.name, federation.task) == ("flamby:fed_heart_disease", "binary")
    assert (federation.metrics, dict(federation.loss), dict(federation.options)) == (("accuracy",), {}, {})
    first, second = federation.clients
    assert (first.name, second.name) == ("centre_0", "centre_1")
    assert [len(part) for client in (first, second) for part in (client.train, client.test)] == [5, 3, 4, 2]
    assert second.train.x[:, 0].tolist() == [110, 111, 112, 113]
    assert second.test.x[:, 0].tolist() == [100, 101]
    assert second.train.y.tolist() == [[0], [1], [0], [1]]


@stand_in
def test_a_multi_class_task_whose_class_has_another_name():
    federation = load_dataset("flamby:fed_letters")
    assert (federation.task, federation.classes, federation.metrics) == ("multiclass", 3, ("accuracy",))
    assert federation.clients[0].train.y.tolist() == [0, 1, 2, 0]
    assert federation.clients[0].train.x.shape == (4, 1, 2, 2)


@stand_in
@pytest.mark.parametrize(("task", "classes"), [("fed_kits19", 3), ("fed_ixi", 2)])
def test_masks_become_one_hot(task: str, classes: int):
    federation = load_dataset(f"flamby:{task}")
    assert (federation.task, federation.classes, federation.metrics) == ("segmentation", classes, ("dice",))
    y = federation.clients[0].train.y
    assert y.shape == (2, classes, 4, 4)
    assert (y.sum(dim=1) == 1).all()
    expected = torch.arange(16) % 3 if classes == 3 else torch.arange(16) < 4
    assert torch.equal(y[0].argmax(dim=0).flatten(), expected.long())


@stand_in
def test_samples_of_different_sizes_are_collated_by_flamby():
    federation = load_dataset("flamby:fed_camelyon16")
    x = federation.clients[0].train.x
    assert x.shape == (3, 6, 3)
    assert x.sum(dim=(1, 2)).tolist() == [3, 6, 9]
    assert federation.metrics == ("auroc",)


@stand_in
def test_flambys_global_seed_is_undone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    load_dataset("flamby:fed_heart_disease")
    assert torch.equal(torch.rand(3), expected)


@stand_in
@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        ("fed_hart_disease", SpecError, "unknown FLamby task 'fed_hart_disease': did you mean 'fed_heart_disease'"),
        ("fed_isic2019", SpecError, "FLamby augments its images at every access; use the data set 'fed_isic2019'"),
        ("fed_ragged", DataError, "the samples of centre 0 differ in size, and FLamby has no collate_fn"),
        ("fed_tcga_brca", DataError, r"targets have shape \(2,\), expected classes or masks"),
        ("fed_lidc_idri", DataError, "cannot load centre 0 .The dataset was not downloaded; run the download script"),
    ],
)
def test_what_cannot_be_bridged_is_said_in_one_line(task: str, error: type[Exception], message: str):
    with pytest.raises(error, match=message) as caught:
        load_dataset(f"flamby:{task}")
    assert "\n" not in str(caught.value)


@stand_in
def test_there_are_no_options():
    with pytest.raises(SpecError, match="'flamby:fed_ixi' has no option 'debug'"):
        load_dataset("flamby:fed_ixi", debug=True)


NAMES = (
    "fed_camelyon16",
    "fed_heart_disease",
    "fed_isic2019",
    "fed_ixi",
    "fed_kits19",
    "fed_lidc_idri",
    "fed_tcga_brca",
)


@pytest.mark.parametrize("task", NAMES)
def test_every_task_has_a_card(task: str):
    card = cards.read(f"flamby:{task}")
    assert card.text.startswith(f"# flamby:{task}\n\n{card.summary}\n")
    assert list(card.facts) == ["Source", "Licence", "Task", "Size", "Access"]
    assert all(f"| {fact} | {said} |\n" in card.text for fact, said in card.facts.items())
    assert "Ogier du Terrail" in card.citation
    for section in ("Clients", "Known problems", "By hand"):
        assert f"\n## {section}\n" in card.text
    assert "clients" in card.facts["Size"]
    assert card.facts["Source"].startswith("[")
    assert (card.files, card.options, card.external) == ((), {}, "FLamby is not installed.")


@stand_in
def test_the_card_of_a_task_that_only_the_installed_copy_has():
    card = cards.read("flamby:fed_letters")
    assert card.facts["Licence"] == "see FLamby's page of the task"
    assert card.external == f"FLamby is installed in {Path(__file__).parent / 'stand_in' / 'flamby'}."
    assert not any(name.partition(".")[0] == "flamby" for name in sys.modules)  # a look at a card imports nothing


def test_the_card_of_an_unknown_task_names_the_nearest():
    with pytest.raises(SpecError, match="unknown FLamby task 'fed_kits': did you mean 'fed_kits19'"):
        cards.read("flamby:fed_kits")


@stand_in
def test_nothing_of_flamby_is_kept_here():
    assert list(inventory.examine("flamby:fed_ixi")) == []
    assert inventory.discard_damaged("flamby:fed_ixi") == []


def test_without_flamby_the_error_says_where_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "flamby", None)
    with pytest.raises(
        DataError,
        match=r"flamby:fed_ixi: FLamby cannot be imported .*; install it from https://github.com/owkin/FLamby",
    ):
        load_dataset("flamby:fed_ixi")
