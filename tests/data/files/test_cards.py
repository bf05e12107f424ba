"""Cards: what is read from a card's markdown, and which files a data set needs with which options."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.data.files.card_text import declared_files, parse
from bench.data.files.cards import Card, raw_files
from bench.data.files.raw_file import RawFile
from bench.types import DataError

SHA256 = "0" * 64
CARD = f"""# stays

Predict something.

| | |
|---|---|
| Source | [a hospital](https://one.example) |
| Licence | CC0 |

Citation: A. Author:
A Title (2020).

```toml
data.name = "stays"  # an example in the text, not the declaration of files
```

```toml
[files.stays]
path = "stays/stays.csv"
sha256 = "{SHA256}"
urls = ["https://one.example/stays.csv"]

[files.notes]
path = "stays/notes.csv"
obtain = "ask the ward"
licence = "private"
only_with = {{ notes = true }}
```

| file | rows |
|---|---|
| a | 1 |
"""
STAYS = RawFile("stays/stays.csv", SHA256, urls=("https://one.example/stays.csv",), licence="CC0")
NOTES = RawFile("stays/notes.csv", licence="private", obtain="ask the ward", only_with=(("notes", True),))


def test_facts_citation_and_files_are_read():
    card = parse(CARD, "stays.md")
    assert card.facts == {"Source": "[a hospital](https://one.example)", "Licence": "CC0"}
    assert card.citation == "A. Author: A Title (2020)."
    assert (card.file("stays"), card.file("notes")) == (STAYS, NOTES)
    assert card.tables[1] == [["a", "1"]]


def test_a_module_gets_the_files_of_the_card_beside_it(tmp_path: Path):
    (tmp_path / "stays.md").write_text(CARD)
    assert raw_files(str(tmp_path / "stays.py")) == {"stays": STAYS, "notes": NOTES}
    assert raw_files(str(tmp_path / "other.py")) == {}


def test_a_card_may_refer_to_the_file_of_another_card(tmp_path: Path):
    (tmp_path / "stays.md").write_text(CARD)
    (tmp_path / "other.md").write_text('# other\n\n```toml\n[files]\nstays = { card = "stays" }\n```\n')
    assert raw_files(str(tmp_path / "other.py")) == {"stays": STAYS}


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("[files.a]\npath = ", r"card\.md, TOML block in line 4: not valid TOML"),
        ("[files]\na = 3", r"files\.a: expected a table with path and urls or obtain"),
        ("[files.a]\nsize = 3", r"files\.a: there is no path"),
        ('[files.a]\npath = "a"', r"files\.a: a: has no urls"),
        ('[files]\na = { card = "gone" }', r"files\.a: expected .* a card that declares this file"),
        ('[files]\na = { card = "card", size = 3 }', r"files\.a: expected .* a card that declares this file"),
    ],
)
def test_a_wrong_block_is_named_with_card_line_and_file(tmp_path: Path, block: str, message: str):
    (tmp_path / "card.md").write_text(f"# card\n\n```toml\n{block}\n```\n")
    with pytest.raises(DataError, match=message) as caught:
        declared_files(tmp_path / "card.md")
    assert "\n" not in str(caught.value)


def test_needed_files_depend_on_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BENCH_DATA", raising=False)
    card = Card("stays", "", files=(STAYS, NOTES), options={"notes": False})
    assert card.needed() == (STAYS,)
    assert card.needed({"notes": True}) == card.needed({}, {"notes": True}) == (STAYS, NOTES)
    (tmp_path / "stays.csv").touch()
    assert card.at_hand(tmp_path) == "all files"
    assert card.at_hand(tmp_path, {"notes": True}) == "1 of 2 files"
    assert Card("digits", "").at_hand(tmp_path) == "none needed"
