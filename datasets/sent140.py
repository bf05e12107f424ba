"""Sentiment of tweets: fifteen of the busiest users of Sentiment140, as in PLayer-FL; see the card beside."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split

from bench.data.files.download import Asset
from bench.data.files.user_files import find_any
from bench.data.readers import text
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, Split, nearest

ASSETS: dict[str, Asset] = {}
FILE = "training.1600000.processed.noemoticon.csv"
PLACES = (f"sent140/{FILE}", FILE, f"{FILE}.zip")
REMEDY = f"download {FILE} from https://www.kaggle.com/datasets/kazanova/sentiment140 and put it there"
LICENCE = "research use (Sentiment140)"
CITATION = (
    "Go, Bhayani, Huang: Twitter Sentiment Classification using Distant Supervision (2009); clients as in Elhussein, "
    "Gürsoy: PLayer-FL: A Principled Approach to Personalized Layer-wise Cross-Silo Federated Learning (2025)"
)
COLUMNS = ("target", "id", "date", "flag", "user", "text")
TARGETS = {"0": 0, "4": 1}
BUSIEST = 50  # users whose tweets decide the vocabulary and the longest tweet
CHOICES = {"as_published": slice(BUSIEST - 15, BUSIEST), "top_15": slice(0, 15)}
SEED = 42


@register("sent140")
def sent140(
    root: Path | None = None,
    *,
    users: str = "as_published",
    tokenizer: str = "",
    embeddings: str = "",
    embeddings_sha256: str = "",
) -> Federation:
    """Is a tweet positive? Fifteen users of Sentiment140, one client each; ``x`` is (n, length) int64, 0 is padding.

    ``users`` "as_published" are the last 15 of the 50 with the most tweets, as in PLayer-FL's code, "top_15" the first,
    as in its text. ``tokenizer`` is the place of a tokenizer.json below the data folder; without one words are hashed
    (see :func:`bench.data.readers.text.tokenizer`). ``embeddings`` is the place of its vectors, from which models of
    tokens then begin (see :class:`bench.data.readers.text.Embeddings`).
    """
    if users not in CHOICES:
        raise SpecError(f"users = {users!r}: {nearest(str(users), CHOICES)}")
    vectors = text.Embeddings(embeddings, embeddings_sha256, tokenizer)
    encode = text.tokenizer(tokenizer, root)
    tweets = busiest(read(find_any(PLACES, root, REMEDY)))
    tokens, numbers = text.padded([encode(tweet) for tweet in tweets["text"]])
    initial, found = vectors.read(numbers, root)
    clients = []
    for rank in range(BUSIEST)[CHOICES[users]]:
        rows = np.flatnonzero(tweets["rank"] == rank)
        x, y = torch.from_numpy(tokens[rows]), torch.tensor(tweets["target"].map(TARGETS).to_numpy()[rows])
        train, validation, test = split(len(rows))
        clients.append(
            Client(
                f"user_{rank + 1}",
                Split(x[train], y[train]),
                Split(x[test], y[test]),
                Split(x[validation], y[validation]),
            )
        )
    return Federation(
        "sent140",
        tuple(clients),
        "multiclass",
        metrics=("macro_f1", "accuracy", "loss"),
        licence=LICENCE,
        citation=CITATION,
        options=found,
        embeddings=initial,
    )


def read(file: Path) -> pd.DataFrame:
    """Target, user and text of every tweet; raises :class:`DataError` naming file and row."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are too long
            # Latin-1 reads any bytes, which is what the file has.
            options = {"encoding": "latin-1", "dtype": str, "keep_default_na": False, "index_col": False}
            table = pd.read_csv(file, header=None, names=list(COLUMNS), **options)
    except (ValueError, OSError, pd.errors.ParserWarning) as error:  # other errors of the parser are ValueErrors
        reason = " ".join(str(error).split())
        raise DataError(f"{file} is not the csv of six columns ({reason}); download it again") from error
    short = (table["text"].fillna("") == "").to_numpy()
    if short.any():
        raise DataError(f"{file}, row {short.argmax() + 1} has no text in its sixth column; download it again")
    wrong = ~table["target"].isin(TARGETS).to_numpy()
    if wrong.any():
        found = table["target"].iloc[wrong.argmax()]
        raise DataError(f"{file}, row {wrong.argmax() + 1}, column target: found {found!r}, expected 0 or 4")
    return table[["target", "user", "text"]]


def busiest(table: pd.DataFrame) -> pd.DataFrame:
    """The tweets of the 50 users with the most of them, in the order of the file, with the user's ``rank`` from 0.

    Of two users with equally many, the one that tweets first in the file goes before.
    """
    counts = table["user"].value_counts(sort=False).sort_values(ascending=False, kind="stable")
    if len(counts) < BUSIEST:
        raise DataError(f"{FILE} has tweets of {len(counts)} users, expected at least {BUSIEST}; download it again")
    rank = {user: rank for rank, user in enumerate(counts.index[:BUSIEST])}
    kept = table[table["user"].isin(rank)]
    return kept.assign(rank=kept["user"].map(rank))


def split(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers of training (64 %), validation (16 %) and test (20 %)."""
    rest, test = train_test_split(np.arange(size), test_size=0.2, random_state=SEED)
    train, validation = train_test_split(rest, test_size=0.2, random_state=SEED)
    return train, validation, test
