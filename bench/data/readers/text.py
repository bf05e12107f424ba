"""Texts as numbers of their words: by a tokenizer from a local file, or by hashing where there is none.

Token numbers are int64 (n, length); 0 is padding, so that a mask of real tokens is ``tokens != 0``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bench.data.files import manifest
from bench.data.files.user_files import find_any, optional
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


def padded(texts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token numbers (n, length of the longest text), renumbered without gaps, and the old number (v,) of each new one.

    The order of the old numbers is kept. Padding is 0 whether or not it occurs.
    """
    tokens = np.zeros((len(texts), max(map(len, texts), default=0)), dtype=np.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = text
    known = np.union1d([0], tokens)
    return np.searchsorted(known, tokens), known


@dataclass(frozen=True)
class Embeddings:
    """Where the vectors of a tokenizer's tokens lie; ``place`` is a file below the data folders, or empty for none.

    A file is a matrix (tokens, width) of floating point numbers: .npy, or .safetensors, where the matrix is the only
    one or the one whose name ends in word_embeddings.weight (as in BERT). ``sha256`` pins the file if it is not empty.
    Raises :class:`SpecError` for options that cannot be.
    """

    place: str
    sha256: str
    tokenizer: str

    def __post_init__(self) -> None:
        if not isinstance(self.place, str):
            raise SpecError(f'embeddings = {self.place!r}: expected the place of a file below the data folder, or ""')
        if not isinstance(self.sha256, str) or not re.fullmatch("([0-9a-f]{64})?", self.sha256):
            raise SpecError(f"embeddings_sha256 = {self.sha256!r}: expected 64 hexadecimal digits in lower case")
        if self.place and not self.tokenizer:
            raise SpecError(f"embeddings = {self.place!r}: they belong to a tokenizer's tokens; give tokenizer, too")
        if self.sha256 and not self.place:
            raise SpecError("embeddings_sha256 is given without embeddings; give both or neither")

    def read(self, numbers: np.ndarray, root: Path | None) -> tuple[Tensor | None, dict[str, str]]:
        """The vectors (v, width) float32 of a tokenizer's ``numbers`` (v,), that of padding zero; and the file's hash.

        Raises :class:`DataError` naming the file if it is not such a matrix.
        """
        if not self.place:
            return None, {}
        file = find_any([self.place], root, "put the vectors there, or leave the option embeddings out")
        digest = manifest.sha256(file)
        if self.sha256 not in ("", digest):
            raise DataError(f"{file}: expected sha256 {self.sha256}, found {digest}")
        matrix = _matrix(file)
        if matrix.dim() != 2 or not matrix.is_floating_point():
            raise DataError(f"{file} holds {tuple(matrix.shape)} of {matrix.dtype}, expected (tokens, width) of floats")
        if numbers[-1] >= len(matrix):
            raise DataError(f"{file} has vectors of {len(matrix)} tokens, the tokenizer gives numbers to {numbers[-1]}")
        rows = matrix[torch.from_numpy(numbers)].float()
        wrong = ~torch.isfinite(rows).all(1)
        if wrong.any():
            raise DataError(f"{file}: the vector of token {numbers[int(wrong.int().argmax())]} is not finite")
        rows[0] = 0.0
        return rows, {"embeddings_sha256": digest}


def _matrix(file: Path) -> Tensor:
    try:
        if file.suffix == ".npy":
            return torch.from_numpy(np.load(file, mmap_mode="c", allow_pickle=False))
        if file.suffix == ".safetensors":
            with safe_open(file, framework="pt") as tensors:
                names = list(tensors.keys())
                named = [name for name in names if len(names) == 1 or name.endswith("word_embeddings.weight")]
                if len(named) == 1:
                    matrix: Tensor = tensors.get_tensor(named[0])
                    return matrix
                reason = f"{len(named)} of its {len(names)} tensors are called ...word_embeddings.weight, expected one"
        else:
            reason = "expected a file in .safetensors or .npy"
    except (OSError, EOFError, ValueError, TypeError, AttributeError, SafetensorError) as error:
        reason = " ".join(str(error).split())
    raise DataError(f"{file} holds no vectors of tokens: {reason}")
