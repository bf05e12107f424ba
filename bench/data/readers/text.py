"""Conversion of texts to token numbers, by a tokenizer from a local file or by hashing words; word vectors.

Token numbers are (n, length) int64 with 0 as padding.
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

from bench.data.files import hashes
from bench.data.files.locate import locate_path
from bench.optional import optional
from bench.types import DataError, SilobenchError, SpecError

VOCABULARY = 2**15  # token numbers without a tokenizer
START = 1  # the first token of every text
_WORD = re.compile(r"\w+|[^\w\s]")
Tokenizer = Callable[[str], list[int]]


def tokenizer(name: str, root: Path | None, most: int | None = None) -> Tokenizer:
    """Return a function from a text to its token numbers, at most the first ``most``.

    ``name`` is the path of a Hugging Face ``tokenizer.json`` below the data folders, whose padding must be token 0.
    With an empty name, each lower-case word and punctuation mark becomes 2 plus its BLAKE2b hash modulo the remaining
    vocabulary, after a start token 1. Raises :class:`DataError` for a file that cannot be used and :class:`SpecError`
    for a name that is not text.
    """
    if not isinstance(name, str):
        raise SpecError(f'tokenizer = {name!r}: expected the path of a tokenizer.json below the data folder, or ""')
    if not name:
        return lambda text: [START, *map(_hash, _WORD.findall(text.lower()))][:most]
    file = locate_path(name, root, "put the tokenizer.json there, or omit the option tokenizer")
    try:
        loaded = optional("tokenizers", "text").Tokenizer.from_file(str(file))
    except SilobenchError:
        raise
    except Exception as error:  # the library raises plain exceptions
        raise DataError(f"{file}: is not a tokenizer.json ({error}); download it again") from error
    if loaded.token_to_id("[PAD]") not in (0, None):
        raise DataError(f"{file}: padding is token {loaded.token_to_id('[PAD]')}, expected token 0")
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
    return 2 + int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big") % (VOCABULARY - 2)


def padded(texts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens (n, length of the longest text), renumbered without gaps, and the old numbers (v,) of the new ones.

    New numbers have the order of the old ones. Padding is 0.
    """
    tokens = np.zeros((len(texts), max(map(len, texts), default=0)), dtype=np.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = text
    known = np.union1d([0], tokens)
    return np.searchsorted(known, tokens), known


@dataclass(frozen=True)
class Embeddings:
    """The file with the word vectors of a tokenizer's tokens.

    ``place`` is its path below the data folders, or empty for no vectors. The file holds a matrix (tokens, width) of
    floating-point numbers: a .npy file, or a .safetensors file in which the matrix is the only tensor or the one whose
    name ends in word_embeddings.weight (as in BERT). If ``sha256`` is not empty, the file must have this checksum.
    Raises :class:`SpecError` for impossible options.
    """

    place: str
    sha256: str
    tokenizer: str

    def __post_init__(self) -> None:
        if not isinstance(self.place, str):
            raise SpecError(f'embeddings = {self.place!r}: expected the path of a file below the data folder, or ""')
        if not isinstance(self.sha256, str) or not re.fullmatch("([0-9a-f]{64})?", self.sha256):
            raise SpecError(f"embeddings_sha256 = {self.sha256!r}: expected 64 hexadecimal digits in lower case")
        if self.place and not self.tokenizer:
            raise SpecError(
                f"embeddings = {self.place!r}: needs the option tokenizer; give the tokenizer of these vectors"
            )
        if self.sha256 and not self.place:
            raise SpecError("embeddings_sha256: is given without embeddings; give both or neither")

    def read(self, numbers: np.ndarray, root: Path | None) -> tuple[Tensor | None, dict[str, str]]:
        """Return the vectors (v, width) float32 of the tokens ``numbers`` (v,), and options with the file's checksum.

        The vector of padding is zero. Raises :class:`DataError` if the file is not such a matrix.
        """
        if not self.place:
            return None, {}
        file = locate_path(self.place, root, "put the vectors there, or omit the option embeddings")
        digest = hashes.sha256(file)
        if self.sha256 not in ("", digest):
            raise DataError(f"{file}: expected sha256 {self.sha256}, found {digest}")
        matrix = _matrix(file)
        if matrix.dim() != 2 or not matrix.is_floating_point():
            raise DataError(
                f"{file}: has shape {tuple(matrix.shape)} of {matrix.dtype}, expected (tokens, width) of floats"
            )
        if numbers[-1] >= len(matrix):
            raise DataError(f"{file}: has vectors of {len(matrix)} tokens, but the tokenizer uses token {numbers[-1]}")
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
    raise DataError(f"{file}: has no word vectors: {reason}")
