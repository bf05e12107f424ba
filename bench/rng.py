"""Random numbers as a function of what they are for, never of what was drawn before.

A key is derived by hash from words such as (seed, client, round, purpose). From a key, a counter-based generator
written as tensor arithmetic makes the numbers: element ``i`` depends on (key, i) only. Whatever the packing of
runs, the order of work or a resume, the same purpose draws the same numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF


def derive(*words: str | int) -> int:
    """A key of 62 bits for a purpose, e.g. ``derive(seed, "batches", client, round)``."""
    text = "\x1f".join(f"{type(word).__name__}:{word}" for word in words)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 2


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit words (held in int64) in which every input bit moves every output bit."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & _WORD
    x = ((x ^ (x >> 15)) * 0x735A2D97) & _WORD
    return x ^ (x >> 15)


def bits(key: Tensor, counter: Tensor) -> Tensor:
    """32 random bits (as int64) for every counter; key and counter broadcast."""
    return _mix(_mix(counter + (key & _WORD) & _WORD) ^ (key >> 32))


def fold(key: Tensor, counter: Tensor) -> Tensor:
    """New keys, one for every counter; key and counter broadcast."""
    return (bits(key, 2 * counter) >> 2 << 32) | bits(key, 2 * counter + 1)


def uniform(key: Tensor, shape: Sequence[int]) -> Tensor:
    """Uniform float32 numbers in [0, 1) of the given shape, for one key."""
    counter = torch.arange(math.prod(shape), device=key.device).view(tuple(shape))
    return (bits(key, counter) >> 8).to(torch.float32) * 2.0**-24


def permutation(key: int, size: int) -> Tensor:
    """A random order of ``range(size)`` (int64)."""
    return torch.argsort(bits(torch.tensor(key), torch.arange(size)), stable=True)
