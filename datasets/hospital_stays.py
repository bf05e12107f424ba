"""Conversion of records of hospital stays to numbers, with one scale for all hospitals; shared by the GEMINI data sets.

A table has one row per stay. ``hospital`` names the client, ``part`` is train or test, ``target`` is 0 or 1. All other
columns are features: free text if the name starts with ``text_``, else a category if the column holds words, or a
measurement if it holds numbers. Only cells of categories and free text may be missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from pandas.api.types import is_numeric_dtype
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import f_classif
from sklearn.preprocessing import MaxAbsScaler

from bench.data.readers.columns import words
from bench.data.readers.tables import numbers, place
from bench.limits import MAX_LEVELS
from bench.types import Client, DataError, Split, nearest

ROLES = ("hospital", "part", "target")
PARTS = ("train", "test")
FREE_TEXT = "text_"
Stays = dict[str, tuple[np.ndarray, np.ndarray]]  # part -> features (n, d) float32, targets (n,)


def hospitals(table: pd.DataFrame) -> dict[str, Stays]:
    """Return the stays of every hospital in alphabetical order, all with the features of :func:`encoded`."""
    for role in ROLES:
        if role not in table:
            raise DataError(f"{table.index[0][0]}: there is no column {role!r}: {nearest(role, table.columns)}")
    owner, part = (np.array(words(table[role]), dtype=str) for role in ("hospital", "part"))
    target = numbers(table["target"])
    for role, wrong in (("part", ~np.isin(part, PARTS)), ("target", ~np.isin(target, (0, 1)))):
        if wrong.any():
            expected = "train or test" if role == "part" else "0 or 1"
            found = table[role].tolist()[wrong.argmax()]
            raise DataError(f"{place(table[role], wrong.argmax())}: found {found!r}, expected {expected}")
    x = encoded(table.drop(columns=list(ROLES)), part == "train")
    return {
        str(hospital): {
            each: (x[rows], target[rows]) for each in PARTS for rows in [(owner == hospital) & (part == each)]
        }
        for hospital in np.unique(owner)
    }


def encoded(features: pd.DataFrame, training: np.ndarray) -> np.ndarray:
    """Return features (n, d) float32, with words and scales from the ``training`` rows (n,) of all hospitals.

    A category becomes a 0/1 column for each of its words, free text the TF-IDF weights of its words, a measurement is
    unchanged. Then each column is divided by its largest absolute value. FENDA-FL also shares words and scales among
    hospitals (appendix B, "oracle knowledge").
    """
    blocks = []
    for name in map(str, features):
        column = features[name]
        if name.startswith(FREE_TEXT):
            texts = np.array(words(column, fill=True), dtype=object)
            blocks.append(_weighed(name, texts, training))
        elif is_numeric_dtype(column):
            blocks.append(sparse.csr_matrix(numbers(column)[:, None]))
        else:
            blocks.append(_one_hot(name, np.array(words(column, fill=True), dtype=str), training))
    if not blocks:
        raise DataError("the table has no column of features; expected at least one besides hospital, part and target")
    x = sparse.hstack(blocks, format="csr")
    return MaxAbsScaler().fit(x[training]).transform(x).astype(np.float32).toarray()


def _weighed(name: str, texts: np.ndarray, training: np.ndarray) -> sparse.csr_matrix:
    try:
        return TfidfVectorizer().fit(texts[training]).transform(texts)
    except ValueError:
        raise DataError(f'column "{name}": no training row has a word; remove the column') from None


def _one_hot(name: str, found: np.ndarray, training: np.ndarray) -> sparse.csr_matrix:
    levels = [level for level in np.unique(found[training]) if level]
    if len(levels) > MAX_LEVELS:
        raise DataError(
            f'column "{name}": has {len(levels)} different words, expected at most {MAX_LEVELS} in a category; '
            f"name the column {FREE_TEXT}{name} if it is free text"
        )
    return sparse.csr_matrix((found[:, None] == np.array(levels, dtype=str)).astype(np.float64))


def balanced(y: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """Return row numbers: all rows, then rows of the rarer class drawn until both classes are equally frequent."""
    rows = [np.flatnonzero(y == label) for label in (0, 1)]
    rare, frequent = sorted(rows, key=len)
    missing = len(frequent) - len(rare) if len(rare) else 0
    again = np.random.default_rng(list(seed)).choice(rare, missing) if missing else rare[:0]
    return np.concatenate([np.arange(len(y)), again])


def own_features(hospital: str, stays: Stays, width: int) -> Stays:
    """Return a hospital's stays as the ``width`` principal components that predict its targets best.

    Components and their choice (ANOVA F) use the hospital's training rows only. Source: FENDA-FL, appendix I, which
    names both steps without details.
    """
    x, y = stays["train"]
    if min(x.shape) < width:
        shape = f"{len(x)} training rows of {x.shape[1]} features"
        raise DataError(f"hospital {hospital!r}: {shape} do not have {width} principal components")
    axes = PCA(min(x.shape), svd_solver="full").fit(x)
    components = {part: axes.transform(x) for part, (x, _) in stays.items() if len(x)}
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.nan_to_num(f_classif(components["train"], y)[0], posinf=0.0)
    best = np.sort(np.argsort(-scores, kind="stable")[:width])
    return {part: (found[:, best].astype(np.float32), stays[part][1]) for part, found in components.items()}


def client(name: str, stays: Stays) -> Client:
    """Return a client of a binary task; without test rows it is not scored."""
    splits = {
        part: Split(torch.from_numpy(x), torch.from_numpy(y.astype(np.float32)[:, None]))
        for part, (x, y) in stays.items()
    }
    test = splits.get("test")
    return Client(name, splits["train"], test if test is not None and len(test) else None)


def synthetic(
    sizes: Sequence[tuple[int, int]], *, width: int, positives: float, noise: float, seed: int = 0
) -> pd.DataFrame:
    """Return SYNTHETIC stays with the columns described above; ``sizes[k]`` are hospital k's training and test rows.

    They have exactly ``width`` encoded features (at least 20, at most twice the number of training rows): nine for two
    categories, half of all for words of free text, the others measurements. A share ``positives`` of every part has
    target 1, those with the highest hidden risk. The risk depends on ten measurements plus noise of ``noise`` standard
    deviations; words depend on it weakly. Means and effects of measurements differ between hospitals.
    """
    generator = np.random.default_rng(seed)
    vocabulary = width // 2
    measurements = width - vocabulary - 9
    effects = generator.normal(size=min(10, measurements))
    tables, written = [], 0
    for hospital, parts in enumerate(sizes):
        own = effects + 0.5 * generator.normal(size=len(effects))
        level = generator.normal(size=measurements)
        for part, rows in zip(PARTS, parts, strict=True):
            measured = generator.normal(level, 1.0, (rows, measurements))
            signal = (measured - level)[:, : len(own)] @ own / np.linalg.norm(own)
            risk = signal + generator.normal(0.0, noise, rows)
            ill = risk >= np.sort(risk)[rows - round(positives * rows)]
            table = pd.DataFrame(measured, columns=[f"measurement_{number}" for number in range(measurements)])
            table.insert(0, "hospital", f"hospital_{hospital}")
            table.insert(1, "part", part)
            table.insert(2, "target", ill.astype(np.int64))
            table["sex"] = generator.choice(["female", "male"], rows)
            table["admission"] = generator.choice([f"ward_{number}" for number in range(7)], rows)
            # Training rows use the words in turn, so that every word occurs; target 1 makes low numbers more likely.
            drawn = (generator.random((rows, 4)) ** np.where(ill, 1.5, 1.0)[:, None] * vocabulary).astype(int)
            turn = (written + np.arange(rows))[:, None] % vocabulary if part == "train" else drawn[:, :1]
            written += rows if part == "train" else 0
            table["text_notes"] = [" ".join(f"word{number}" for number in note) for note in np.hstack([turn, drawn])]
            tables.append(table)
    together = pd.concat(tables)
    return together.set_axis(pd.MultiIndex.from_product([["synthetic"], range(1, len(together) + 1)]), axis=0)
