"""Fed-Heart-Disease: golden values of FLamby's preparation on the real files, and an independent preparation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import train_test_split

from bench._datasets import uci_heart
from bench.data import load_dataset
from bench.registry import load
from bench.types import Federation, SpecError
from tests.datasets import heart_files

adapter = load("datasets", "fed_heart_disease").__globals__
SITES = ("cleveland", "hungarian", "switzerland", "va")
ROW = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with heart_files.made(tmp_path_factory.mktemp("heart")) as folder:
        yield folder


def all_normalisations(folder: Path) -> dict[str, Federation]:
    return {
        normalisation: load_dataset("fed_heart_disease", folder, normalisation=normalisation)
        for normalisation in ("centre", "pooled", "as_published_central")
    }


@pytest.fixture(scope="module")
def federations(folder: Path) -> dict[str, Federation]:
    return all_normalisations(folder)


@pytest.fixture(scope="module")
def centre(federations: dict[str, Federation]) -> Federation:
    return federations["centre"]


@pytest.fixture(scope="module")
def frame(folder: Path) -> pd.DataFrame:
    """The same preparation up to standardisation, written in pandas and sharing no code with the adapter."""
    frames = []
    for site in SITES:
        path = folder / "heart_disease" / f"processed.{site}.data"
        rows = pd.read_csv(path, header=None, na_values="?").drop(columns=[10, 11, 12]).dropna().astype(float)
        rows = rows.reset_index(drop=True).assign(site=site, ill=lambda rows: (rows[13] != 0).astype(float))
        counts = rows["ill"].value_counts()
        stratify = rows["ill"] if len(counts) == 2 and counts.min() > 2 else None
        _, test = train_test_split(
            rows.index, train_size=0.66, test_size=1 - 0.66, random_state=43, shuffle=True, stratify=stratify
        )
        frames.append(rows.assign(test=rows.index.isin(test)).drop(columns=13))
    return pd.get_dummies(pd.concat(frames, ignore_index=True), columns=[2, 6], drop_first=True, dtype=float)


def scaled(x: pd.DataFrame, reference: pd.DataFrame) -> np.ndarray:
    return ((x - reference.mean()) / (reference.std() + 1e-9)).to_numpy()


def test_sizes_classes_and_fingerprints_are_the_published_ones(bench_data: Path):
    federations = all_normalisations(bench_data)
    centre = federations["centre"]
    assert [client.name for client in centre.clients] == ["cleveland", "hungarian", "switzerland", "va_long_beach"]
    assert [(len(client.train), len(client.test)) for client in centre.clients] == [
        (199, 104),
        (172, 89),
        (30, 16),
        (85, 45),
    ]
    assert [int(client.train.y.sum()) for client in centre.clients] == [91, 65, 30, 66]
    assert [int(client.test.y.sum()) for client in centre.clients] == [48, 33, 15, 35]
    assert {(split.x.dtype, split.y.dtype) for client in centre.clients for split in (client.train, client.test)} == {
        (torch.float32, torch.float32)
    }
    assert (centre.task, centre.metrics, centre.licence) == ("binary", ("accuracy",), "CC BY 4.0")
    assert {name: federation.fingerprint for name, federation in federations.items()} == {
        "centre": "3175e711e8988f90b7ae5c3517ddc677433aa829b8c39e693ee7c916a8e7cff8",
        "pooled": "4362134d7f040f73c259e34948f0fa0351cc7ab087f0d407db5292671e1ef6a9",
        "as_published_central": "0b0637dd9269a543fe3418c4ce2a54c12ec81e9ba7a136de83229e943b88aba8",
    }


@pytest.mark.parametrize("normalisation", ["centre", "pooled", "as_published_central"])
def test_values_equal_an_independent_preparation(
    federations: dict[str, Federation], frame: pd.DataFrame, normalisation: str
):
    features = [column for column in frame.columns if column not in ("site", "ill", "test")]
    assert features == [0, 1, 3, 4, 5, 7, 8, 9, "2_2.0", "2_3.0", "2_4.0", "6_1.0", "6_2.0"]
    pooled = frame.loc[~frame["test"], features]
    for client, site in zip(federations[normalisation].clients, SITES, strict=True):
        train, test = (frame[(frame["site"] == site) & (frame["test"] == part)] for part in (False, True))
        train_reference = train[features] if normalisation == "centre" else pooled
        test_reference = pooled if normalisation == "pooled" else train[features]
        np.testing.assert_allclose(client.train.x, scaled(train[features], train_reference), rtol=0, atol=1e-5)
        np.testing.assert_allclose(client.test.x, scaled(test[features], test_reference), rtol=0, atol=1e-5)
        np.testing.assert_array_equal(client.train.y[:, 0], train["ill"])
        np.testing.assert_array_equal(client.test.y[:, 0], test["ill"])


def test_training_rows_are_standardised_by_centre(centre: Federation):
    constant = adapter["FEATURES"].index("chol")
    for client in centre.clients:
        deviation = client.train.x.std(dim=0)
        if client.name == "switzerland":
            assert deviation[constant] == 0
            deviation[constant] = 1
        torch.testing.assert_close(client.train.x.mean(dim=0), torch.zeros(13), atol=1e-5, rtol=0)
        torch.testing.assert_close(deviation, torch.ones(13), atol=1e-5, rtol=0)
    assert max(float(client.train.x.abs().max()) for client in centre.clients) < 10


def test_pooled_training_rows_are_standardised_together(federations: dict[str, Federation]):
    x = torch.cat([client.train.x for client in federations["pooled"].clients])
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(13), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(dim=0), torch.ones(13), atol=1e-5, rtol=0)


def test_published_central_scoring_mixes_the_two_scales(federations: dict[str, Federation]):
    mixed, pooled, centre = (federations[name] for name in ("as_published_central", "pooled", "centre"))
    for number, client in enumerate(mixed.clients):
        assert torch.equal(client.train.x, pooled.clients[number].train.x)
        assert torch.equal(client.test.x, centre.clients[number].test.x)


@pytest.mark.parametrize("client", uci_heart.FILES)
def test_parts_are_disjoint_and_total(folder: Path, client: str):
    _, y = adapter["features"](uci_heart.complete(uci_heart.read(client, folder)))
    train, test = adapter["split"](y)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert list(train) == sorted(train)
    assert list(test) == sorted(test)


def test_files_may_be_directly_in_the_folder(folder: Path, centre: Federation, tmp_path: Path):
    for file in uci_heart.FILES.values():
        (tmp_path / Path(file.path).name).write_bytes((folder / file.path).read_bytes())
    assert load_dataset("fed_heart_disease", tmp_path).fingerprint == centre.fingerprint


def test_first_row_by_hand():
    x, y = adapter["features"](uci_heart.complete(uci_heart.parse(ROW + ROW.replace(",0\n", ",3\n"), "file")))
    assert x[0].tolist() == [63, 1, 145, 233, 1, 150, 0, 2.3, 0, 0, 0, 0, 1]
    assert y.tolist() == [0, 1]


def test_unknown_normalisation_names_the_nearest():
    with pytest.raises(SpecError, match="normalisation = 'center': did you mean 'centre'"):
        load_dataset("fed_heart_disease", normalisation="center")
