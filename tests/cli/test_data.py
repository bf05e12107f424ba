"""Commands of `silobench data`, without network."""

from __future__ import annotations

import json
import shutil
import socket
from functools import partial
from pathlib import Path

import pytest

from bench import registry
from bench.data.files import cache, cards, download

SITES = ("cleveland", "hungarian", "switzerland", "va")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no data folder, and no way to open a connection."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data(command):
    """Runs ``silobench data``; returns exit status, standard output and standard error."""
    return partial(command, "data")


@pytest.fixture
def own_files(tmp_path: Path, bench_data: Path) -> Path:
    """A folder of one's own with the raw files of heart disease in it, free to be damaged."""
    folder = tmp_path / "own"
    folder.mkdir()
    for site in SITES:
        shutil.copyfile(bench_data / f"heart_disease/processed.{site}.data", folder / f"processed.{site}.data")
    return folder


def test_every_data_set_is_listed_with_what_is_at_hand(data, own_files: Path):
    status, out, err = data("list", "--data", own_files)
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert (status, err, list(lines)) == (0, "", list(registry.catalogue("datasets")))
    assert all(words in lines["fed_heart_disease"] for words in ("all files", "4 clients; 740 patients"))
    assert "1 of 3 files" in lines["heart_cohorts"]
    assert "none needed" in lines["digits"]


def test_the_list_as_json(data):
    entries = json.loads(data("list", "--json")[1])
    assert [entry["name"] for entry in entries] == list(registry.catalogue("datasets"))
    assert all(
        set(entry) == {"name", "files", "size", "access", "summary"} and all(entry.values()) for entry in entries
    )


def test_info_shows_card_defaults_and_places(data, own_files: Path):
    (own_files / "processed.va.data").unlink()
    status, out, _ = data("info", "fed_heart_disease", "--data", own_files)
    assert status == 0
    assert out.startswith(cards.read("fed_heart_disease").text.rstrip())
    assert '- `normalisation = "centre"`' in out
    assert f"- `heart_disease/processed.cleveland.data`: {own_files}/processed.cleveland.data" in out
    assert "- `heart_disease/processed.va.data`: missing" in out
    assert f"Searched folders: {own_files}, " in out


def test_info_as_json(data, own_files: Path):
    told = json.loads(data("info", "fed_heart_disease", "--json", "--data", own_files)[1])
    assert (told["name"], told["facts"]["Licence"]) == ("fed_heart_disease", "CC BY 4.0")
    assert told["citation"].startswith("A. Janosi")
    assert "doi:10.24432/C52P4X" in told["citation"]
    assert told["options"] == {"normalisation": "centre"}
    assert told["files"][0] == {
        "names": ["heart_disease/processed.cleveland.data"],
        "bytes": 18461,
        "hash": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
        "place": str(own_files / "processed.cleveland.data"),
    }


def test_info_of_a_task_of_flamby(data):
    status, out, err = data("info", "flamby:fed_kits19")
    assert (status, err) == (0, "")
    assert out.startswith(cards.read("flamby:fed_kits19").text.rstrip())
    assert out.endswith("## On this machine\n\nFLamby is not installed.\n")
    assert json.loads(data("info", "flamby:fed_kits19", "--json")[1])["searched"] == []


@pytest.mark.parametrize("verb", ["info", "prepare", "verify"])
def test_an_unknown_name_names_the_nearest(data, verb: str):
    expected = "error: unknown data set 'fed_hart_disease': did you mean 'fed_heart_disease'?\n"
    assert data(verb, "fed_hart_disease") == (2, "", expected)


def test_prepare_says_what_it_found(data, own_files: Path):
    expected = "fed_heart_disease is ready: 4 clients; samples: 486 train, 254 test\n"
    assert data("prepare", "fed_heart_disease", "--data", own_files) == (0, expected, "")
    assert data("prepare", "fed_heart_disease", "normalisation=pooled", "--data", own_files) == (0, expected, "")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("normalisation", "error: 'normalisation': expected name=value\n"),
        ("normalization=pooled", "error: data set 'fed_heart_disease' has no option 'normalization': did you mean "
         "'normalisation'?\n"),
        ("normalisation=7", "error: normalisation = 7: expected one of as_published_central, centre, pooled\n"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_line(data, option: str, expected: str):
    assert data("prepare", "fed_heart_disease", option) == (2, "", expected)


def test_a_stand_in_is_called_synthetic(data):
    status, out, _ = data("prepare", "mimic3_mortality")
    assert (status, out.split(" is ready")[0]) == (0, "mimic3_mortality (SYNTHETIC)")


def test_without_files_offline_prepare_is_one_line(data):
    status, out, err = data("prepare", "fed_heart_disease")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: heart_disease/processed.cleveland.data: not found in ")


def test_verify_says_that_there_are_no_files(data):
    expected = "digits: no files to check; `silobench data info digits` describes its data\n"
    assert data("verify", "digits") == (0, expected, "")


def test_verify_names_the_users_damaged_file_and_the_fix(data, own_files: Path):
    status, out, err = data("verify", "fed_heart_disease", "--data", own_files)
    assert (status, err, [line.split()[0] for line in out.splitlines()]) == (0, "", ["intact"] * 4)
    file = own_files / "processed.hungarian.data"
    raw = bytearray(file.read_bytes())
    raw[100] ^= 1
    file.write_bytes(raw)
    (own_files / "processed.va.data").unlink()
    status, out, err = data("verify", "fed_heart_disease", "--data", own_files)
    assert [line.split()[0] for line in out.splitlines()] == ["intact", "damaged", "intact", "absent"]
    assert str(file) in out
    assert "delete it and run `silobench data prepare fed_heart_disease`" in out
    assert (status, err.count("\n")) == (2, 1)
    assert "1 damaged; follow the advice above, then run `silobench data prepare fed_heart_disease`" in err


def test_damaged_arrays_in_the_cache_are_found_and_decoded_again(data, tmp_path: Path):
    ready = data("prepare", "digits")
    (tmp_path / "raw").write_text("raw")
    cache.prepared(
        "digits", inputs=[tmp_path / "raw"], code=[], layout={"x": ((3,), "uint8")}, fill=lambda arrays: None
    )
    (folder,) = cache.folders("digits")
    assert data("verify", "digits") == (0, f"intact    {folder}/x.npy  (as in its manifest)\n", "")
    assert data("prepare", "digits") == ready
    assert cache.folders("digits") == [folder]
    (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-1] + b"?")
    status, out, err = data("verify", "digits")
    assert (status, out.split()[:2]) == (2, ["damaged", f"{folder}/x.npy"])
    assert "run `silobench data prepare digits`" in out
    assert err.startswith("error: digits: 1 damaged; ")
    assert data("prepare", "digits") == (0, ready[1], f"{folder}: damaged; decoding it again\n")
    assert cache.folders("digits") == []


def test_arrays_in_the_place_of_others_are_found_and_decoded_again(data, tmp_path: Path):
    ready = data("prepare", "digits")
    for number in range(2):
        (tmp_path / "raw").write_text(str(number))
        layout = {"x": ((3,), "uint8")}
        cache.prepared("digits", inputs=[tmp_path / "raw"], code=[], layout=layout, fill=lambda arrays: None)
    one, other = cache.folders("digits")
    one.rename(tmp_path / "aside")
    other.rename(one)
    (tmp_path / "aside").rename(other)
    status, out, _ = data("verify", "digits")
    assert (status, [line.split()[0] for line in out.splitlines()]) == (2, ["damaged", "damaged"])
    assert f"it belongs to the folder {other.name}; run `silobench data prepare digits`" in out
    assert data("prepare", "digits")[:2] == ready[:2]
    assert cache.folders("digits") == []


def test_a_download_off_the_terminal_is_a_line_per_file(data, own_files: Path, monkeypatch: pytest.MonkeyPatch):
    def transfer(url: str, sink: download._SizeLimit, stream: download._SizeLimit) -> None:
        content = (own_files / url.rpartition("/")[2]).read_bytes()
        for start in range(0, len(content), 1000):
            stream.write(content[start : start + 1000])

    monkeypatch.setattr(download, "_transfer", transfer)
    monkeypatch.delenv("BENCH_OFFLINE")
    status, out, err = data("prepare", "fed_heart_disease")
    assert (status, out.split(":")[0]) == (0, "fed_heart_disease is ready")
    assert err.splitlines() == [f"downloading heart_disease/processed.{site}.data" for site in SITES]
