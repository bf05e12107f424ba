"""Covertype: the forest of four wilderness areas, 11 features from 54 columns, as in Global Layers; see the card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from bench.data.files.cache import Arrays, prepared, remembered
from bench.data.files.download import Asset, locate
from bench.data.readers.tables import read_csv, read_numbers
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
        "https://ndownloader.figshare.com/files/5976039",  # scikit-learn's copy of the same file
    ),
    LICENCE,
)


def _prepared(file: str, size: int, sha256: str) -> Asset:
    return Asset(f"covertype/covertype11_{file}.csv", sha256, size, ("https://github.com/transferFL/gl",), LICENCE)


# What the authors published of their prepared rows; the test rows of comanche and rawah are not among it.
PREPARED = {
    ("train", "comanche"): _prepared(
        "train_comanche", 303326, "5485a33a097ccbb02010f01be7f28885d8d9fd324b4aa66105499d25f943985a"
    ),
    ("train", "neota"): _prepared(
        "train_neota", 23474, "910a26052c871b9905d131045f51fc838722ce769f8120def285c544bf39ee15"
    ),
    ("train", "poudre"): _prepared(
        "train_poudre", 212025, "640ab660b5d65c5f2ae8bbc896d644230d112e1dae81c1da103c63a933ba5e57"
    ),
    ("train", "rawah"): _prepared(
        "train_rawah", 161361, "193df52b8e834c0278e2cd0fefa72863246636316f75dd10fbc79f042f88b924"
    ),
    ("validation", "comanche"): _prepared(
        "validation_comanche", 100302, "1e25a8eaa691b1c51f6c9983a932fe7422596ad383eea0dc14b11a8f6456d04e"
    ),
    ("validation", "neota"): _prepared(
        "validation_neota", 6967, "b439de43770a21f28000ce163c4dc7a457cafa37d84d43ac2214557c34ed4b52"
    ),
    ("validation", "poudre"): _prepared(
        "validation_poudre", 70612, "ccd7a9218999c2c4d533f0d6fb54ae4e908c5e6874b86da321661188b4e9d77e"
    ),
    ("validation", "rawah"): _prepared(
        "validation_rawah", 55647, "831f4b3fd617eb78a78796f85cb9f7935e4076224f597f8456a4d2b5f9cd0e51"
    ),
    ("test", "neota"): _prepared(
        "test_neota", 1775418, "444fb4f446cec0f4da5c1939617ceab09231b6d27239d32a473b9a3c23494aeb"
    ),
    ("test", "poudre"): _prepared(
        "test_poudre", 1963707, "43aaa1eab601e5833cdd7efaecbcd8fa36612be506f14d46b7d70ad1212f7af0"
    ),
}
ASSETS = {"raw": RAW} | {f"{part} {client}": asset for (part, client), asset in PREPARED.items()}
CLIENTS = ("comanche", "neota", "poudre", "rawah")
# Columns 10 to 13 of the raw file, each as the number of its client.
WILDERNESS = np.array([CLIENTS.index(name) for name in ("rawah", "neota", "comanche", "poudre")])
# Columns 14 to 53: the ecological landtype unit of each soil type; its first digit is the climatic zone, its second
# the geologic zone.
SOIL = np.array(
    [2702, 2703, 2704, 2705, 2706, 2717, 3501, 3502, 4201, 4703, 4704, 4744, 4758, 5101, 5151, 6101, 6102, 6731, 7101,
     7102, 7103, 7201, 7202, 7700, 7701, 7702, 7709, 7710, 7745, 7746, 7755, 7756, 7757, 7790, 8703, 8707, 8708, 8771,
     8772, 8776]
)  # fmt: skip
DISTANCES = ("elevation", "aspect", "slope", "hhdist", "vhdist", "hrdist", "hfpdist")
FEATURES = (*DISTANCES, "soil_type", "climate_zone", "geologic_zone", "wilderness_area")
NUMERIC = slice(0, 10)
CLASSES = 7
METRICS = (
    *("auroc_of_outputs_absent_half", "balanced_accuracy", "auprc_of_outputs_absent_zero"),  # as published
    *("auroc_of_outputs_present", "auprc_of_outputs_present", "auroc_present", "auprc_present", "accuracy"),
)
ROWS = 581012
TRAINING, VALIDATION = slice(0, 11340), slice(11340, 15120)  # rows of the raw file; the rest is for testing

Parts = Mapping[str, Mapping[str, np.ndarray]]  # part -> client -> rows (n, 12)


@register("covertype")
def covertype(
    root: Path | None = None, *, source: str = "raw", labels: str = "own", normalisation: str = "client"
) -> Federation:
    """Which of seven kinds of forest covers a patch of land, from 11 features; four wilderness areas are the clients.

    ``source`` "raw" reads UCI's file; "prepared" the authors' csv files, in which comanche and rawah have no test
    rows. ``labels`` "own" numbers the classes that a client has in training; "union" gives every client all seven.
    ``normalisation`` says whose training rows give mean and standard deviation: the "client"'s own, or "pooled" (the
    paper's centralised model).
    """
    for option, value, known in (
        ("source", source, ("raw", "prepared")),
        ("labels", labels, ("own", "union")),
        ("normalisation", normalisation, ("client", "pooled")),
    ):
        if value not in known:
            raise SpecError(f"{option} = {value!r}: {nearest(str(value), known)}")
    files = [locate(asset, root) for asset in (PREPARED.values() if source == "prepared" else [RAW])]
    parts = remembered(_from_prepared if source == "prepared" else _from_raw, *files)
    return Federation(
        "covertype",
        tuple(_client(name, parts, labels == "own", normalisation == "pooled") for name in CLIENTS),
        "multiclass",
        metrics=METRICS,
        classes=CLASSES,
        licence=LICENCE,
        citation=CITATION,
    )


def _from_prepared(*files: Path) -> Parts:
    columns = (*DISTANCES, "wilderness_area", "soil_type", "climate_zone", "geologic_zone", "target")
    codes = {"wilderness_area": {client: code for code, client in enumerate(CLIENTS)}}

    parts: dict[str, dict[str, np.ndarray]] = {"train": {}, "validation": {}, "test": {}}
    for (part, client), file in zip(PREPARED, files, strict=True):
        table = read_numbers(file, columns, codes)
        parts[part][client] = table[[*FEATURES, "target"]].to_numpy()
    return parts


def _from_raw(file: Path) -> Parts:
    """The parts of UCI's file, whose decoded rows (ROWS, 12) come from the cache after the first time."""

    def fill(arrays: Arrays) -> None:
        arrays["rows"][:] = decode(_read_raw(file))

    layout = {"rows": ((ROWS, len(FEATURES) + 1), "int16")}
    return by_client(prepared("covertype", inputs=[file], code=[Path(__file__)], layout=layout, fill=fill)["rows"])


def _read_raw(file: Path) -> np.ndarray:
    """(n, 55) int16, in the file's order; raises :class:`DataError`."""
    return read_csv(file, None, dtype=np.int16).to_numpy()


def decode(raw: np.ndarray) -> np.ndarray:
    """Rows (n, 55) of UCI's file as FEATURES and the kind of forest, 1 to 7: (n, 12) int16.

    Raises :class:`DataError` naming the first row that is not in exactly one area, on one soil and of one kind.
    """
    if raw.shape[1] != 55:
        raise DataError(f"covtype.data: {raw.shape[1]} columns, expected 55")
    areas, soils, kind = raw[:, 10:14], raw[:, 14:54], raw[:, 54]
    for what, wrong in (
        ("wilderness area, expected one 1 in columns 11 to 14", (areas == 1).sum(1) != 1),
        ("soil type, expected one 1 in columns 15 to 54", (soils == 1).sum(1) != 1),
        ("cover type, expected 1 to 7 in column 55", (kind < 1) | (kind > CLASSES)),
    ):
        if wrong.any():
            raise DataError(f"covtype.data, row {wrong.argmax() + 1}: no {what}")
    soil = SOIL[soils.argmax(1)]
    distances = raw[:, [0, 1, 2, 3, 4, 5, 9]]  # without the hill shades at 9 h, noon and 15 h
    columns = (distances, soil, soil // 1000, soil // 100 % 10, WILDERNESS[areas.argmax(1)], kind)
    return np.column_stack(columns).astype(np.int16)


def by_client(rows: np.ndarray) -> Parts:
    """Rows cut by their place in the file, and within a part by wilderness area, keeping their order."""
    area = FEATURES.index("wilderness_area")
    parts = {"train": rows[TRAINING], "validation": rows[VALIDATION], "test": rows[VALIDATION.stop :]}
    return {
        part: {client: cut[cut[:, area] == code] for code, client in enumerate(CLIENTS)} for part, cut in parts.items()
    }


def _client(name: str, parts: Parts, own_classes: bool, pooled: bool) -> Client:
    train = parts["train"][name]
    classes = np.unique(train[:, -1]) if own_classes else np.arange(1, CLASSES + 1)
    scaler = StandardScaler().fit(
        np.concatenate([*parts["train"].values()])[:, NUMERIC] if pooled else train[:, NUMERIC]
    )

    def split(part: str) -> Split:
        rows = parts[part][name]
        if not np.isin(rows[:, -1], classes).all():
            raise DataError(f"covertype: client {name!r}, {part}: a class that its training rows lack")
        # A client's own wilderness area is a constant, 0 as if it were the only one.
        area = rows[:, -2] if pooled else np.zeros(len(rows))
        x = np.column_stack([scaler.transform(rows[:, NUMERIC]), area]).astype(np.float32)
        return Split(torch.from_numpy(x), torch.from_numpy(np.searchsorted(classes, rows[:, -1])))

    test = split("test") if len(parts["test"].get(name, ())) else None
    return Client(name, split("train"), test, split("validation"), len(classes) if own_classes else None)
