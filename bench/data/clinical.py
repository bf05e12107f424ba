"""Records of hospital stays as numbers: categories, free text and measurements on one scale for all hospitals.

The schema of a table: one row per stay; ``hospital`` names the client, ``part`` is train or test, ``target`` is 0 or 1.
Every other column is a feature: free text where its name starts with ``text_``, a category where it holds other words,
a measurement where it holds numbers. No cell may be missing but those of categories and free text.
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

from bench.data.readers.columns import MOST_LEVELS, words
from bench.data.readers.tables import numbers, place
from bench.types import Client, DataError, Split, nearest

ROLES = ("hospital", "part", "target")
PARTS = ("train", "test")
FREE_TEXT = "text_"
Stays = dict[str, tuple[np.ndarray, np.ndarray]]  # part -> features (n, d) float32, targets (n,)


def hospitals(table: pd.DataFrame) -> dict[str, Stays]:
    """The stays of every hospital in alphabetical order, all with the same features; see :func:`encoded`."""
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
    """Features (n, d) float32; what is learnt of them comes from the ``training`` rows (n,) of all hospitals.

    In the order of the columns: a category becomes a 0/1 column for each of its words, free text the TF-IDF weights of
    its words, a measurement stays as it is; then each column is divided by its largest absolute value. Sharing words
    and scales among hospitals is what FENDA-FL assumes, too (appendix B, "oracle knowledge").
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
        raise DataError("the table has no column of features beside hospital, part and target")
    x = sparse.hstack(blocks, format="csr")
    return MaxAbsScaler().fit(x[training]).transform(x).astype(np.float32).toarray()


def _weighed(name: str, texts: np.ndarray, training: np.ndarray) -> sparse.csr_matrix:
    try:
        return TfidfVectorizer().fit(texts[training]).transform(texts)
    except ValueError:
        raise DataError(f"column {name}: no training row holds a word; leave the column out") from None


def _one_hot(name: str, found: np.ndarray, training: np.ndarray) -> sparse.csr_matrix:
    levels = [level for level in np.unique(found[training]) if level]
    if len(levels) > MOST_LEVELS:
        raise DataError(
            f"column {name}: {len(levels)} different words, at most {MOST_LEVELS} make a category; "
            f"call it {FREE_TEXT}{name} if it is free text"
        )
    return sparse.csr_matrix((found[:, None] == np.array(levels, dtype=str)).astype(np.float64))


def balanced(y: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """Row numbers: all rows, then rows of the rarer class drawn again until both are equally many."""
    rows = [np.flatnonzero(y == label) for label in (0, 1)]
    rare, frequent = sorted(rows, key=len)
    missing = len(frequent) - len(rare) if len(rare) else 0
    again = np.random.default_rng(list(seed)).choice(rare, missing) if missing else rare[:0]
    return np.concatenate([np.arange(len(y)), again])


def own_features(hospital: str, stays: Stays, width: int) -> Stays:
    """A hospital's stays in a feature space of its own: the ``width`` principal components best for its targets.

    Components and their choice (ANOVA F) come from the hospital's training rows alone. Source: FENDA-FL, appendix I,
    which names both steps but not how they are done.
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
    """A client of a binary task; one without test rows is not scored."""
    splits = {
        part: Split(torch.from_numpy(x), torch.from_numpy(y.astype(np.float32)[:, None]))
        for part, (x, y) in stays.items()
    }
    test = splits.get("test")
    return Client(name, splits["train"], test if test is not None and len(test) else None)


def synthetic(
    sizes: Sequence[tuple[int, int]], *, width: int, positives: float, noise: float, seed: int = 0
) -> pd.DataFrame:
    """SYNTHETIC stays in the schema above: ``sizes[k]`` training and test rows of hospital k, nothing in them is real.

    Encoded they have exactly ``width`` features (at least 20, at most twice as many as training rows): nine of two
    categories, half of all words of free text, the rest measurements. A hidden risk makes the share ``positives`` of
    every part ill; ten measurements tell of it, up to ``noise`` standard deviations, and a little the words.
    Hospitals differ in the levels of their measurements and in what these tell.
    """
    generator = np.random.default_rng(seed)
    vocabulary = width // 2
    measurements = width - vocabulary - 9
    telling = generator.normal(size=min(10, measurements))
    tables, written = [], 0
    for hospital, parts in enumerate(sizes):
        own = telling + 0.5 * generator.normal(size=len(telling))
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
            # The rows take the words in turn, so that every word is written; the ill get more of the first ones.
            drawn = (generator.random((rows, 4)) ** np.where(ill, 1.5, 1.0)[:, None] * vocabulary).astype(int)
            turn = (written + np.arange(rows))[:, None] % vocabulary if part == "train" else drawn[:, :1]
            written += rows if part == "train" else 0
            table["text_notes"] = [" ".join(f"word{number}" for number in note) for note in np.hstack([turn, drawn])]
            tables.append(table)
    together = pd.concat(tables)
    return together.set_axis(pd.MultiIndex.from_product([["synthetic"], range(1, len(together) + 1)]), axis=0)
