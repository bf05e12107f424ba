"""Heart cohorts of Cleveland, South Africa and Faisalabad with different columns, prepared as in Global Layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bench._datasets import uci_heart
from bench.data.files.cache import remembered
from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.data.readers.tables import read_numbers
from bench.registry import register
from bench.types import Client, Federation, SpecError, Split, nearest

FILES = raw_files(__file__)
SA = ("sbp", "tobacco", "ldl", "adiposity", "famhist", "typea", "obesity", "alcohol", "age", "chd")
FAISALABAD = (
    *("age", "anaemia", "creatinine_phosphokinase", "diabetes", "ejection_fraction", "high_blood_pressure"),
    *("platelets", "serum_creatinine", "serum_sodium", "sex", "smoking", "time", "DEATH_EVENT"),
)
# South Africa's only text column; its codes are not standardised, and the authors' code puts it last.
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
    """Heart disease or death by heart failure (yes or no) in three cohorts with different features.

    ``split_seed`` decides the split of each cohort: a share ``test`` of its patients, then a share ``validation`` of
    the others. ``features`` "own" gives each cohort its own columns (13, 9, 12). "union" gives it all 31, with 0 for
    columns that were not recorded. "union_as_published" misaligns 20 of South Africa's columns, as the authors' FedAvg
    does. Cleveland's target is 1 for healthy patients, as in the authors' code.
    """
    if not isinstance(split_seed, int) or isinstance(split_seed, bool) or not 0 <= split_seed < 2**32:
        raise SpecError(f"split_seed = {split_seed!r}: expected a whole number from 0")
    for option, share in (("test", test), ("validation", validation)):
        if not isinstance(share, float) or not 0 < share <= 0.9:
            raise SpecError(f"{option} = {share!r}: expected a share above 0 and at most 0.9")
    if features not in ARRANGED:
        raise SpecError(f"features = {features!r}: {nearest(str(features), ARRANGED)}")
    clients = []
    cohorts = remembered(ARRANGED[features], *(locate(file, root) for file in FILES.values()))
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
    )


def own(*files: Path) -> Cohorts:
    """Return every cohort with its own columns, in the order of its file."""
    return {client: _arranged(x, y) for client, (x, y) in _tables(*files).items()}


def union(*files: Path) -> Cohorts:
    """Return every cohort with the columns of all cohorts in alphabetical order, 0 if not recorded."""
    tables = _tables(*files)
    columns = sorted(set().union(*(x.columns for x, _ in tables.values())))
    return {client: _arranged(x.reindex(columns=columns, fill_value=0.0), y) for client, (x, y) in tables.items()}


def union_as_published(*files: Path) -> Cohorts:
    """Return the union, with South Africa's text column last; in the other cohorts it keeps its place."""
    cohorts = union(*files)
    columns, x, y = cohorts["sa"]
    order = sorted(range(len(columns)), key=lambda column: columns[column] == WORDS)
    return cohorts | {"sa": ([columns[column] for column in order], x[:, order], y)}


ARRANGED = {"own": own, "union": union, "union_as_published": union_as_published}


def _tables(cleveland: Path, sa: Path, faisalabad: Path) -> dict[str, tuple[pd.DataFrame, pd.Series]]:
    """Columns and targets of every cohort in the order of its file, with South Africa's text column last."""
    raw = uci_heart.parse(cleveland.read_text(encoding="ascii"), str(cleveland))
    ill = pd.DataFrame(raw, columns=uci_heart.COLUMNS).fillna(-1.0)  # the authors treat it as a number
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
    """Return x (n, d) float32: columns minus the mean of the ``training`` rows, divided by their deviation (n).

    A constant column becomes 0. The text column is not changed.
    """
    scaler = StandardScaler().fit(x[training])
    scaled = scaler.transform(x)
    words = [column == WORDS for column in columns]
    scaled[:, words] = x[:, words]
    return scaled.astype(np.float32)
