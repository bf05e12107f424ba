"""Rules for every registered data set: its card, raw files, options and clients."""

from __future__ import annotations

import inspect
import itertools
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from bench import registry
from bench.data import load_dataset
from bench.data.files import cards
from bench.types import Client, DataError, Federation

NAMES = list(registry.catalogue("datasets"))
OWN = {"from_csv", "from_folder"}  # the user's own data: source and size are unknown
AT_HAND: dict[str, tuple[dict[str, Any], int]] = {  # options and number of clients; CI has these raw files
    "covertype": ({"source": "prepared"}, 4),
    "digits": ({}, 6),
    "fashion_mnist": ({}, 5),
    "fed_heart_disease": ({}, 4),
    "fed_heart_disease_5class": ({}, 4),
    "heart_cohorts": ({}, 3),
    "mnist": ({}, 12),
}
SYNTHETIC = {"gemini_delirium": 6, "gemini_mortality": 7, "mimic3_mortality": 4}
# Two patients of this hospital have equal values.
TWINS = {("fed_heart_disease", "va_long_beach"): 1, ("fed_heart_disease_5class", "va_long_beach"): 1}


@pytest.fixture(autouse=True)
def no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work offline with an empty cache; a test that opens a socket fails."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", NAMES)
def test_the_card_has_all_facts_and_sections(name: str):
    card = cards.read(name)
    assert card.text.startswith(f"# {name}\n\n")
    assert {"Source", "Licence", "Task", "Size", "Access"} <= set(card.facts)
    sections = set(re.findall(r"^## (.+)$", card.text, re.MULTILINE))
    assert sections >= ({"Known problems"} if name in OWN else {"Clients", "Known problems", "By hand"})
    assert card.citation or name in OWN
    assert card.summary.endswith(".") or "," in card.summary


@pytest.mark.parametrize("name", NAMES)
def test_declared_files_are_distinct_and_depend_on_known_options(name: str):
    card = cards.read(name)
    names = [each for file in card.files for each in file.names]
    assert len(set(names)) == len(names)
    for file in card.files:
        assert file.licence
        assert all(re.fullmatch(r"https://[a-z0-9.-]+\.[a-z]+/\S+", url) for url in file.urls)
        assert {option for option, _ in file.only_with} <= set(card.options)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_default_and_is_on_the_card(name: str):
    first, *options = inspect.signature(registry.load("datasets", name)).parameters.values()
    assert (first.name, first.default) == ("root", None)
    card = cards.read(name)
    assert {option.name: option.default for option in options} == card.options
    for option in options:
        assert option.kind is inspect.Parameter.KEYWORD_ONLY
        assert f"`{option.name}`" in card.text or f"`{option.name} = " in card.text


@pytest.mark.parametrize("name", AT_HAND)
def test_real_files_make_the_stated_clients(name: str, bench_data: Path):
    options, clients = AT_HAND[name]
    federation = load_dataset(name, bench_data, **options)
    check(name, federation, clients)
    assert not federation.synthetic


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_data_have_the_stated_clients_and_are_marked(name: str):
    federation = load_dataset(name)
    check(name, federation, SYNTHETIC[name])
    assert federation.synthetic


def check(name: str, federation: Federation, clients: int) -> None:
    assert (federation.name, len(federation.clients)) == (name, clients)
    assert federation.citation
    assert any(client.test is not None for client in federation.clients)
    for client in federation.clients:
        assert re.fullmatch(r"(client|hospital)_\d+", client.name) or client.name in cards.read(name).text
        assert shared(client) == TWINS.get((name, client.name), 0)


def shared(client: Client) -> int:
    """Count the samples of a client that are in two of its parts, with equal input and target."""
    parts = [split for split in (client.train, client.validation, client.test) if split is not None]
    rows = [
        {x.numpy().tobytes() + y.numpy().tobytes() for x, y in zip(split.x, split.y, strict=True)} for split in parts
    ]
    return sum(len(one & other) for one, other in itertools.combinations(rows, 2))


@pytest.mark.parametrize("name", [name for name in AT_HAND if name != "mnist"])
def test_loading_again_gives_the_same_bytes(name: str, bench_data: Path):
    options, _ = AT_HAND[name]
    assert (
        load_dataset(name, bench_data, **options).fingerprint == load_dataset(name, bench_data, **options).fingerprint
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN | {"digits"}])
def test_missing_files_are_one_line_that_names_file_and_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    options = {"source": "files"} if name in SYNTHETIC else {}
    registry.load("datasets", name)
    with pytest.raises(DataError) as caught:
        load_dataset(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path) in message
    assert "https://" in message
    files = {Path(spelling).name for file in cards.read(name).files for spelling in file.names}
    assert any(file in message for file in files)


def test_the_code_of_prepared_arrays_includes_every_reader_that_decodes_them():
    """An edit of a reader that is not in ``code`` would leave the old arrays in use."""
    readers = Path(registry.__file__).parents[1] / "data" / "readers"
    found = 0
    for file in (*registry.folder("datasets").glob("*.py"), *readers.glob("*.py")):
        if "prepared(" not in (text := file.read_text()):
            continue
        code = " ".join(line for line in text.splitlines() if "__file__" in line)
        modules = re.findall(r"^from bench\.data\.readers import (.+)", text, re.MULTILINE)
        assert "Path(__file__)" in code
        assert [name for name in ", ".join(modules).split(", ") if name and name not in code] == []
        found += 1
    assert found == 5
