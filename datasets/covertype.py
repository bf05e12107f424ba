"""Covertype: the trees of four wilderness areas, 11 features from the 54 columns, as in Global Layers; see the card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from bench.data.fetch import Asset, locate
from bench.data.tables import read_csv, read_numbers
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, Split, nearest

LICENCE = "CC BY 4.0"
CITATION = (
    "Blackard: Covertype, UCI Machine Learning Repository (1998), doi:10.24432/C50K5N; "
    "prepared as in Obeidi: Global Layers: Non-IID Tabular Federated Learning (2023)"
)
RAW = Asset(
    "covertype/covtype.data.gz",
    "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
    11240707,
    (
        "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
        "https://ndownloader.figshare.com/files/5976039",  # scikit-learn's copy
    ),
    LICENCE,
)


def _prepared(part: str, client: str, size: int, sha256: str) -> Asset:
    return Asset(
        f"covertype/covertype11_{part}_{client}.csv", sha256, size, ("https://github.com/transferFL/gl",), LICENCE
    )


# The authors' prepared files that can be had: comanche's and rawah's test rows cannot.
PREPARED = {
    ("train", "comanche"): "303326 5485a33a097ccbb02010f01be7f28885d8d9fd324b4aa66105499d25f943985a",
    ("train", "neota"): "23474 910a26052c871b9905d131045f51fc838722ce769f8120def285c544bf39ee15",
    ("train", "poudre"): "212025 640ab660b5d65c5f2ae8bbc896d644230d112e1dae81c1da103c63a933ba5e57",
    ("train", "rawah"): "161361 193df52b8e834c0278e2cd0fefa72863246636316f75dd10fbc79f042f88b924",
    ("validation", "comanche"): "100302 1e25a8eaa691b1c51f6c9983a932fe7422596ad383eea0dc14b11a8f6456d04e",
    ("validation", "neota"): "6967 b439de43770a21f28000ce163c4dc7a457cafa37d84d43ac2214557c34ed4b52",
    ("validation", "poudre"): "70612 ccd7a9218999c2c4d533f0d6fb54ae4e908c5e6874b86da321661188b4e9d77e",
    ("validation", "rawah"): "55647 831f4b3fd617eb78a78796f85cb9f7935e4076224f597f8456a4d2b5f9cd0e51",
    ("test", "neota"): "1775418 444fb4f446cec0f4da5c1939617ceab09231b6d27239d32a473b9a3c23494aeb",
    ("test", "poudre"): "1963707 43aaa1eab601e5833cdd7efaecbcd8fa36612be506f14d46b7d70ad1212f7af0",
}
