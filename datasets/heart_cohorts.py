"""Heart cohorts: Cleveland, South Africa and Faisalabad, whose columns differ, as in Global Layers; see the card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bench.data import uci_heart
from bench.data.fetch import Asset, locate
from bench.data.tables import read_numbers
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
FEATURES = ("own", "union", "union_as_published")


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
    if features not in FEATURES:
        raise SpecError(f"features = {features!r}: {nearest(str(features), FEATURES)}")
    cohorts = read(root)
    union = sorted(set().union(*(x.columns for x, _ in cohorts.values())))
    clients = []
    for client, (x, y) in cohorts.items():
        if features != "own":
            x = x.reindex(columns=union, fill_value=0.0)
        rest, for_testing = train_test_split(np.arange(len(y)), test_size=test, random_state=split_seed)
        for_training, held_out = train_test_split(rest, test_size=validation, random_state=split_seed)
        # What the other cohorts have of the column of words are numeric zeros, which keep their place.
        words_last = client == "sa" and features != "union"
        scaled = standardise(x, x.iloc[for_training], words_last=words_last)
        parts = [Split(scaled[rows], y[rows]) for rows in (for_training, for_testing, held_out)]
        clients.append(Client(client, parts[0], parts[1], parts[2]))
    return Federation(
        "heart_cohorts",
        tuple(clients),
        "binary",
        metrics=("auroc", "balanced_accuracy"),
        licence=f"cleveland, faisalabad CC BY 4.0; sa: {ASSETS['sa'].licence}",
        citation=CITATION,
    )


def read(root: Path | None) -> dict[str, tuple[pd.DataFrame, torch.Tensor]]:
    """Every cohort's columns by name and its targets (n, 1), in the order of the files."""
    rows = pd.DataFrame(uci_heart.read("cleveland", root), columns=uci_heart.COLUMNS)
    cleveland = rows.fillna(-1.0)  # an ordinary number from here on
    sa = read_numbers(locate(ASSETS["sa"], root), ("row.names", *SA), {WORDS: CODES})
    faisalabad = read_numbers(locate(ASSETS["faisalabad"], root), FAISALABAD)
    return {
        "cleveland": (cleveland.drop(columns="num"), _targets(cleveland["num"] == 0)),
        "sa": (sa.drop(columns=["row.names", "chd"]), _targets(sa["chd"] == 1)),
        "faisalabad": (faisalabad.drop(columns="DEATH_EVENT"), _targets(faisalabad["DEATH_EVENT"] == 1)),
    }


def standardise(x: pd.DataFrame, reference: pd.DataFrame, *, words_last: bool) -> torch.Tensor:
    """(n, d) float32: columns minus the mean of ``reference``, over its standard deviation (n); constants become 0."""
    numeric = [column for column in x if column != WORDS]
    scaled = x.copy()
    scaled[numeric] = StandardScaler().fit(reference[numeric]).transform(x[numeric])
    order = [*numeric, WORDS] if words_last else list(x)
    return torch.from_numpy(scaled[order].to_numpy(np.float32))


def _targets(positive: pd.Series) -> torch.Tensor:
    return torch.from_numpy(positive.to_numpy(np.float32)[:, None])
