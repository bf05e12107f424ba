"""GEMINI: preparation of small tables in the documented format, and synthetic data of the printed sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from bench._datasets import hospital_stays
from bench.data import load_dataset
from bench.registry import load
from bench.types import DataError, Federation, SpecError

mortality = load("datasets", "gemini_mortality").__globals__
delirium = load("datasets", "gemini_delirium").__globals__
CSV = """hospital,part,target,age,ward,text_notes,urea
b,train,0,40,east,calm night,1.5
a,train,1,80,west,restless night,-3
a,train,0,20,east,,2
a,test,1,100,north,calm stranger,6
b,train,1,60,,restless,0
"""


def put(folder: Path, text: str = CSV, name: str = "mortality") -> Path:
    (folder / "gemini").mkdir(exist_ok=True)
    (folder / "gemini" / f"{name}.csv").write_text(text)
    return folder


@pytest.fixture(scope="module")
def stand_in() -> Federation:
    return load_dataset("gemini_delirium", width=40)


def test_the_pipeline_by_hand(tmp_path: Path):
    """Columns: age, ward east and west, the words calm, night and restless, urea; scales from training rows."""
    federation = load_dataset("gemini_mortality", put(tmp_path), source="files")
    a, b = federation.clients
    assert (a.name, b.name, b.test) == ("a", "b", None)
    weights = TfidfVectorizer().fit_transform(["calm night", "restless night", "", "restless"]).toarray()
    weights = weights / weights.max(axis=0)
    np.testing.assert_allclose(
        a.train.x, [[1, 0, 1, *weights[1], -1], [0.25, 1, 0, *weights[2], 2 / 3]], rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(
        b.train.x, [[0.5, 1, 0, *weights[0], 0.5], [0.75, 0, 0, *weights[3], 0]], rtol=0, atol=1e-6
    )
    calm_alone = 1 / TfidfVectorizer().fit_transform(["calm night", "restless night", "", "restless"]).toarray()[0, 0]
    np.testing.assert_allclose(a.test.x, [[1.25, 0, 0, calm_alone, 0, 0, 2]], rtol=0, atol=1e-6)
    assert (a.train.y.flatten().tolist(), a.test.y.tolist(), b.train.y.flatten().tolist()) == ([1, 0], [[1]], [0, 1])
    assert not federation.synthetic
    assert federation.metrics == ("accuracy", "auroc", "accuracy_at_logit_half")


def test_test_rows_teach_nothing(tmp_path: Path):
    first = load_dataset("gemini_mortality", put(tmp_path), source="files")
    changed = CSV.replace("a,test,1,100,north,calm stranger,6", "a,test,0,-900,south,night night dawn,77")
    second = load_dataset("gemini_mortality", put(tmp_path, changed), source="files")
    for before, after in zip(first.clients, second.clients, strict=True):
        assert torch.equal(before.train.x, after.train.x)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hospital,", "site,", "there is no column 'hospital'"),
        ("b,train,0", "b,validation,0", r"row 1, column .part.: found 'validation', expected train or test"),
        ("a,train,1", "a,train,2", r'row 2, column "target": found 2, expected 0 or 1'),
        ("a,train,1", "a,train,", r'row 2, column "target": found nothing, expected a number'),
        ("a,train,1", ",train,1", r'row 2, column "hospital": the cell is empty'),
        ("80,west", ",west", r'row 2, column "age": found nothing, expected a number'),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, old: str, new: str, message: str):
    folder = put(tmp_path, CSV.replace(old, new))
    with pytest.raises(DataError, match=message) as caught:
        load_dataset("gemini_mortality", folder, source="files")
    assert "\n" not in str(caught.value)


def test_text_without_a_word_and_words_without_end_are_refused(tmp_path: Path):
    rows = [f"a,train,{number % 2},1,ward{number},." for number in range(101)]
    header = "hospital,part,target,age,ward,"
    with pytest.raises(
        DataError, match=r'"ward": has 101 different words, .* at most 100 .* name the column text_ward'
    ):
        load_dataset("gemini_mortality", put(tmp_path, "\n".join([header + "note", *rows])), source="files")
    with pytest.raises(DataError, match='column "text_note": no training row has a word; remove the column'):
        load_dataset("gemini_mortality", put(tmp_path, "\n".join([header + "text_note", *rows[:9]])), source="files")
    with pytest.raises(DataError, match="no column of features"):
        load_dataset("gemini_mortality", put(tmp_path, "hospital,part,target\na,train,1\n"), source="files")


def test_parquet_and_csv_are_the_same(tmp_path: Path):
    pytest.importorskip("pyarrow")
    expected = load_dataset("gemini_mortality", put(tmp_path), source="files").fingerprint
    file = tmp_path / "gemini" / "mortality.csv"
    pd.read_csv(file).to_parquet(file.with_suffix(".parquet"))
    file.unlink()
    assert load_dataset("gemini_mortality", tmp_path, source="files").fingerprint == expected


def test_without_the_records_the_error_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("BENCH_DATA", raising=False)
    with pytest.raises(
        DataError, match=r"gemini/delirium\.csv: not found in .*; apply for access at https://geminimedicine"
    ):
        load_dataset("gemini_delirium", tmp_path, source="files")


def test_the_mortality_stand_in_has_the_printed_sizes():
    table = hospital_stays.synthetic(mortality["SIZES"], width=20, positives=mortality["DEATHS"], noise=1.0)
    sizes = table.groupby(["hospital", "part"]).size().unstack()[["train", "test"]]
    assert [tuple(row) for row in sizes.to_numpy()] == list(mortality["SIZES"])
    deaths = table.groupby(["hospital", "part"])["target"].mean()
    np.testing.assert_allclose(deaths, 0.1046, rtol=0, atol=2e-4)


@pytest.mark.parametrize("width", [20, 35, 120])
def test_stand_ins_have_the_asked_for_width(width: int):
    table = hospital_stays.synthetic([(80, 20), (60, 10)], width=width, positives=0.25, noise=0.5)
    for parts in hospital_stays.hospitals(table).values():
        x, y = parts["train"]
        assert x.shape == (len(y), width)
        assert np.abs(x).max() <= 1
        assert (x != 0).any(axis=1).all()


def test_the_delirium_stand_in_is_balanced_in_training_only(stand_in: Federation):
    assert stand_in.synthetic
    assert [len(client.test) for client in stand_in.clients] == [test for _, test in delirium["SIZES"]]
    for client, (train, test) in zip(stand_in.clients, delirium["SIZES"], strict=True):
        assert client.train.y.mean() == 0.5
        assert len(client.train) == 2 * (train - round((1 - 0.748) * train))
        assert int(client.test.y.sum()) == round((1 - 0.748) * test)


def test_balanced_rows_are_all_rows_and_the_rarer_again():
    y = np.array([0, 1, 0, 0, 1, 0, 0])
    rows = hospital_stays.balanced(y, (0, 1))
    assert rows[:7].tolist() == list(range(7))
    assert set(rows[7:]) <= {1, 4}
    assert y[rows].tolist().count(1) == y[rows].tolist().count(0) == 5
    assert hospital_stays.balanced(np.zeros(3), (0,)).tolist() == [0, 1, 2]
    assert hospital_stays.balanced(y, (0, 1)).tolist() == rows.tolist()


def test_the_stand_in_can_be_learnt(stand_in: Federation):
    """A linear model predicts the test part better than chance: features depend on the target."""
    for client in stand_in.clients:
        centred = client.train.x - client.train.x.mean(dim=0)
        direction = (centred * (client.train.y - 0.5)).mean(dim=0)
        scores = client.test.x @ direction
        ill = client.test.y[:, 0] == 1
        assert (scores[ill][:, None] > scores[~ill]).float().mean() > 0.65


def test_own_features_come_from_own_training_rows():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(50, 8)).astype(np.float32), np.arange(50) % 2
    x[:, 3] += 8 * y  # far the largest variance, and it tells everything
    stays = {"train": (x, y), "test": (x[:5] + 1, y[:5])}
    made = hospital_stays.own_features("a", stays, 2)
    assert made["train"][0].shape == (50, 2)
    assert made["test"][0].shape == (5, 2)
    correlation = np.abs(np.corrcoef(made["train"][0].T, y)[2, :2])
    assert correlation.max() > 0.95
    other = hospital_stays.own_features("a", stays | {"test": (x[:5] * 100, y[:5])}, 2)
    np.testing.assert_array_equal(other["train"][0], made["train"][0])
    with pytest.raises(DataError, match="hospital 'a': 50 training rows of 8 features do not have 9 principal"):
        hospital_stays.own_features("a", stays, 9)


def test_own_features_are_three_hundred(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(delirium, "SIZES", ((310, 20), (320, 30)))
    federation = load_dataset("gemini_delirium", features="own", width=330)
    assert {tuple(client.train.x.shape[1:]) for client in federation.clients} == {(300,)}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gemini_mortality", {"source": "file"}, "source = 'file': did you mean 'files'"),
        ("gemini_delirium", {"source": "real"}, "source = 'real': expected one of files, synthetic"),
        ("gemini_delirium", {"features": "owm"}, "features = 'owm': did you mean 'own'"),
        ("gemini_delirium", {"width": 19}, "width = 19: expected a whole number from 20 to 9000"),
        ("gemini_delirium", {"width": "40"}, "width = '40': expected a whole number"),
    ],
)
def test_unknown_options_name_the_nearest(name: str, options: dict[str, object], message: str):
    with pytest.raises(SpecError, match=message):
        load_dataset(name, **options)
