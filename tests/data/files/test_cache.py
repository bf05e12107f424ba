"""Prepared arrays: mapped, not copied; rebuilt when inputs change; never incomplete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.files import cache, hashes, manifest
from bench.types import DataError

LAYOUT = {"x": ((4, 3), "float32"), "y": ((4,), "uint8")}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prepared" / "toy"


class Filler:
    """Fills the arrays and counts how often it was asked to."""

    def __init__(self, fails: bool = False) -> None:
        self.calls, self.fails = 0, fails

    def __call__(self, arrays: cache.Arrays) -> None:
        self.calls += 1
        arrays["x"][:] = np.arange(12).reshape(4, 3)
        if self.fails:
            raise DataError("damaged input")
        arrays["y"][:] = 7


def ask(
    source: Path, fill: Filler, layout: cache.Layout = LAYOUT, code: list[Path] | None = None, order: str = "rising"
) -> cache.Arrays:
    if not source.exists():
        source.write_text("raw")
    code, options = code or [Path(__file__)], {"order": order}
    return cache.prepared("toy", inputs=[source], code=code, layout=layout, fill=fill, options=options)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_the_first_call_prepares_and_later_ones_map(tmp_path: Path):
    fill = Filler()
    for _ in range(2):
        arrays = ask(tmp_path / "raw", fill)
        assert arrays["x"].tolist() == np.arange(12).reshape(4, 3).tolist()
        assert arrays["y"].tolist() == [7, 7, 7, 7]
        assert all(isinstance(array, np.memmap) for array in arrays.values())
    assert fill.calls == 1


def test_tensors_share_the_mapped_memory_and_never_change_the_file(tmp_path: Path):
    array = ask(tmp_path / "raw", Filler())["x"]
    tensor = torch.from_numpy(array)
    assert tensor.data_ptr() == array.ctypes.data
    tensor.zero_()
    assert ask(tmp_path / "raw", Filler())["x"].sum() == 66


@pytest.mark.parametrize("change", ["content", "name", "layout", "code", "options"])
def test_changed_inputs_are_prepared_again(tmp_path: Path, change: str):
    source, fill = tmp_path / "raw", Filler()
    ask(source, fill)
    layout = LAYOUT | {"z": ((1,), "uint8")} if change == "layout" else LAYOUT
    if change == "content":
        source.write_text("other")
    elif change == "name":
        source = source.rename(tmp_path / "other")
    code = [Path(cache.__file__)] if change == "code" else [Path(__file__)]
    ask(source, fill, layout, code, "falling" if change == "options" else "rising")
    assert fill.calls == 2


def test_moved_or_touched_files_with_the_same_content_are_not_prepared_again(tmp_path: Path):
    source, fill = tmp_path / "raw", Filler()
    ask(source, fill)
    os.utime(source, ns=(0, 0))
    ask(source, fill)
    (tmp_path / "moved").mkdir()
    ask(source.rename(tmp_path / "moved" / "raw"), fill)
    assert fill.calls == 1


def test_unchanged_inputs_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = tmp_path / "raw"
    source.write_text("raw")
    monkeypatch.setattr(hashes, "CLOCK_STEP", 0)
    ask(source, Filler())
    read, sha256 = [], hashes.sha256
    monkeypatch.setattr(hashes, "sha256", lambda file: read.append(file) or sha256(file))
    ask(source, Filler())
    assert source not in read


def test_files_are_read_once_until_one_changes(tmp_path: Path):
    one, two, calls = tmp_path / "one", tmp_path / "two", []

    def read(*files: Path) -> str:
        calls.append(files)
        if not (text := "".join(file.read_text() for file in files)):
            raise DataError("empty")
        return text

    one.write_text("")
    two.write_text("")
    for _ in range(2):  # failures are not cached
        with pytest.raises(DataError, match="empty"):
            cache.remembered(read, one, two)
    two.write_text("a")
    assert [cache.remembered(read, one, two) for _ in range(3)] == ["a"] * 3
    assert len(calls) == 3
    assert cache.remembered(read, two, one, two) == "aa"
    os.utime(two, ns=(1, 1))
    two.write_text("b")
    assert cache.remembered(read, one, two) == "b"


def test_a_failure_leaves_nothing(tmp_path: Path, folder: Path):
    with pytest.raises(DataError, match="damaged input"):
        ask(tmp_path / "raw", Filler(fails=True))
    assert visible(folder) == []
    assert ask(tmp_path / "raw", Filler())["y"].tolist() == [7, 7, 7, 7]


def test_callers_at_the_same_time_prepare_once(tmp_path: Path):
    fill, barrier, found = Filler(), threading.Barrier(4), []
    (tmp_path / "raw").write_text("raw")

    def call() -> None:
        barrier.wait()
        found.append(ask(tmp_path / "raw", fill)["x"].sum())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (fill.calls, found) == (1, [66, 66, 66, 66])


def test_a_full_disk_is_reported_before_writing(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    fill = Filler()
    with pytest.raises(DataError, match=r"toy/.*: cannot be written .*No space left .* set BENCH_CACHE"):
        ask(tmp_path / "raw", fill)
    assert fill.calls == 0
    assert visible(folder) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("a file where the folder should be")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot be written .* set BENCH_CACHE"):
        ask(tmp_path / "raw", Filler())


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "other shape"])
def test_damaged_arrays_are_refused(tmp_path: Path, folder: Path, damage: str):
    ask(tmp_path / "raw", Filler())
    file = next(folder.glob("*/x.npy"))
    if damage == "gone":
        file.unlink()
    elif damage == "other shape":
        np.save(file, np.zeros((2, 2), dtype=np.float32))
    else:
        file.write_bytes(file.read_bytes()[: -1 if damage == "cut" else 0])
    with pytest.raises(DataError, match=r"x\.npy: is damaged: .*; run `silobench data prepare toy` to prepare it"):
        ask(tmp_path / "raw", Filler())


@given(position=st.integers(0, 10**6), flip=st.integers(1, 255), settled=st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_changed_byte_is_found_before_use(position: int, flip: int, settled: bool):
    with TemporaryDirectory() as room, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", f"{room}/cache")
        ask(Path(room) / "raw", Filler())
        file = next(Path(room).glob("cache/prepared/toy/*/x.npy"))
        if settled:  # long before the change
            os.utime(file, ns=(0, 0))
            ask(Path(room) / "raw", Filler())
        raw = bytearray(file.read_bytes())
        raw[position % len(raw)] ^= flip
        file.write_bytes(raw)
        with pytest.raises(DataError, match=r"x\.npy: is damaged: expected sha256 .*; run `silobench data prepare"):
            ask(Path(room) / "raw", Filler())


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"x.npy": 1}', b"\xff"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, folder: Path, content: bytes | None):
    ask(tmp_path / "raw", Filler())
    file = next(folder.glob(f"*/{manifest.MANIFEST}"))
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(DataError, match=r"manifest\.json: is damaged: (cannot be read|its checksum).*; run `silo"):
        ask(tmp_path / "raw", Filler())


def test_a_change_with_the_same_size_and_modification_time_is_found(tmp_path: Path, folder: Path):
    ask(tmp_path / "raw", Filler())
    file = next(folder.glob("*/x.npy"))
    time_before = file.stat().st_mtime_ns
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    os.utime(file, ns=(time_before, time_before))
    found = manifest.deviations(file.parent)
    assert found["x.npy"].startswith("expected sha256 ")
    assert found["y.npy"] == ""


def test_a_folder_in_the_place_of_another_is_refused(tmp_path: Path, folder: Path):
    first, second = Filler(), Filler()
    ask(tmp_path / "first", first)
    ask(tmp_path / "second", second)
    one, other = cache.folders("toy")
    one.rename(folder / "aside")
    other.rename(one)
    (folder / "aside").rename(other)
    for name in ("first", "second"):
        with pytest.raises(DataError, match=r"is damaged: it belongs to the folder [0-9a-f]{16}; run `silobench data"):
            ask(tmp_path / name, Filler())


def test_a_file_in_the_place_of_a_folder_is_replaced(tmp_path: Path, folder: Path):
    ask(tmp_path / "raw", Filler())
    (place,) = cache.folders("toy")
    place.rename(folder / "aside")
    place.touch()
    assert ask(tmp_path / "raw", Filler())["x"].sum() == 66


def test_other_versions_of_the_decoding_libraries_prepare_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fill = Filler()
    ask(tmp_path / "raw", fill)
    monkeypatch.setattr(cache, "versions", lambda libraries: dict.fromkeys(libraries, "0.1"))
    ask(tmp_path / "raw", fill)
    assert fill.calls == 2


PROCESS = """
import os, sys, time
from pathlib import Path
from bench.data.files import cache
log, source, patience = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
def fill(arrays):
    with log.open("a") as file:
        file.write("filled\\n")
    arrays["x"][:] = 1
    time.sleep(patience)
    arrays["x"][:] = 2
arrays = cache.prepared("toy", inputs=[source], code=[source], layout={"x": ((4,), "float32")}, fill=fill)
print(arrays["x"].sum())
"""


def process(log: Path, source: Path, patience: float) -> subprocess.Popen[str]:
    source.write_text("raw")
    command = [sys.executable, "-c", PROCESS, str(log), str(source), str(patience)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_at_the_same_time_prepare_once(tmp_path: Path):
    processes = [process(tmp_path / "log", tmp_path / "raw", 0.5) for _ in range(3)]
    assert [each.communicate(timeout=60) for each in processes] == [("8.0\n", "")] * 3
    assert (tmp_path / "log").read_text() == "filled\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_files_of_a_killed_process_are_removed(tmp_path: Path, folder: Path):
    killed = process(tmp_path / "log", tmp_path / "raw", 60)
    while not (tmp_path / "log").exists():
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert any(name.startswith(".") for name in visible(folder))
    assert process(tmp_path / "log", tmp_path / "raw", 0).communicate(timeout=60) == ("8.0\n", "")
    assert [folder / name for name in visible(folder)] == cache.folders("toy")
