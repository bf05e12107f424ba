"""Arrays prepared once: mapped, not copied; made anew when inputs change; never half there."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.data import cache
from bench.types import DataError

LAYOUT = {"x": ((4, 3), "float32"), "y": ((4,), "uint8")}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prepared"


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


def ask(source: Path, fill: Filler, layout: cache.Layout = LAYOUT) -> cache.Arrays:
    if not source.exists():
        source.write_text("raw")
    return cache.prepared("toy", inputs=[source], code=[Path(__file__)], layout=layout, fill=fill)


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


@pytest.mark.parametrize("change", ["content", "time", "name", "layout"])
def test_other_inputs_make_other_arrays(tmp_path: Path, change: str):
    source, fill = tmp_path / "raw", Filler()
    ask(source, fill)
    layout = LAYOUT | {"z": ((1,), "uint8")} if change == "layout" else LAYOUT
    if change == "content":
        source.write_text("other")
    elif change == "time":
        os.utime(source, ns=(0, 0))
    elif change == "name":
        source = source.rename(tmp_path / "other")
    ask(source, fill, layout)
    assert fill.calls == 2


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


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    fill = Filler()
    with pytest.raises(DataError, match=r"toy-.* cannot be written .*No space left .* set BENCH_CACHE"):
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
    file = next(folder.glob("toy-*/x.npy"))
    if damage == "gone":
        file.unlink()
    elif damage == "other shape":
        np.save(file, np.zeros((2, 2), dtype=np.float32))
    else:
        file.write_bytes(file.read_bytes()[: -1 if damage == "cut" else 0])
    with pytest.raises(DataError, match=r"x\.npy is damaged.*delete"):
        ask(tmp_path / "raw", Filler())


def test_a_changed_byte_is_found_when_verified(tmp_path: Path, folder: Path):
    ask(tmp_path / "raw", Filler())
    file = next(folder.glob("toy-*/x.npy"))
    cache.verify(file.parent)
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(DataError, match=r"x\.npy has changed since it was prepared; delete the folder"):
        cache.verify(file.parent)
