"""Sentiment of tweets by fifteen of the most active users of Sentiment140, as in PLayer-FL."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split

from bench.data.files.cards import raw_files
from bench.data.files.locate import locate
from bench.data.readers import text
from bench.registry import register
from bench.types import Client, DataError, Federation, SpecError, Split, nearest

FILES = raw_files(__file__)
COLUMNS = ("target", "id", "date", "flag", "user", "text")
TARGETS = {"0": 0, "4": 1}
BUSIEST = 50  # users whose tweets determine the vocabulary and the length of inputs
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
    """Sentiment of tweets (negative or positive): fifteen users of Sentiment140, one client each.

    ``x`` is (n, length) int64 with 0 as padding. ``users`` "as_published" takes the last 15 of the 50 users with the
    most tweets, as PLayer-FL's code does; "top_15" takes the first 15, as its text says. ``tokenizer`` is the path of a
    tokenizer.json below the data folder; without it words are hashed (see :func:`bench.data.readers.text.tokenizer`).
    ``embeddings`` is the path of word vectors, with which models of tokens are initialised (see
    :class:`bench.data.readers.text.Embeddings`).
    """
    if users not in CHOICES:
        raise SpecError(f"users = {users!r}: {nearest(str(users), CHOICES)}")
    vectors = text.Embeddings(embeddings, embeddings_sha256, tokenizer)
    encode = text.tokenizer(tokenizer, root)
    tweets = busiest(read(locate(FILES["tweets"], root)))
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
        options=found,
        embeddings=initial,
    )


def read(file: Path) -> pd.DataFrame:
    """Return target, user and text of every tweet; raise :class:`DataError` with file and row."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # a row is too long
            # Latin-1 decodes any bytes; the file is not UTF-8.
            options = {"encoding": "latin-1", "dtype": str, "keep_default_na": False, "index_col": False}
            table = pd.read_csv(file, header=None, names=list(COLUMNS), **options)
    except (ValueError, OSError, pd.errors.ParserWarning) as error:  # other errors of the parser are ValueErrors
        reason = " ".join(str(error).split())
        raise DataError(f"{file}: is not a csv file of six columns ({reason}); download it again") from error
    short = (table["text"].fillna("") == "").to_numpy()
    if short.any():
        raise DataError(f"{file}, row {short.argmax() + 1}: has no text in its sixth column; download the file again")
    wrong = ~table["target"].isin(TARGETS).to_numpy()
    if wrong.any():
        found = table["target"].iloc[wrong.argmax()]
        raise DataError(f'{file}, row {wrong.argmax() + 1}, column "target": found {found!r}, expected 0 or 4')
    return table[["target", "user", "text"]]


def busiest(table: pd.DataFrame) -> pd.DataFrame:
    """Return the tweets of the 50 users with the most tweets, in the order of the file, with the user's ``rank``.

    Ranks count from 0. Of two users with equally many tweets, the one who tweets first in the file has the lower rank.
    """
    counts = table["user"].value_counts(sort=False).sort_values(ascending=False, kind="stable")
    if len(counts) < BUSIEST:
        raise DataError(
            f"{FILES['tweets'].path}: has {len(counts)} users, expected at least {BUSIEST}; download it again"
        )
    rank = {user: rank for rank, user in enumerate(counts.index[:BUSIEST])}
    kept = table[table["user"].isin(rank)]
    return kept.assign(rank=kept["user"].map(rank))


def split(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row numbers of the training (64 %), validation (16 %) and test part (20 %)."""
    rest, test = train_test_split(np.arange(size), test_size=0.2, random_state=SEED)
    train, validation = train_test_split(rest, test_size=0.2, random_state=SEED)
    return train, validation, test
