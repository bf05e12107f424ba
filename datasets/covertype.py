"""Covertype: forest types in four wilderness areas from 11 features, prepared as in Global Layers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from bench.data.files.cache import Arrays, prepared, remembered
from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.data.readers import tables
from bench.data.readers.tables import read_csv, read_numbers
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, Split, nearest

FILES = raw_files(__file__)
CLIENTS = ("comanche", "neota", "poudre", "rawah")
# The files of prepared rows that the authors published; comanche and rawah have no test rows.
PREPARED = [name.split("_") for name in FILES if name != "raw"]  # part, client
# Columns 10 to 13 of the raw file, each with the index of its client.
WILDERNESS = np.array([CLIENTS.index(name) for name in ("rawah", "neota", "comanche", "poudre")])
# Columns 14 to 53: the ecological landtype unit of each soil type. Its first digit is the climatic zone, its second
# digit the geologic zone.
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
TRAINING, VALIDATION = slice(0, 11340), slice(11340, 15120)  # rows of the raw file; the others are test rows

Parts = Mapping[str, Mapping[str, np.ndarray]]  # part -> client -> rows (n, 12)


@register("covertype")
def covertype(
    root: Path | None = None, *, source: str = "raw", labels: str = "own", normalisation: str = "client"
) -> Federation:
    """Forest type (seven classes) of a patch of land from 11 features; the clients are four wilderness areas.

    ``source`` "raw" reads UCI's file, "prepared" the authors' csv files, in which comanche and rawah have no test
    rows. ``labels`` "own" numbers the classes in a client's training rows; "union" gives every client all seven
    classes. ``normalisation`` "client" uses mean and standard deviation of the client's training rows, "pooled" those
    of all clients (the paper's centralised model).
    """
    for option, value, known in (
        ("source", source, ("raw", "prepared")),
        ("labels", labels, ("own", "union")),
        ("normalisation", normalisation, ("client", "pooled")),
    ):
        if value not in known:
            raise SpecError(f"{option} = {value!r}: {nearest(str(value), known)}")
    needed = [file for name, file in FILES.items() if (name == "raw") == (source == "raw")]
    files = [locate(file, root) for file in needed]
    parts = remembered(_from_prepared if source == "prepared" else _from_raw, *files)
    return Federation(
        "covertype",
        tuple(_client(name, parts, labels == "own", normalisation == "pooled") for name in CLIENTS),
        "multiclass",
        metrics=METRICS,
        classes=CLASSES,
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
    """The parts of UCI's file; the decoded rows (ROWS, 12) come from the cache after the first call."""

    def fill(arrays: Arrays) -> None:
        arrays["rows"][:] = decode(_read_raw(file))

    layout = {"rows": ((ROWS, len(FEATURES) + 1), "int16")}
    code = [Path(__file__), Path(tables.__file__)]
    return by_client(prepared("covertype", inputs=[file], code=code, layout=layout, fill=fill)["rows"])


def _read_raw(file: Path) -> np.ndarray:
    """The rows (n, 55) int16 of UCI's file; raises :class:`DataError`."""
    return read_csv(file, None, dtype=np.int16).to_numpy()


def decode(raw: np.ndarray) -> np.ndarray:
    """Return FEATURES and the forest type, 1 to 7, (n, 12) int16, from rows (n, 55) of UCI's file.

    Raises :class:`DataError` with the first row that does not have exactly one area, one soil and one type.
    """
    if raw.shape[1] != 55:
        raise DataError(f"covtype.data: has {raw.shape[1]} columns, expected 55; download it again")
    areas, soils, kind = raw[:, 10:14], raw[:, 14:54], raw[:, 54]
    for what, wrong in (
        ("wilderness area, expected one 1 in columns 11 to 14", (areas == 1).sum(1) != 1),
        ("soil type, expected one 1 in columns 15 to 54", (soils == 1).sum(1) != 1),
        ("cover type, expected 1 to 7 in column 55", (kind < 1) | (kind > CLASSES)),
    ):
        if wrong.any():
            raise DataError(f"covtype.data, row {wrong.argmax() + 1}: no {what}")
    soil = SOIL[soils.argmax(1)]
    distances = raw[:, [0, 1, 2, 3, 4, 5, 9]]  # columns 6 to 8 are hill shades, which the authors leave out
    columns = (distances, soil, soil // 1000, soil // 100 % 10, WILDERNESS[areas.argmax(1)], kind)
    return np.column_stack(columns).astype(np.int16)


def by_client(rows: np.ndarray) -> Parts:
    """Return the rows by part (their position in the file) and wilderness area, in the order of the file."""
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
            raise DataError(f"covertype: client {name!r}, {part}: has a class that the client's training rows lack")
        # A client's own wilderness area is constant: 0, as in the authors' code.
        area = rows[:, -2] if pooled else np.zeros(len(rows))
        x = np.column_stack([scaler.transform(rows[:, NUMERIC]), area]).astype(np.float32)
        return Split(torch.from_numpy(x), torch.from_numpy(np.searchsorted(classes, rows[:, -1])))

    test = split("test") if len(parts["test"].get(name, ())) else None
    return Client(name, split("train"), test, split("validation"), len(classes) if own_classes else None)
