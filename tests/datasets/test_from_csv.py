"""Users' tables: values computed by hand, and refusals in one line."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.data import load_dataset
from bench.types import DataError, Federation, SilobenchError, SpecError

NORTH = "age,sex,dose,died\n50,f,1,0\n60,m,1,1\n70,f,1,0\n80,m,1,1\n"
SOUTH = "age,sex,dose,died\n10,f,2,0\n20,f,4,1\n30,x,6,0\n40,f,8,1\n"


def folder(tmp_path: Path, **texts: str) -> Path:
    place = tmp_path / "hospitals"
    place.mkdir(exist_ok=True)
    for site, text in texts.items():
        (place / f"{site}.csv").write_text(text, encoding="utf-8")
    return place


def load(place: Path, **options: object) -> Federation:
    return load_dataset("from_csv", path=str(place), **{"target": "died", "test_fraction": 0.5} | options)


def everything(federation: Federation, site: str) -> np.ndarray:
    """All rows of a site with their targets, training rows first."""
    client = next(client for client in federation.clients if client.name == site)
    parts = [torch.cat([part.x, part.y.reshape(-1, 1)], dim=1) for part in (client.train, client.test)]
    return torch.cat(parts).numpy()


def test_a_folder_has_a_site_per_file(tmp_path: Path):
    federation = load(folder(tmp_path, north=NORTH, south=SOUTH))
    assert (federation.name, federation.task, federation.classes) == ("hospitals", "binary", 2)
    assert [(client.name, len(client.train), len(client.test)) for client in federation.clients] == [
        ("north", 2, 2),
        ("south", 2, 2),
    ]
    for client in federation.clients:
        assert client.train.y.sum() == client.test.y.sum() == 1
        assert client.train.x.dtype == torch.float32


def test_numbers_are_standardised_by_the_sites_own_training_rows(tmp_path: Path):
    federation = load(folder(tmp_path, north=NORTH, south=SOUTH), drop=["sex"])
    for client, text in zip(federation.clients, (NORTH, SOUTH), strict=True):
        torch.testing.assert_close(client.train.x[:, 0], torch.tensor([-1.0, 1.0]))
        ages = pd.Series([int(line.split(",")[0]) for line in text.splitlines()[1:]])
        rows = everything(federation, client.name)[:, 0]
        # Equal up to shift and scale, and in another order.
        np.testing.assert_allclose(np.sort(rows - rows.mean()) / rows.std(), (ages - ages.mean()) / ages.std(ddof=0))
    assert (everything(federation, "north")[:, 1] == 0).all()  # a constant


def test_words_become_columns_of_any_sites_training_rows(tmp_path: Path):
    place = folder(tmp_path, north=NORTH, south=SOUTH)
    seen = [load(place, drop=["age", "dose"], split_seed=seed) for seed in range(20)]
    widths = {federation.clients[0].train.x.shape[1] for federation in seen}
    assert widths == {2, 3}  # x is in one row, which is a training row or not
    for federation in seen:
        width = federation.clients[0].train.x.shape[1]
        women = everything(federation, "north")[:, 0]
        assert sorted(women) == [0, 0, 1, 1]
        test = federation.clients[1].test.x
        assert sorted(test.sum(dim=1).tolist()) == ([1, 1] if width == 3 else [0, 1])  # an unknown word is all zeros


def test_one_file_with_a_column_of_sites_is_the_same(tmp_path: Path):
    file = tmp_path / "hospitals.csv"
    rows = [f"{site},{row}" for site, text in (("south", SOUTH), ("north", NORTH)) for row in text.splitlines()[1:]]
    file.write_text("\n".join([f"city,{NORTH.splitlines()[0]}", *rows]))
    together = load(file, site_column="city")
    assert together.name == "hospitals"
    assert together.fingerprint == load(folder(tmp_path, north=NORTH, south=SOUTH)).fingerprint


def test_path_may_be_below_root(tmp_path: Path):
    place = folder(tmp_path, north=NORTH, south=SOUTH)
    below = load_dataset("from_csv", tmp_path, path="hospitals", target="died", test_fraction=0.5)
    assert below.fingerprint == load(place).fingerprint


def test_columns_may_stand_in_another_order(tmp_path: Path):
    swapped = pd.read_csv(io.StringIO(SOUTH))[["died", "dose", "sex", "age"]].to_csv(index=False)
    same = load(folder(tmp_path, north=NORTH, south=SOUTH)).fingerprint
    assert load(folder(tmp_path, north=NORTH, south=swapped)).fingerprint == same


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("no", "yes"), [0, 1]),
        (("2", "7"), [0, 1]),
        (("True", "False"), [1, 0]),
        (("b", "a"), [1, 0]),
        (("-1", "1"), [0, 1]),
    ],
)
def test_two_classes_are_numbered_in_the_order_of_their_values(
    tmp_path: Path, cells: tuple[str, str], expected: list[int]
):
    text = "age,died\n" + "".join(f"{age},{cells[age % 2]}\n" for age in range(8))
    federation = load(folder(tmp_path, north=text))
    rows = everything(federation, "north")
    assert rows[np.argsort(rows[:, 0]), 1].tolist() == expected * 4
    assert federation.task == "binary"


def test_more_classes_are_a_multi_class_task(tmp_path: Path):
    text = "age,died\n" + "".join(f"{age},{(10, 2, 33)[age % 3]}\n" for age in range(9))
    federation = load(folder(tmp_path, north=text, south=text))
    rows = everything(federation, "north")
    assert rows[np.argsort(rows[:, 0]), 1].tolist() == [1, 0, 2] * 3
    assert (federation.task, federation.classes) == ("multiclass", 3)
    assert federation.clients[0].train.y.dtype == torch.int64


def test_numbers_can_be_names(tmp_path: Path):
    text = "ward,died\n" + "".join(f"{(3, 12)[row % 2]},{row // 4}\n" for row in range(8))
    federation = load(folder(tmp_path, north=text), categorical=["ward"])
    rows = everything(federation, "north")
    assert {tuple(row[:2]) for row in rows.tolist()} == {(1, 0), (0, 1)}


def test_missing_cells_are_refused_or_filled(tmp_path: Path):
    holes = SOUTH.replace("20,f,4", ",f,4").replace("30,x", "30,")
    place = folder(tmp_path, north=NORTH, south=holes)
    with pytest.raises(DataError, match=r"south\.csv, row 2, column .age.: found nothing, expected a number"):
        load(place)
    with pytest.raises(DataError, match=r"south\.csv, row 3, column .sex.: the cell is empty"):
        load(place, drop=["age"])
    for seed in range(5):
        rows = everything(load(place, missing="mean", split_seed=seed), "south")
        assert (rows[:, 0] == 0).sum() >= 1
        assert (rows[:, 1:3].sum(axis=1) == 0).sum() == 1


def test_a_site_without_a_value_is_named(tmp_path: Path):
    empty = "age,sex,dose,died\n,f,2,0\n,f,4,1\n,f,4,1\n"
    with pytest.raises(DataError, match=r"column .age.: site 'south' has no value in its training rows; drop"):
        load(folder(tmp_path, north=NORTH, south=empty), missing="mean")


def test_split_seed_decides_who_is_tested_on(tmp_path: Path):
    text = "age,died\n" + "".join(f"{age},{age % 2}\n" for age in range(40))
    place = folder(tmp_path, north=text)
    first, again, other = (load(place, split_seed=seed).fingerprint for seed in (0, 0, 1))
    assert first == again != other


def altered(old: str, new: str) -> str:
    assert old in SOUTH
    return SOUTH.replace(old, new)


@pytest.mark.parametrize(
    ("south", "options", "message"),
    [
        ("", {}, r"south\.csv: is empty"),
        ("\n\n", {}, r"south\.csv: is empty"),
        ("age,sex,dose,died\n", {}, r"south\.csv: has a header but no rows"),
        (altered("age,", ""), {}, r"south\.csv, row 1: has more cells than there are columns"),
        (
            altered("10,f,2,0\n", "10,f,2,0,5\n"),
            {},
            r"south\.csv, row 1: has more cells than there are columns",
        ),
        (
            altered("20,f,4,1\n", "20,f,4,1,5\n"),
            {},
            r"south\.csv: is not a correct csv file \(Expected 4 fields in line 3, saw 5",
        ),
        (altered("20,f,4,1\n", "20,f\n"), {}, r"south\.csv, row 2, column .died.: found nothing"),
        (altered("age", "Age"), {}, r"south\.csv: there is no column 'age': did you mean 'Age'"),
        (altered("dose", "age"), {}, r"south\.csv: has more than one column 'age'; rename one of them"),
        (altered("dose", ""), {}, r"south\.csv: column 3 has no name; name it or remove it"),
        (SOUTH.replace(",", ";"), {}, r"south\.csv: has columns separated by semicolons, expected commas"),
        (
            altered("30", "3O"),
            {},
            r"south\.csv, row 3, column .age.: found '3O' among numbers; correct",
        ),
        (altered("30", "inf"), {}, r"south\.csv, row 3, column .age.: found inf, expected a number below 1e\+30"),
        (altered("30", "1e300"), {}, r"south\.csv, row 3, column .age.: found 1e\+300, expected a number below 1e\+30"),
        (
            altered("6,0", "6,0.5"),
            {},
            r"south\.csv, row 3, column .died.: found 0\.5, expected a class \(a whole number or a word\)",
        ),
        (altered("6,0", "6,"), {}, r"south\.csv, row 3, column .died.: found nothing"),
        (altered("6,0", "6,unknown"), {}, r"south\.csv, row 3, column .died.: found 'unknown' among numbers"),
        ("age,sex,dose,died\n10,f,2,0\n", {}, r"hospitals: site 'south' has 1 sample\(s\), expected at least 2"),
        (SOUTH, {"target": "dies"}, r"target of hospitals: there is no column 'dies': did you mean 'died'"),
        (SOUTH, {"drop": ["aeg"]}, r"north\.csv: there is no column 'aeg': did you mean 'age'"),
        (SOUTH, {"categorical": ["sx"]}, r"categorical of hospitals: there is no column 'sx': did you mean 'sex'"),
        (SOUTH, {"drop": ["age", "sex", "dose"]}, r"hospitals: the target is the only column"),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path: Path, south: str, options: dict[str, object], message: str):
    with pytest.raises(DataError, match=message) as caught:
        load(folder(tmp_path, north=NORTH, south=south), **options)
    assert "\n" not in str(caught.value)


def test_a_single_class_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"hospitals: all samples are of class 1\.0, expected at least 2 classes"):
        load(folder(tmp_path, north="age,died\n1,1\n2,1\n"))


def test_identifiers_as_words_are_refused(tmp_path: Path):
    text = "patient,died\n" + "".join(f"patient {row},{row % 2}\n" for row in range(400))
    with pytest.raises(
        DataError, match=r"column .patient.: has 200 different words, .* leave it out with drop = \['patient'\]"
    ):
        load(folder(tmp_path, north=text))


def test_too_large_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bench.data.readers.tables.MAX_TABLE_BYTES", 2**5)
    with pytest.raises(DataError, match=r"north\.csv: has 0\.0 GiB, expected at most"):
        load(folder(tmp_path, north=NORTH))


def test_other_encodings_are_named(tmp_path: Path):
    place = folder(tmp_path, north=NORTH)
    for header, text in (("age", "größe"), ("f", "weiblich ♀, ä")):
        (place / "south.csv").write_bytes(SOUTH.replace(header, text.replace("♀, ", "")).encode("latin-1"))
        with pytest.raises(DataError, match=r"south\.csv: is not UTF-8 text \(byte 0x[ef][46c]\); save it as UTF-8"):
            load(place)


def test_marks_of_byte_order_and_blank_lines_do_no_harm(tmp_path: Path):
    same = load(folder(tmp_path, north=NORTH, south=SOUTH)).fingerprint
    (tmp_path / "hospitals" / "south.csv").write_bytes(SOUTH.replace("\n", "\r\n\r\n").encode("utf-8-sig"))
    assert load(tmp_path / "hospitals").fingerprint == same


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "path = '': expected the path of your data"),
        ({"target": ""}, "target = '': expected the name of the column to predict"),
        ({"site_column": "sex"}, "site_column = 'sex': in a folder every file is a site"),
        ({"site_column": "died"}, "site_column = 'died': expected the name of another column"),
        ({"missing": "median"}, "missing = 'median': did you mean 'mean'"),
        ({"drop": "age"}, "drop = 'age': expected a list of column names"),
        ({"drop": ["died"]}, r"drop = \['died'\]: 'died' is the target or the site column"),
        ({"test_fraction": 1.0}, "test_fraction = 1.0: expected a share between 0 and 1"),
        ({"split_seed": -1}, "split_seed = -1: expected a whole number from 0"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, object], message: str):
    with pytest.raises(SpecError, match=message):
        load_dataset(
            "from_csv", **{"path": str(folder(tmp_path, north=NORTH, south=SOUTH)), "target": "died"} | options
        )


def test_missing_files_and_columns_are_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"path = 'nowhere': there is no .*nowhere"):
        load_dataset("from_csv", tmp_path, path="nowhere", target="died")
    with pytest.raises(DataError, match=r"hospitals: there is no csv or parquet file in this folder"):
        load(folder(tmp_path))
    with pytest.raises(SpecError, match=r"north\.csv: is one file; name the column of sites"):
        load(folder(tmp_path, north=NORTH) / "north.csv")


def test_two_files_of_one_site_are_refused(tmp_path: Path):
    place = folder(tmp_path, north=NORTH)
    (place / "north.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"north\.parquet: site 'north' has another file"):
        load(place)


def test_parquet_is_the_same_as_csv(tmp_path: Path):
    pytest.importorskip("pyarrow")
    same = load(folder(tmp_path, north=NORTH, south=SOUTH)).fingerprint
    for site in ("north", "south"):
        file = tmp_path / "hospitals" / f"{site}.csv"
        pd.read_csv(file).astype({"sex": "category"}).to_parquet(file.with_suffix(".parquet"))
        file.unlink()
    assert load(tmp_path / "hospitals").fingerprint == same
    (tmp_path / "hospitals" / "south.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"south\.parquet: is not a correct parquet file"):
        load(tmp_path / "hospitals")
    when = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"] * 4), "died": [0, 1, 0, 1]})
    when.to_parquet(tmp_path / "when.parquet")
    with pytest.raises(
        DataError, match=r"when\.parquet, row 1, column .when.: found a Timestamp, expected a number or a"
    ):
        load(tmp_path / "when.parquet", site_column="died", target="when")


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (folder(tmp_path) / "north.parquet").write_bytes(b"PAR1")
    with pytest.raises(SilobenchError, match=r"pyarrow.*pip install 'silobench\[parquet\]'"):
        load(tmp_path / "hospitals")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, len(SOUTH) - 1), bytes_=st.binary(max_size=6))
def test_any_damage_gives_a_federation_or_one_line(tmp_path: Path, place: int, bytes_: bytes):
    content = SOUTH.encode()
    folder(tmp_path, north=NORTH)
    (tmp_path / "hospitals" / "south.csv").write_bytes(content[:place] + bytes_ + content[place + len(bytes_) :])
    try:
        load(tmp_path / "hospitals")
    except SilobenchError as error:
        message = str(error)
        assert "\n" not in message
