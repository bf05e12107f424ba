"""Random numbers as a function of what they are for, never of what was drawn before.

A key is derived by hash from words such as (seed, client, round, purpose). From a key, a counter-based generator
written as tensor arithmetic makes the numbers: number ``i`` depends on (key, i) only. Whatever the packing of
runs, the order of work or a resume, the same purpose draws the same numbers.

The generator is SplitMix64 (Steele, Lea & Flood, 2014) on int64 tensors, whose products wrap as its words do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

_GAMMA = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number, and so the two below
_FIRST, _SECOND = -4658895280553007687, -7723592293110705685


def derive(*words: str | int) -> int:
    """A key of 63 bits for a purpose, e.g. ``derive("batches", seed, client, round)``."""
    text = "\x1f".join(f"{type(word).__name__}:{word}" for word in words)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def bits(key: Tensor, counter: Tensor) -> Tensor:
    """64 random bits (int64, all values equally likely) for every counter; key and counter broadcast."""
    z = key + counter * _GAMMA
    # Torch shifts copies of the sign in; SplitMix64 wants zeros there.
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _FIRST
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _SECOND
    return z ^ ((z >> 31) & (2**33 - 1))


def happens(probability: float, key: Tensor, shape: Sequence[int]) -> Tensor:
    """Independent events (bool) of the given shape, each true with ``probability`` (below 1)."""
    counter = torch.arange(math.prod(shape), device=key.device).view(tuple(shape))
    return bits(key, counter) < int(probability * 2**64) - 2**63


def uniform(key: Tensor, size: int) -> Tensor:
    """Independent numbers (size,) between 0 and 1, neither of them included, on the grid float32 can hold."""
    counter = torch.arange(size, device=key.device)
    return (((bits(key, counter) >> 41) & (2**23 - 1)) + 0.5) / 2**23


def permutation(key: int, size: int) -> Tensor:
    """A random order of ``range(size)`` (int64)."""
    return torch.argsort(bits(torch.tensor(key), torch.arange(size)), stable=True)
