"""Texts as numbers of their words: by a tokenizer from a local file, or by hashing where there is none.

Token numbers are int64 (n, length); 0 is padding, so that a mask of real tokens is ``tokens != 0``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.data.files import find_any, optional
from bench.types import DataError, SpecError

HASHES = 2**15  # numbers that words share where there is no tokenizer
START = 1  # stands before every text
_WORD = re.compile(r"\w+|[^\w\s]")
Tokenizer = Callable[[str], list[int]]


def tokenizer(name: str, root: Path | None, most: int | None = None) -> Tokenizer:
    """What turns a text into token numbers, at most ``most`` of them (its first ones).

    ``name`` is the place of a Hugging Face ``tokenizer.json`` below the data folders; its padding must be number 0.
    With an empty name, lower-case words and single punctuation marks become 2 plus the remainder of their BLAKE2b
    hash, a start mark before them becomes 1. Raises :class:`DataError` or, for a name that is no text,
    :class:`SpecError`.
    """
    if not isinstance(name, str):
        raise SpecError(f'tokenizer = {name!r}: expected the place of a tokenizer.json below the data folder, or ""')
    if not name:
        return lambda text: [START, *map(_hash, _WORD.findall(text.lower()))][:most]
    file = find_any([name], root, "put the tokenizer's tokenizer.json there, or leave the option tokenizer out")
    try:
        loaded = optional("tokenizers", "text").Tokenizer.from_file(str(file))
    except DataError:
        raise
    except Exception as error:  # the library raises bare exceptions
        raise DataError(f"{file} is no tokenizer.json ({error}); download it again") from error
    if loaded.token_to_id("[PAD]") not in (0, None):
        raise DataError(f"{file}: padding has number {loaded.token_to_id('[PAD]')}, expected 0")
    loaded.no_padding()
    if most is None:
        loaded.no_truncation()
    else:
        loaded.enable_truncation(most)

    def encode(text: str) -> list[int]:
        numbers: list[int] = loaded.encode(text).ids
        return numbers

    return encode


@lru_cache(maxsize=2**20)
def _hash(word: str) -> int:
    return 2 + int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big") % (HASHES - 2)


def padded(texts: Sequence[Sequence[int]]) -> np.ndarray:
    """Token numbers (n, length of the longest text), renumbered without gaps in the order of their old numbers.

    Padding is 0 whether or not it occurs.
    """
    tokens = np.zeros((len(texts), max(map(len, texts), default=0)), dtype=np.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = text
    known = np.union1d([0], tokens)
    return np.searchsorted(known, tokens)


def encoded(texts: Iterable[str], encode: Tokenizer) -> np.ndarray:
    """The padded tokens of ``texts``; see :func:`padded`."""
    return padded([encode(text) for text in texts])
