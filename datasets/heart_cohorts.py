"""Heart cohorts: Cleveland, South Africa and Faisalabad, whose columns differ, as in Global Layers; see the card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from bench._datasets import uci_heart
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bench.data.files.cache import remembered
from bench.data.files.download import Asset, locate
from bench.data.readers.tables import read_numbers
from bench.registry import register
from bench.types import Client, Federation, SpecError, Split, nearest

CITATION = (
    f"{uci_heart.CITATION}; Rossouw et al.: Coronary risk factor screening in three rural communities, South African "
    "Medical Journal 64 (1983), from Hastie, Tibshirani, Friedman: The Elements of Statistical Learning; Heart Failure "
    "Clinical Records, UCI Machine Learning Repository (2020), doi:10.24432/C5Z89R; prepared as in Obeidi: Global "
    "Layers: Non-IID Tabular Federated Learning (2023)"
)
ASSETS = {
    "cleveland": uci_heart.ASSETS["cleveland"],
    "sa": Asset(
        "sa_heart/SAheart.data",
        "db9e74c07edd4adc8b49b7bea400d8cd6865e7e2f394926fa51e49d47976a135",
        25106,
        (
            "https://hastie.su.domains/ElemStatLearn/datasets/SAheart.data",
            "https://web.stanford.edu/~hastie/ElemStatLearn/datasets/SAheart.data",
        ),
        "public, no licence stated",
    ),
    "faisalabad": Asset(
        "heart_failure/heart_failure_clinical_records_dataset.csv",
        "9c73cea7468ff5d517801ec050fe9993da5912fce4b56f296f8df3b38dd75912",
        12239,
        ("https://archive.ics.uci.edu/ml/machine-learning-databases/00519/heart_failure_clinical_records_dataset.csv",),
        "CC BY 4.0",
    ),
}
SA = ("sbp", "tobacco", "ldl", "adiposity", "famhist", "typea", "obesity", "alcohol", "age", "chd")
FAISALABAD = (
    *("age", "anaemia", "creatinine_phosphokinase", "diabetes", "ejection_fraction", "high_blood_pressure"),
    *("platelets", "serum_creatinine", "serum_sodium", "sex", "smoking", "time", "DEATH_EVENT"),
)
# South Africa's column of words; its codes are not standardised, and the authors' code puts it last.
WORDS, CODES = "famhist", {"Absent": 0, "Present": 1}
Cohort = tuple[list[str], np.ndarray, np.ndarray]  # names of the columns, x (n, d), y (n, 1)
Cohorts = dict[str, Cohort]


@register("heart_cohorts")
def heart_cohorts(
    root: Path | None = None,
    *,
    split_seed: int = 0,
    test: float = 0.33,
    validation: float = 0.10,
    features: str = "own",
) -> Federation:
    """Heart disease or death by heart failure (yes or no) in three cohorts of which different things are known.

    ``split_seed`` cuts each cohort anew: a share ``test`` of its patients, then a share ``validation`` of the others.
    ``features`` "own" gives every cohort its own columns (13, 9, 12); "union" all 31, 0 where they are not recorded;
    "union_as_published" the same, with 20 of South Africa's columns out of line as in the authors' FedAvg.
    Cleveland's target is 1 for the healthy, as in the authors' code.
    """
    if not isinstance(split_seed, int) or isinstance(split_seed, bool) or not 0 <= split_seed < 2**32:
        raise SpecError(f"split_seed = {split_seed!r}: expected a whole number from 0")
    for option, share in (("test", test), ("validation", validation)):
        if not isinstance(share, float) or not 0 < share <= 0.9:
            raise SpecError(f"{option} = {share!r}: expected a share above 0 and at most 0.9")
    if features not in ARRANGED:
        raise SpecError(f"features = {features!r}: {nearest(str(features), ARRANGED)}")
    clients = []
    cohorts = remembered(ARRANGED[features], *(locate(asset, root) for asset in ASSETS.values()))
    for client, (columns, x, y) in cohorts.items():
        rest, for_testing = train_test_split(np.arange(len(y)), test_size=test, random_state=split_seed)
        for_training, held_out = train_test_split(rest, test_size=validation, random_state=split_seed)
        scaled = standardise(columns, x, for_training)
        train, tested, validated = (
            Split(torch.from_numpy(scaled[rows]), torch.from_numpy(y[rows]))
            for rows in (for_training, for_testing, held_out)
        )
        clients.append(Client(client, train, tested, validated))
    return Federation(
        "heart_cohorts",
        tuple(clients),
        "binary",
        metrics=("auroc", "balanced_accuracy_at_logit_half", "auprc", "balanced_accuracy"),
        licence=f"cleveland, faisalabad CC BY 4.0; sa: {ASSETS['sa'].licence}",
        citation=CITATION,
    )


def own(*files: Path) -> Cohorts:
    """Every cohort's own columns in the order of its file."""
    return {client: _arranged(x, y) for client, (x, y) in _tables(*files).items()}


def union(*files: Path) -> Cohorts:
    """All columns of all cohorts in alphabetical order, 0 where they are not recorded."""
    tables = _tables(*files)
    columns = sorted(set().union(*(x.columns for x, _ in tables.values())))
    return {client: _arranged(x.reindex(columns=columns, fill_value=0.0), y) for client, (x, y) in tables.items()}


def union_as_published(*files: Path) -> Cohorts:
    """The union with South Africa's column of words at its end; in the other cohorts it holds zeros, in its place."""
    cohorts = union(*files)
    columns, x, y = cohorts["sa"]
    order = sorted(range(len(columns)), key=lambda column: columns[column] == WORDS)
    return cohorts | {"sa": ([columns[column] for column in order], x[:, order], y)}


ARRANGED = {"own": own, "union": union, "union_as_published": union_as_published}


def _tables(cleveland: Path, sa: Path, faisalabad: Path) -> dict[str, tuple[pd.DataFrame, pd.Series]]:
    """Every cohort's columns and targets, as in its file but for South Africa's words, which stand last."""
    raw = uci_heart.parse(cleveland.read_text(encoding="ascii"), str(cleveland))
    ill = pd.DataFrame(raw, columns=uci_heart.COLUMNS).fillna(-1.0)  # an ordinary number from here on
    coronary = read_numbers(sa, ("row.names", *SA), {WORDS: CODES})
    dead = read_numbers(faisalabad, FAISALABAD)
    return {
        "cleveland": (ill.drop(columns="num"), ill["num"] == 0),
        "sa": (coronary[[*(column for column in SA[:-1] if column != WORDS), WORDS]], coronary["chd"] == 1),
        "faisalabad": (dead.drop(columns="DEATH_EVENT"), dead["DEATH_EVENT"] == 1),
    }


def _arranged(x: pd.DataFrame, positive: pd.Series) -> Cohort:
    return list(x.columns), x.to_numpy(np.float64), positive.to_numpy(np.float32)[:, None]


def standardise(columns: Sequence[str], x: np.ndarray, training: np.ndarray) -> np.ndarray:
    """x (n, d) float32: columns minus the mean of the ``training`` rows, over their standard deviation (n).

    A constant becomes 0, the column of words stays as it is.
    """
    scaler = StandardScaler().fit(x[training])
    scaled = scaler.transform(x)
    words = [column == WORDS for column in columns]
    scaled[:, words] = x[:, words]
    return scaled.astype(np.float32)
