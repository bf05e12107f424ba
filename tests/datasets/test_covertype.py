"""Covertype: golden values of the authors' files, and the same values from a file in UCI's format."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import LabelEncoder, OrdinalEncoder, StandardScaler

import bench
from bench.data import load_dataset
from bench.data.files import cache, cards
from bench.registry import load
from bench.types import DataError, Federation, SpecError, Split

adapter = load("datasets", "covertype").__globals__
DISTANCES = ["elevation", "aspect", "slope", "hhdist", "vhdist", "hrdist", "hfpdist"]


@pytest.fixture(scope="module")
def federation(bench_data: Path) -> Federation:
    return load_dataset("covertype", bench_data, source="prepared")


@pytest.fixture(scope="module")
def soils(bench_data: Path) -> list[int]:
    """The ecological landtype units of soil types 1 to 40, from UCI's description."""
    text = (bench_data / "covertype" / "covtype.info").read_text(encoding="latin-1")
    lines = re.findall(r"^[ \t]*(\d+)[ \t]+(\d{4})[ \t]", text, flags=re.MULTILINE)
    assert [int(number) for number, _ in lines] == list(range(1, 41))
    return [int(unit) for _, unit in lines]


def frame(bench_data: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(bench_data / "covertype" / f"covertype11_{name}.csv")


def counts(split: Split | None) -> list[int] | None:
    return None if split is None else torch.bincount(split.y).tolist()


def test_sizes_and_classes_are_golden(federation: Federation):
    assert {client.name: (client.classes, counts(client.train)) for client in federation.clients} == {
        "comanche": (6, [698, 706, 644, 976, 722, 1025]),
        "neota": (3, [140, 52, 194]),
        "poudre": (4, [14, 976, 1620, 898]),
        "rawah": (4, [782, 848, 644, 401]),
    }
    assert [len(client.train) for client in federation.clients] == [4771, 386, 3508, 2675]
    assert [len(client.validation) for client in federation.clients] == [1578, 113, 1167, 922]
    assert [counts(client.test) for client in federation.clients] == [
        None,
        [18414, 8919, 2052],
        [3006, 20157, 587, 8543],
        None,
    ]
    assert (federation.task, federation.classes) == ("multiclass", 7)
    assert federation.fingerprint == "efae95802e353d73a2652a0c590c3f3206f20a73a78afd96be066a2b5af4e071"


@pytest.mark.parametrize("client", ["comanche", "neota", "poudre", "rawah"])
def test_values_equal_an_independent_preparation(bench_data: Path, federation: Federation, client: str):
    found = next(found for found in federation.clients if found.name == client)
    train = frame(bench_data, f"train_{client}")
    numeric = [*DISTANCES, "soil_type", "climate_zone", "geologic_zone"]
    columns = make_column_transformer((StandardScaler(), numeric), (OrdinalEncoder(), ["wilderness_area"]))
    columns.fit(train)
    labels = LabelEncoder().fit(train["target"])
    for part in ("train", "validation", "test"):
        split = getattr(found, part)
        if split is None:
            assert (client, part) in {("comanche", "test"), ("rawah", "test")}
            continue
        rows = frame(bench_data, f"{part}_{client}")
        np.testing.assert_allclose(split.x, columns.transform(rows), rtol=0, atol=1e-5)
        np.testing.assert_array_equal(split.y, labels.transform(rows["target"]))


def test_union_of_labels_gives_every_client_seven_classes(bench_data: Path, federation: Federation):
    union = load_dataset("covertype", bench_data, source="prepared", labels="union")
    for client, own in zip(union.clients, federation.clients, strict=True):
        assert client.classes is None
        assert torch.equal(client.train.x, own.train.x)
        assert torch.equal(torch.unique(client.train.y)[own.train.y], client.train.y)
    assert torch.bincount(torch.cat([client.train.y for client in union.clients])).tolist() == [1620] * 7


def test_pooled_normalisation_is_that_of_the_central_file(bench_data: Path):
    pooled = load_dataset("covertype", bench_data, source="prepared", labels="union", normalisation="pooled")
    central = frame(bench_data, "train")
    scaled = StandardScaler().fit_transform(central[[*DISTANCES, "soil_type", "climate_zone", "geologic_zone"]])
    area = central["wilderness_area"].map({"comanche": 0, "neota": 1, "poudre": 2, "rawah": 3})
    for code, client in enumerate(pooled.clients):
        np.testing.assert_allclose(client.train.x[:, :10], scaled[area == code], rtol=0, atol=1e-5)
        assert (client.train.x[:, 10] == code).all()


def test_files_are_parsed_once_in_a_process(bench_data: Path, federation: Federation, monkeypatch: pytest.MonkeyPatch):
    cache._remembered.cache_clear()
    read, parsed = adapter["read_numbers"], []
    monkeypatch.setitem(adapter, "read_numbers", lambda file, *rest: parsed.append(file.name) or read(file, *rest))
    first = load_dataset("covertype", bench_data, source="prepared")
    first.clients[1].train.x.zero_()  # no other load sees the change
    again, union = (load_dataset("covertype", bench_data, source="prepared", labels=each) for each in ("own", "union"))
    assert again.fingerprint == federation.fingerprint != union.fingerprint
    assert len(parsed) == len(set(parsed)) == 10


@pytest.mark.parametrize(("algorithm", "labels"), [("local", "own"), ("fedavg", "union")])
def test_a_run_of_a_published_seed_scores_neota_and_poudre(bench_data: Path, algorithm: str, labels: str):
    """Every client has ten mini-batches per epoch; clients without test rows only train."""
    federation = load_dataset("covertype", bench_data, source="prepared", labels=labels)
    result = bench.run(
        federation,
        algorithm,
        "logistic",
        hyperparameters={"lr": 1e-2},
        rounds=1,
        local_epochs=1,
        batches=10,
        optimizer="adamw",
        seeds=[8],
        checkpoint="latest",
    )
    scores = result.scores
    assert sorted(scores.client.unique()) == [1, 2]
    assert scores.groupby("client").size().tolist() == [len(federation.metrics)] * 2
    assert not scores.value.isna().any()
    by_metric = scores[scores.client == 1].set_index("metric").value
    published, present = by_metric["auroc_of_outputs_absent_half"], by_metric["auroc_of_outputs_present"]
    if labels == "own":
        assert published == present
    else:  # the client has three of seven types
        assert published == pytest.approx((3 * present + 4 * 0.5) / 7)
        assert by_metric["auprc_of_outputs_absent_zero"] == pytest.approx(3 / 7 * by_metric["auprc_of_outputs_present"])
    assert by_metric["auroc_present"] != present


def as_raw(rows: pd.DataFrame, soils: list[int]) -> np.ndarray:
    """Prepared rows as UCI writes them, (n, 55); the hill shades are not known and become 1, 2 and 3."""
    raw = np.zeros((len(rows), 55), dtype=np.int16)
    raw[:, :6] = rows[DISTANCES[:6]]
    raw[:, 6:9] = 1, 2, 3
    raw[:, 9] = rows["hfpdist"]
    areas = rows["wilderness_area"].map({"rawah": 10, "neota": 11, "comanche": 12, "poudre": 13})
    units = rows["soil_type"].map({unit: 14 + place for place, unit in enumerate(soils)})
    raw[np.arange(len(rows)), areas] = 1
    raw[np.arange(len(rows)), units] = 1
    raw[:, 54] = rows["target"]
    return raw


def as_text(raw: np.ndarray) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in raw.tolist())


def test_raw_file_gives_what_the_authors_prepared(
    bench_data: Path, soils: list[int], federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Use all available rows of the raw file in its order; comanche and rawah then have no test rows."""
    parts = [frame(bench_data, name) for name in ("train", "validation", "test_poudre", "test_neota")]
    content = gzip.compress(as_text(as_raw(pd.concat(parts), soils)).encode(), compresslevel=1)
    (tmp_path / "covtype.data.gz").write_bytes(content)
    raw = adapter["FILES"]["raw"]
    monkeypatch.setitem(
        adapter["FILES"], "raw", replace(raw, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    )
    monkeypatch.setitem(adapter, "ROWS", sum(map(len, parts)))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    assert load_dataset("covertype", tmp_path).fingerprint == federation.fingerprint
    # Another process has nothing but the cache.
    cache._remembered.cache_clear()
    monkeypatch.delitem(adapter, "_read_raw")
    assert load_dataset("covertype", tmp_path).fingerprint == federation.fingerprint


def test_central_files_are_decoded_from_raw_rows(bench_data: Path, soils: list[int]):
    rows = frame(bench_data, "train")
    decoded = pd.DataFrame(adapter["decode"](as_raw(rows, soils)), columns=[*adapter["FEATURES"], "target"])
    decoded["wilderness_area"] = decoded["wilderness_area"].map(dict(enumerate(adapter["CLIENTS"])))
    pd.testing.assert_frame_equal(decoded[rows.columns], rows, check_dtype=False)


def test_every_soil_is_decoded(soils: list[int]):
    raw = np.zeros((40, 55), dtype=np.int16)
    raw[:, 10] = raw[:, 54] = 1
    raw[:, 14:54] = np.eye(40)
    decoded = adapter["decode"](raw)
    columns = [adapter["FEATURES"].index(name) for name in ("soil_type", "climate_zone", "geologic_zone")]
    assert decoded[:, columns].tolist() == [[unit, int(str(unit)[0]), int(str(unit)[1])] for unit in soils]


def test_parts_are_cut_by_place():
    rows = np.zeros((20000, 12))
    rows[:, 0] = np.arange(20000)
    parts = adapter["by_client"](rows)
    assert {part: (len(cut["comanche"]), cut["comanche"][0, 0], len(cut["neota"])) for part, cut in parts.items()} == {
        "train": (11340, 0, 0),
        "validation": (3780, 11340, 0),
        "test": (4880, 15120, 0),
    }


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (10, 0, "row 2: no wilderness area, expected one 1 in columns 11 to 14"),
        (11, 1, "row 2: no wilderness area"),
        (14, 0, "row 2: no soil type, expected one 1 in columns 15 to 54"),
        (53, 1, "row 2: no soil type"),
        (54, 0, "row 2: no cover type, expected 1 to 7 in column 55"),
        (54, 8, "row 2: no cover type"),
    ],
)
def test_altered_raw_rows_are_refused(column: int, value: int, message: str):
    raw = np.zeros((3, 55), dtype=np.int16)
    raw[:, [10, 14, 54]] = 1
    raw[1, column] = value
    with pytest.raises(DataError, match=rf"^covtype\.data, {message}"):
        adapter["decode"](raw)


@pytest.mark.parametrize("text", ["1,2\n1,2,3\n", "1,2\n1,\n", "1,x\n", "1,70000\n", "", "a,b\n1,2\n", "1,2\n"])
def test_files_in_another_format_are_refused(tmp_path: Path, text: str):
    file = tmp_path / "covtype.data.gz"
    file.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=r"^\S*covtype\.data[^\n]*$"):
        adapter["decode"](adapter["_read_raw"](file))


def test_class_that_training_rows_lack_is_refused():
    rows = np.zeros((6, 12))
    rows[:, -1] = [1, 2, 1, 2, 1, 3]
    parts = {"train": {"comanche": rows[:4]}, "validation": {"comanche": rows[:4]}, "test": {"comanche": rows[4:]}}
    with pytest.raises(DataError, match="client 'comanche', test: has a class that the client's training rows lack"):
        adapter["_client"]("comanche", parts, True, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "prepare"}, "source = 'prepare': did you mean 'prepared'"),
        ({"labels": "all"}, "labels = 'all': expected one of own, union"),
        ({"normalisation": "pool"}, "normalisation = 'pool': did you mean 'pooled'"),
    ],
)
def test_bad_options_name_the_nearest(options: dict[str, str], message: str):
    with pytest.raises(SpecError, match=message):
        load_dataset("covertype", **options)


def test_only_the_files_of_a_source_are_needed(bench_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    card = cards.read("covertype")
    raw, prepared = card.needed(), card.needed({"source": "prepared"})
    assert [file.names for file in raw] == [("covertype/covtype.data.gz",)]
    assert len(prepared) == 10
    assert card.needed({"source": "prepared"}, {}) == (*raw, *prepared)
    assert card.at_hand(bench_data, {"source": "prepared"}) == "all files"
    assert card.at_hand(bench_data) == "0 of 1 files"
