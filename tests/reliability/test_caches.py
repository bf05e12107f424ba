"""Damaged and swapped files of the cache; each test prints its number (`pytest -s tests/reliability`)."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import files, registry
from bench.data.files import cache, hashes
from bench.data.files.locate import locate_unpacked
from bench.data.files.raw_file import RawFile
from bench.data.metadata import dataset_metadata
from bench.registry import declarations, stored
from bench.sweep.cost import calibration
from bench.types import DataError

FLIPS = 8  # changed bytes of each file
OTHER = [b"", b"{}", b"[]", b"null", b'{"checksum": "0", "sources": {}, "metadata": {}}', b"1.5", b"\xff\n\n", b"a\n{}"]
Questions = list[Callable[[], Any]]  # each returns the answer to one question, from the cache if it is kept there


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder; files that were just written may be kept."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    return tmp_path / "cache"


def metadata(folder: Path) -> Questions:
    return [partial(dataset_metadata, "digits", None, {"partition_seed": seed}) for seed in range(3)]


def inputs(folder: Path) -> Questions:
    for name in "abc":
        (folder / name).write_text(name)
    return [partial(hashes.combined, [folder / name]) for name in "abc"]


def declared(folder: Path) -> Questions:
    def ask(kind: registry.Kind) -> Any:
        declarations._of_kind.cache_clear()
        return {name: registry.declaration(kind, name) for name in registry.catalogue(kind)}

    return [partial(ask, kind) for kind in ("algorithms", "models", "datasets")]


def measured(folder: Path) -> Questions:
    costs = [dict(zip(calibration.BatchCost.__annotations__, range(n, n + 7), strict=True)) for n in range(3)]
    return [
        lambda n=n: calibration.BatchCost(**calibration._remembered({"cost": str(n)}, lambda: costs[n]))
        for n in range(3)
    ]


SMALL = {"metadata": metadata, "inputs": inputs, "registry": declared, "calibration": measured}
SLOW = {"metadata", "registry"}  # to compute again


def filled(arrays: cache.Arrays, value: int) -> None:
    arrays["x"][:] = value


def prepared(folder: Path) -> Questions:
    def ask(name: str, number: int) -> Any:
        (folder / f"raw{number}").write_text(str(number))
        layout = {"x": ((5,), "int64")}
        fill = partial(filled, value=number)
        found = cache.prepared(name, inputs=[folder / f"raw{number}"], code=[], layout=layout, fill=fill)
        return np.array(found["x"]).tolist()

    return [partial(ask, name, number) for number, name in enumerate(("one", "one", "other"))]


def unpacked(folder: Path) -> Questions:
    def ask(number: int, member: str) -> Any:
        file = folder / f"archive{number}.zip"
        if not file.exists():
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("a", f"the member a of {number}")
                archive.writestr("b", f"the member b of {number}")
        raw = RawFile(file.name, hashes.sha256(file), obtain="ask for it")
        place = locate_unpacked(raw, [member], folder)
        return {each.name: each.read_text() for each in place.iterdir() if not each.name.startswith(".")}

    return [partial(ask, *which) for which in ((0, "a"), (0, "b"), (1, "a"))]


FOLDERS = {"prepared": prepared, "unpacked": unpacked}


class Trial:
    """A cache of some answers, which is damaged and asked again."""

    def __init__(self, room: Path, questions: Questions) -> None:
        self.room, self.questions = room, questions
        self.expected = [ask() for ask in questions]
        assert [ask() for ask in questions] == self.expected
        self.intact = room.with_name("intact")
        shutil.copytree(room, self.intact)
        self.right = self.wrong = 0
        self.refused: list[str] = []

    def after(self, damage: Callable[[], None]) -> None:
        """Damage an intact cache and compare its answers with those of an empty cache."""
        shutil.rmtree(self.room)
        shutil.copytree(self.intact, self.room)
        damage()
        for ask, answer in zip(self.questions, self.expected, strict=True):
            try:
                right = ask() == answer
                self.right += right
                self.wrong += not right
            except DataError as error:
                self.refused.append(str(error))

    def summary(self) -> str:
        return f"{self.right} right, {len(self.refused)} refused, {self.wrong} wrong answers"


def flipped(file: Path, position: int, flip: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= flip
    file.write_bytes(content)


def swapped(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def in_place(file: Path, content: bytes | None) -> None:
    """Replace a file or folder by a file, or by an empty folder."""
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    file.mkdir() if content is None else file.write_bytes(content)


def damages(file: Path) -> Iterator[Callable[[], None]]:
    """Yield changes of one file of the cache."""
    draw, size = random.Random(file.name), file.stat().st_size
    for position in draw.sample(range(size), FLIPS):
        yield partial(flipped, file, position, draw.randrange(1, 256))
    for end in (size - 1, draw.randrange(1, size - 1)):
        yield partial(lambda end: file.write_bytes(file.read_bytes()[:end]), end)
    for content in (None, *OTHER):
        yield partial(in_place, file, content)
    yield file.unlink


def run(trial: Trial, changes: Iterator[Callable[[], None]]) -> None:
    for change in changes:
        trial.after(change)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in SMALL]
)
def test_15_3_damaged_and_swapped_answers_are_computed_again(
    kind: str, room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "_is_as_at_start", lambda file: True)
    trial = Trial(room, SMALL[kind](tmp_path))
    kept = sorted((room / kind).iterdir())
    assert len(kept) == len(trial.questions)
    run(trial, (partial(swapped, *pair) for pair in itertools.combinations(kept, 2)))
    run(trial, damages(kept[0]))
    print(f"\n15.3: {kind}: {trial.summary()}")
    assert (trial.refused, trial.wrong) == ([], 0)


@pytest.mark.parametrize("kind", FOLDERS)
def test_15_3_damaged_and_swapped_folders_are_refused_or_prepared_again(kind: str, room: Path, tmp_path: Path) -> None:
    trial = Trial(room, FOLDERS[kind](tmp_path))
    kept = sorted(file.parent for file in (room / kind).rglob(".manifest.json"))
    assert len(kept) == len(trial.questions)
    run(trial, (partial(swapped, *pair) for pair in itertools.combinations(kept, 2)))
    assert len(trial.refused) == 2 * 3
    run(trial, (partial(in_place, kept[0], content) for content in (None, b"")))
    for file in filter(Path.is_file, kept[0].iterdir()):
        run(trial, damages(file))
    print(f"\n15.3: {kind}: {trial.summary()}")
    assert trial.wrong == 0
    remedy = r"(run `silobench data prepare (one|other)` to prepare it again|delete the folder \S+)"
    assert all(re.fullmatch(rf"[^\n]*: is damaged: [^\n]*; {remedy}", message) for message in trial.refused)


def test_15_3_files_of_earlier_versions_are_not_used(room: Path, tmp_path: Path) -> None:
    """They had neither a question nor a manifest with one."""
    old = [
        room / "prepared" / "one-0123456789abcdef" / ".manifest.json",
        room / "unpacked" / "archive0.zip-0123456789abcdef" / ".manifest.json",
        *(room / kind / "0123456789abcdef.json" for kind in SMALL),
    ]
    for file in old:
        files.write_whole(file, json.dumps({"x.npy": ["0", 1, 1]}).encode())
    for questions in (*SMALL.values(), *FOLDERS.values()):
        for ask in questions(tmp_path):
            assert ask() == ask()
    assert cache.folders("one") == sorted((room / "prepared" / "one").glob("[0-9a-f]" * 16))
