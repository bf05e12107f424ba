"""Three cohorts with different columns: golden splits, the union's order, and an independent preparation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from bench.data import load_dataset
from bench.data.files import cache
from bench.registry import load
from bench.types import Federation, SpecError
from tests.datasets import heart_files

adapter = load("datasets", "heart_cohorts").__globals__
PARTS = ("train", "validation", "test")
UNION = """
    adiposity age alcohol anaemia ca chol cp creatinine_phosphokinase diabetes ejection_fraction exang famhist fbs
    high_blood_pressure ldl obesity oldpeak platelets restecg sbp serum_creatinine serum_sodium sex slope smoking
    thal thalach time tobacco trestbps typea
"""
OWN = {
    "cleveland": "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal",
    "sa": "sbp tobacco ldl adiposity typea obesity alcohol age famhist",
    "faisalabad": """
        age anaemia creatinine_phosphokinase diabetes ejection_fraction high_blood_pressure platelets
        serum_creatinine serum_sodium sex smoking time
    """,
}
UNION_COLUMNS, OWN_COLUMNS = UNION.split(), {client: columns.split() for client, columns in OWN.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with heart_files.made(tmp_path_factory.mktemp("heart")) as folder:
        yield folder


@pytest.fixture(scope="module")
def frames(folder: Path) -> dict[str, pd.DataFrame]:
    """The cohorts in pandas, sharing no code with the adapter; the target is the last column."""
    cleveland = pd.read_csv(folder / "heart_disease" / "processed.cleveland.data", header=None, na_values="?")
    cleveland.columns = [*OWN_COLUMNS["cleveland"], "y"]
    cleveland = cleveland.fillna(-1).assign(y=lambda rows: (rows["y"] == 0).astype(int))
    sa = pd.read_csv(folder / "sa_heart" / "SAheart.data", index_col=0, skipinitialspace=True)
    faisalabad = pd.read_csv(folder / "heart_failure" / "heart_failure_clinical_records_dataset.csv")
    return {
        "cleveland": cleveland,
        "sa": sa.rename(columns={"chd": "y"}),
        "faisalabad": faisalabad.rename(columns={"DEATH_EVENT": "y"}),
    }


def parts(frame: pd.DataFrame, seed: int, test: float = 0.33, validation: float = 0.1) -> dict[str, pd.DataFrame]:
    rest, tested = train_test_split(frame, test_size=test, random_state=seed)
    train, validated = train_test_split(rest, test_size=validation, random_state=seed)
    return {"train": train, "validation": validated, "test": tested}


def prepared(frame: pd.DataFrame, train: pd.DataFrame) -> np.ndarray:
    """Numbers standardised, then words numbered, as scikit-learn's column transformer orders them."""
    words = [column for column in train if not pd.api.types.is_numeric_dtype(train[column])]
    numeric = [column for column in train if column not in words]
    columns = ColumnTransformer([("numbers", StandardScaler(), numeric), ("words", OrdinalEncoder(), words)])
    return columns.fit(train).transform(frame)


@pytest.mark.parametrize(
    ("features", "fingerprint"),
    [
        ("own", "eaff4984d5b0464190c56bd6e46a3cfc5be628b3f5d73fd415500d9997a9fdcd"),
        ("union", "5a2c7c834f1bfa72756e0e1239cd9b6b5755002bdd43d97a215450737a5f5acb"),
        ("union_as_published", "eadfe8a4199e00601395b693f886bd10819d0e47e467534bd3e8adf591ed6bcf"),
    ],
)
def test_sizes_and_targets_are_golden(bench_data: Path, features: str, fingerprint: str):
    federation = load_dataset("heart_cohorts", bench_data, features=features)
    found = {
        client.name: [(len(split), int(split.y.sum())) for split in (getattr(client, part) for part in PARTS)]
        for client in federation.clients
    }
    assert found == {
        "cleveland": [(182, 102), (21, 13), (100, 49)],
        "sa": [(278, 93), (31, 13), (153, 54)],
        "faisalabad": [(180, 62), (20, 3), (99, 31)],
    }
    # Healthy in Cleveland, ill in South Africa, dead in Faisalabad.
    assert [sum(ill for _, ill in split) for split in found.values()] == [164, 160, 96]
    metrics = ("auroc", "balanced_accuracy_at_logit_half", "auprc", "balanced_accuracy")
    assert (federation.task, federation.metrics) == ("binary", metrics)
    assert federation.fingerprint == fingerprint


@pytest.mark.parametrize("seed", [0, 1, 100])
def test_own_features_equal_an_independent_preparation(folder: Path, frames: dict[str, pd.DataFrame], seed: int):
    federation = load_dataset("heart_cohorts", folder, split_seed=seed)
    assert [client.train.x.shape[1] for client in federation.clients] == [13, 9, 12]
    for client in federation.clients:
        cut = parts(frames[client.name], seed)
        for part, rows in cut.items():
            expected = prepared(rows[OWN_COLUMNS[client.name]], cut["train"][OWN_COLUMNS[client.name]])
            np.testing.assert_allclose(getattr(client, part).x, expected, rtol=0, atol=1e-5)
            np.testing.assert_array_equal(getattr(client, part).y[:, 0], rows["y"])


def test_published_union_equals_an_independent_preparation(folder: Path, frames: dict[str, pd.DataFrame]):
    federation = load_dataset("heart_cohorts", folder, split_seed=3, features="union_as_published")
    for client in federation.clients:
        cut = {part: rows.reindex(columns=UNION_COLUMNS) for part, rows in parts(frames[client.name], 3).items()}
        cut = {part: rows.fillna(0) for part, rows in cut.items()}
        for part, rows in cut.items():
            expected = prepared(rows, cut["train"])
            np.testing.assert_allclose(getattr(client, part).x, expected, rtol=0, atol=1e-5)


def test_only_south_africas_columns_are_published_misaligned(folder: Path):
    aligned, published = (
        load_dataset("heart_cohorts", folder, features=features) for features in ("union", "union_as_published")
    )
    assert sorted(set().union(*OWN_COLUMNS.values())) == UNION_COLUMNS
    assert UNION_COLUMNS.index("famhist") == 11
    for right, shifted in zip(aligned.clients, published.clients, strict=True):
        for part in PARTS:
            x, y = getattr(right, part).x, getattr(shifted, part).x
            order = [*range(11), *range(12, 31), 11] if right.name == "sa" else list(range(31))
            assert torch.equal(x[:, order], y)
        own = [UNION_COLUMNS.index(column) for column in OWN_COLUMNS[right.name]]
        assert not right.train.x[:, [column for column in range(31) if column not in own]].any()
    moved = [place for place, column in enumerate([*range(11), *range(12, 31), 11]) if place != column]
    assert len(moved) == 20


def test_a_column_means_the_same_in_the_aligned_union_and_alone(folder: Path):
    own, union = (load_dataset("heart_cohorts", folder, features=features) for features in ("own", "union"))
    for alone, padded in zip(own.clients, union.clients, strict=True):
        columns = [UNION_COLUMNS.index(column) for column in OWN_COLUMNS[alone.name]]
        assert torch.equal(padded.train.x[:, columns], alone.train.x)
        assert torch.equal(padded.test.x[:, columns], alone.test.x)


def test_splits_of_many_seeds_read_the_files_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    cache._remembered.cache_clear()
    read, parsed = adapter["read_numbers"], []
    monkeypatch.setitem(adapter, "read_numbers", lambda file, *rest: parsed.append(file.name) or read(file, *rest))
    load_dataset("heart_cohorts", folder, split_seed=7).clients[0].train.x.zero_()  # no other load sees the change
    found = {load_dataset("heart_cohorts", folder, split_seed=seed).fingerprint for seed in (*range(20), 7)}
    assert len(found) == 20
    assert sorted(parsed) == ["SAheart.data", "heart_failure_clinical_records_dataset.csv"]


def test_printed_shares_are_a_variant(folder: Path, frames: dict[str, pd.DataFrame]):
    federation = load_dataset("heart_cohorts", folder, test=0.3, validation=0.3, split_seed=5)
    sizes = [[len(getattr(client, part)) for part in PARTS] for client in federation.clients]
    assert sizes == [[29, 13, 18], [24, 11, 15], [26, 12, 17]]
    for client in federation.clients:
        cut = parts(frames[client.name], 5, 0.3, 0.3)
        np.testing.assert_array_equal(client.test.y[:, 0], cut["test"]["y"])
        np.testing.assert_array_equal(client.validation.y[:, 0], cut["validation"]["y"])


@pytest.mark.parametrize("seed", range(3))
def test_parts_are_disjoint_and_total(folder: Path, seed: int):
    """No two rows are equal, so that samples can be counted by their values."""
    federation: Federation = load_dataset("heart_cohorts", folder, split_seed=seed)
    for client, size in zip(federation.clients, (60, 50, 55), strict=True):
        rows = torch.cat([getattr(client, part).x for part in PARTS])
        assert len(torch.unique(rows, dim=0)) == len(rows) == size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "unoin"}, "features = 'unoin': did you mean 'union'"),
        ({"split_seed": -1}, "split_seed = -1: expected a whole number from 0"),
        ({"split_seed": 0.5}, "split_seed = 0.5: expected a whole number"),
        ({"split_seed": True}, "split_seed = True: expected a whole number"),
        ({"test": 0.0}, "test = 0.0: expected a share above 0 and at most 0.9"),
        ({"test": "0.3"}, "test = '0.3': expected a share"),
        ({"test": 0.95}, "test = 0.95: expected a share"),
        ({"validation": 1}, "validation = 1: expected a share above 0 and at most 0.9"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str):
    with pytest.raises(SpecError, match=message):
        load_dataset("heart_cohorts", **options)
