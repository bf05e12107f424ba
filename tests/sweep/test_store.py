"""The store: records are read back unchanged or the damage is reported; a failed write leaves no file."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sweep.plan import batch_name
from bench.sweep.store import FORMAT, Store, encode
from bench.types import DataError, SilobenchError

# Four runs of FENDA-FL's study, one per line, as the first release of silobench wrote them.
FORMAT_1 = (Path(__file__).parent / "fixtures" / "format1.jsonl").read_bytes()


def record(run: str, **more) -> dict:
    return {
        "format": FORMAT, "run": run, "status": "finished", "aggregated": [0.1 + 0.2, 1e-17, None],
        "clients": ["Zürich", 'a "quoted" one'], "path": "stack", **more,
    }  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def test_records_are_read_back_unchanged(store):
    store.write([record("a"), record("b")], seconds=1.5)
    store.write([record("c")], seconds=0.1)
    records = Store(store.path).records()
    assert sorted(records) == ["a", "b", "c"]
    checksum = records["a"].pop("sha256")
    assert records["a"] == record("a")
    rest = json.dumps(record("a"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert checksum == hashlib.sha256(rest.encode()).hexdigest()


def test_an_empty_store_has_no_records(store):
    assert store.records() == {}


def test_the_bytes_of_records_do_not_depend_on_their_cost(store, tmp_path):
    one = store.write([record("a")], seconds=1)
    other = Store(tmp_path / "other").write([dict(reversed(record("a").items()))], seconds=2)
    assert one.read_bytes() == other.read_bytes()
    assert one.name == other.name


def test_the_cost_of_a_run_batch_is_written_next_to_the_records(store):
    for run, seconds in (("a", 1.25), ("b", 3)):
        store.write([record(run)], seconds=seconds)
    costs = [json.loads(line) for line in (store.path / "costs.jsonl").read_text().splitlines()]
    assert [(cost["runs"], cost["seconds"], cost["path"]) for cost in costs] == [(1, 1.25, "stack"), (1, 3, "stack")]


RUNS = ("a", "b", "c")


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    file = Store(tmp_path_factory.mktemp("intact")).write([record(run) for run in RUNS], seconds=1)
    return file.name, file.read_bytes()


@pytest.fixture(scope="module", params=[FORMAT, 1])
def either(request, intact):
    """Return a file of records in the current format, or in the first one."""
    return intact if request.param == FORMAT else (f"{batch_name(run_of(line) for line in lines())}.jsonl", FORMAT_1)


def lines() -> list[bytes]:
    return FORMAT_1.splitlines(keepends=True)


def run_of(line: bytes) -> str:
    return json.loads(line)["run"]


def damaged(folder, name: str, content: bytes) -> str:
    """Return the error of the store for a file of records with this content."""
    file = folder / "records" / name
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(DataError) as error:
        Store(folder).records()
    message = str(error.value)
    assert message.startswith(f"{file}")
    assert f"delete {file} and repeat" in message
    assert "\n" not in message
    assert Store(folder).read_all() == ({}, [message])
    return message


@settings(max_examples=300)
@given(st.data())
def test_any_flipped_byte_is_found(tmp_path_factory, either, data):
    name, content = either
    place = data.draw(st.integers(0, len(content) - 1))
    bad = bytearray(content)
    bad[place] ^= data.draw(st.integers(1, 255))
    message = damaged(tmp_path_factory.mktemp("flipped"), name, bytes(bad))
    assert f"line {content[:place].count(10) + 1}: " in message


@given(st.data())
def test_any_truncation_is_found(tmp_path_factory, either, data):
    name, content = either
    place = data.draw(st.integers(0, len(content) - 1))
    message = damaged(tmp_path_factory.mktemp("cut"), name, content[:place])
    whole_lines = place == 0 or content[place - 1 : place] == b"\n"
    assert ("lines are missing" if whole_lines else f"line {content[:place].count(10) + 1}: truncated") in message


@given(st.integers(0, 10), st.integers(0, 10), st.data())
def test_any_block_of_zeros_is_found(tmp_path_factory, either, first, length, data):
    """A file system may write such blocks when the power fails."""
    name, content = either
    start = len(content) * first // 11
    end = min(len(content), start + 1 + length * 512)
    damaged(tmp_path_factory.mktemp("zeros"), name, content[:start] + bytes(end - start) + content[end:])


def test_damage_names_line_and_checksums(tmp_path, intact):
    name, content = intact
    message = damaged(tmp_path, name, content.replace(b'"run":"b"', b'"run":"x"'))
    second = content.split(b"\n")[1]
    written = json.loads(second)["sha256"]
    body = second.replace(b'"run":"b"', b'"run":"x"').rpartition(b',"sha256":')[0] + b"}"
    assert "line 2" in message
    assert written in message
    assert hashlib.sha256(body).hexdigest() in message


def test_missing_misplaced_and_swapped_lines_are_found(tmp_path, intact):
    name, content = intact
    lines = content.splitlines(keepends=True)
    for number, kept in enumerate((lines[:2], [*lines, lines[0]], lines[::-1])):
        (tmp_path / str(number)).mkdir()
        assert "lines are missing or misplaced" in damaged(tmp_path / str(number), name, b"".join(kept))


def test_a_file_that_cannot_be_read_is_named(store):
    store.write([record("a")], seconds=1)
    (store.path / "records" / "folder.jsonl").mkdir()
    with pytest.raises(DataError, match=r"folder\.jsonl: cannot be read \(Is a directory\)"):
        store.records()


def test_damage_does_not_hide_intact_records(store):
    for run in RUNS:
        store.write([record(run)], seconds=1)
    first, second, third = store.files()
    kept = json.loads(second.read_bytes())["run"]
    first.write_bytes(b"")
    third.write_bytes(third.read_bytes()[:-1])
    found, damage = store.read_all()
    assert list(found) == [kept]
    assert [message.partition(".jsonl")[0] for message in damage] == [str(first)[:-6], str(third)[:-6]]


def test_damaged_costs_are_left_out(store):
    for run in RUNS:
        store.write([record(run)], seconds=1)
    file = store.path / "costs.jsonl"
    first, second, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second.replace(b"{", b"\xff") + b"7\n{}\n" + third[:-9])
    assert [cost["population"] for cost in store.costs()] == [json.loads(first)["population"]]


def test_records_of_a_later_format_are_refused(store):
    store.write([record("a", format=FORMAT + 1)], seconds=1)
    with pytest.raises(DataError, match=rf"line 1: format {FORMAT + 1}, this version reads up to {FORMAT}; update"):
        store.records()


@pytest.mark.parametrize("forged", [{}, {"format": FORMAT}, {"format": []}, {"format": 1, "run": "a", "spec": []}])
def test_a_forged_line_with_the_right_checksum_is_refused(store, forged):
    file = store.write([record("a")], seconds=1)
    file.write_text(f"{encode(forged)}\n")
    with pytest.raises(DataError, match="line 1: is not a record; delete"):
        store.records()


def test_records_of_the_first_format_keep_their_hashes(store):
    (store.path / "records").mkdir(parents=True)
    for line in lines():
        (store.path / "records" / f"{batch_name([run_of(line)])}.jsonl").write_bytes(line)
    records = store.records()
    assert sorted(records) == sorted(map(run_of, lines()))
    for line in lines():
        old = json.loads(line)
        new = records[old["run"]]
        assert new["format"] == FORMAT
        assert (new["curves"], new["traces"]) == ({}, {})
        assert new["spec"]["budget"] == {**old["spec"]["budget"], "evaluate": "aggregated", "test_every": 0}
        assert new["spec"]["data"] == {**old["spec"]["data"], "by_seed": []}
        same = set(old) - {"format", "spec"}
        assert {key: new[key] for key in same} == {key: old[key] for key in same}


def test_ten_thousand_records_are_listed(store, record_property):
    for run_batch in range(40):
        store.write([record(f"{run_batch} {run}") for run in range(250)], seconds=1)
    start = time.perf_counter()
    assert len(store.records()) == 10_000
    record_property("seconds", time.perf_counter() - start)
    assert gc.isenabled()


def test_a_full_disk_leaves_no_partial_file_and_keeps_earlier_files(store, monkeypatch):
    kept = store.write([record("a")], seconds=1)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SilobenchError, match="cannot be written") as error:
            store.write([record("b")], seconds=1)
    assert os.strerror(errno.ENOSPC) in str(error.value)
    assert list(kept.parent.iterdir()) == [kept]
    assert list(store.records()) == ["a"]
    store.write([record("b")], seconds=1)
    assert sorted(store.records()) == ["a", "b"]


def test_the_leftover_of_a_killed_writer_is_ignored_and_deleted(store):
    kept = store.write([record("a")], seconds=1)
    left = kept.parent / ".tmp123.part"
    left.write_bytes(kept.read_bytes()[:50])
    assert list(store.records()) == ["a"]
    store.write([record("b")], seconds=1)
    assert not left.exists()


def test_not_a_number_is_never_written(store):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write([record("a", scores=[float("nan")])], seconds=1)
    assert store.records() == {}


def test_several_writers_do_not_disturb_each_other(store):
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda n: Store(store.path).write([record(str(n))], seconds=1), range(40)))
    assert len(store.records()) == 40
    assert len((store.path / "costs.jsonl").read_text().splitlines()) == 40
