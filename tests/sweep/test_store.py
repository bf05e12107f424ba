"""The store: records come back as they were, or the damage is named; a failed write leaves nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sweep.store import Store
from bench.types import DataError, SilobenchError


def record(run: str, **more) -> dict:
    return {
        "format": 1, "run": run, "status": "finished", "aggregated": [0.1 + 0.2, 1e-17, None],
        "clients": ["Zürich", 'a "quoted" one'], "path": "stack", **more,
    }  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def test_records_come_back_as_they_were(store):
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


def test_same_records_same_bytes_whatever_they_cost(store, tmp_path):
    one = store.write([record("a")], seconds=1)
    other = Store(tmp_path / "other").write([dict(reversed(record("a").items()))], seconds=2)
    assert one.read_bytes() == other.read_bytes()
    assert one.name == other.name


def test_cost_of_a_population_is_noted_beside_the_records(store):
    for run, seconds in (("a", 1.25), ("b", 3)):
        store.write([record(run)], seconds=seconds)
    costs = [json.loads(line) for line in (store.path / "costs.jsonl").read_text().splitlines()]
    assert [(cost["runs"], cost["seconds"], cost["path"]) for cost in costs] == [(1, 1.25, "stack"), (1, 3, "stack")]


RUNS = ("a", "b", "c")


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    file = Store(tmp_path_factory.mktemp("intact")).write([record(run) for run in RUNS], seconds=1)
    return file.name, file.read_bytes()


def damaged(folder, name: str, content: bytes) -> str:
    """How the store complains about a records file with this content."""
    (folder / "records").mkdir()
    (folder / "records" / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        Store(folder).records()
    message = str(error.value)
    assert f"delete {folder / 'records' / name} and repeat" in message
    assert "\n" not in message
    return message


@settings(max_examples=300)
@given(st.data())
def test_any_flipped_byte_is_found(tmp_path_factory, intact, data):
    name, content = intact
    place = data.draw(st.integers(0, len(content) - 1))
    bad = bytearray(content)
    bad[place] ^= data.draw(st.integers(1, 255))
    damaged(tmp_path_factory.mktemp("flipped"), name, bytes(bad))


@given(st.data())
def test_any_cut_is_found(tmp_path_factory, intact, data):
    name, content = intact
    damaged(tmp_path_factory.mktemp("cut"), name, content[: data.draw(st.integers(0, len(content) - 1))])


def test_damage_names_line_and_checksums(tmp_path, intact):
    name, content = intact
    message = damaged(tmp_path, name, content.replace(b'"run":"b"', b'"run":"x"'))
    second = content.split(b"\n")[1]
    written = json.loads(second)["sha256"]
    body = second.replace(b'"run":"b"', b'"run":"x"').rpartition(b',"sha256":')[0] + b"}"
    assert "line 2" in message
    assert written in message
    assert hashlib.sha256(body).hexdigest() in message


def test_a_lost_a_foreign_and_a_swapped_line_are_found(tmp_path, intact):
    name, content = intact
    lines = content.splitlines(keepends=True)
    for number, kept in enumerate((lines[:2], [*lines, lines[0]], lines[::-1])):
        (tmp_path / str(number)).mkdir()
        assert "lines are missing or foreign" in damaged(tmp_path / str(number), name, b"".join(kept))


def test_records_of_another_format_are_refused(store):
    store.write([record("a") | {"format": 2}], seconds=1)
    with pytest.raises(DataError, match="line 1: format 2, this version reads 1"):
        store.records()


def test_a_full_disk_leaves_nothing_and_what_was_there_stays(store, monkeypatch):
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


def test_what_a_killed_writer_left_is_no_record_and_is_swept(store):
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
