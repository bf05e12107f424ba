"""Fed-Heart-Disease with five degrees of disease, prepared as in PLayer-FL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from bench._datasets import uci_heart
from bench.registry import register
from bench.types import Client, Federation, Split

# Published constants of each feature: the mean and the variance.
SCALING = {
    "age": (53.0872973, 70.1459463),
    "sex": (0.0, 1.0),
    "cp": (3.23702703, 0.817756772),
    "trestbps": (132.74405405, 345.493057),
    "chol": (220.23648649, 4884.30934),
    "fbs": (0.0, 1.0),
    "restecg": (0.64513514, 0.592069868),
    "thalach": (138.75459459, 529.172208),
    "exang": (0.0, 1.0),
    "oldpeak": (0.89532432, 1.11317517),
}
# Class weights: (1 - share of the class among all rows) / 4.
ALPHA = (0.12939189, 0.18108108, 0.22331081, 0.22364865, 0.24256757)
SEED = 42


@register("fed_heart_disease_5class")
def fed_heart_disease_5class(root: Path | None = None) -> Federation:
    """Degree of heart disease (0 to 4) of 740 patients in four hospitals, from 10 clinical features.

    Each hospital has fixed parts: 64 % for training, 16 % for validation, 20 % for testing, not stratified.
    """
    clients = []
    for client in uci_heart.FILES:
        x, y = features(uci_heart.complete(uci_heart.read(client, root)))
        x_rest, x_test, y_rest, y_test = train_test_split(x, y, test_size=0.2, random_state=SEED)
        x_train, x_validation, y_train, y_validation = train_test_split(
            x_rest, y_rest, test_size=0.2, random_state=SEED
        )
        train, test, validation = (
            Split(torch.from_numpy(x), torch.from_numpy(y))
            for x, y in ((x_train, y_train), (x_test, y_test), (x_validation, y_validation))
        )
        clients.append(Client(client, train, test, validation))
    return Federation(
        "fed_heart_disease_5class",
        tuple(clients),
        "multiclass",
        metrics=("macro_f1", "accuracy", "loss"),
        classes=5,
        loss={"name": "focal_all_classes", "gamma": 3.0, "alpha": list(ALPHA), "scale": 10.0},
    )


def features(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled features x (m, 10) float32 in the order of SCALING, and the degree of disease y (m,)."""
    column = dict(zip(uci_heart.COMPLETE_COLUMNS, rows.T, strict=True))
    x = [(column[name] - mean) / np.sqrt(variance) for name, (mean, variance) in SCALING.items()]
    return np.stack(x, axis=1).astype(np.float32), column["num"].astype(np.int64)
