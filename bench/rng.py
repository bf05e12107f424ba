"""Keyed random numbers: each number depends on its purpose, never on what was drawn before.

A key is a hash of words such as (purpose, seed, client, round). A counter-based generator, written as tensor
arithmetic, turns the key into numbers: number ``i`` depends on (key, i) only. The same purpose therefore draws the same
numbers for any packing of runs, any order of work, and after a resume.

The generator is SplitMix64 (Steele, Lea & Flood, 2014) on int64 tensors, whose products wrap as its words do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

_GAMMA = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number, like the two below
_FIRST, _SECOND = -4658895280553007687, -7723592293110705685


def derive(*words: str | int) -> int:
    """Return a key of 63 bits for a purpose, e.g. ``derive("batches", seed, client, round)``."""
    text = "\x1f".join(f"{type(word).__name__}:{word}" for word in words)
    return int.from_bytes(_digest(text), "big") >> 1


def keys(purpose: str, *words: Sequence[int]) -> Tensor:
    """Return the keys (n,) that :func:`derive` gives for n tuples of numbers; ``words`` has n numbers for each place.

    ``keys("round", [2, 2], [0, 1])`` holds ``derive("round", 2, 0)`` and ``derive("round", 2, 1)``.
    """
    form = "\x1f".join([f"str:{purpose}", *["int:%d"] * len(words)])
    digests = b"".join([_digest(form % each) for each in zip(*words, strict=True)])
    numbers = torch.frombuffer(bytearray(digests), dtype=torch.uint8).reshape(-1, 8).flip(1).view(torch.int64)
    return (numbers.flatten() >> 1) & (2**63 - 1)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def bits(key: Tensor, counter: Tensor) -> Tensor:
    """Return 64 random bits (int64, all values equally likely) for every counter; key and counter broadcast."""
    z = key + counter * _GAMMA
    # A right shift in torch fills with the sign bit; SplitMix64 needs zeros.
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _FIRST
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _SECOND
    return z ^ ((z >> 31) & (2**33 - 1))


def happens(probability: float, key: Tensor, shape: Sequence[int]) -> Tensor:
    """Return independent events (bool) of the given shape, each true with ``probability`` (below 1)."""
    counter = torch.arange(math.prod(shape), device=key.device).view(tuple(shape))
    return bits(key, counter) < int(probability * 2**64) - 2**63


def uniform(key: Tensor, size: int) -> Tensor:
    """Return independent uniform numbers (size,) in (0, 1), multiples of 2^-24 that float32 represents exactly."""
    counter = torch.arange(size, device=key.device)
    return (((bits(key, counter) >> 41) & (2**23 - 1)) + 0.5) / 2**23


def permutation(key: int, size: int) -> Tensor:
    """Return a random order of ``range(size)`` (int64)."""
    return torch.argsort(bits(torch.tensor(key), torch.arange(size)), stable=True)
