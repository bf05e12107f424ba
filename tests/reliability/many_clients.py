"""SYNTHETIC federations of many clients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench.types import Client, Federation, Split


def federation(sizes: Sequence[int], test: int = 20, features: int = 20) -> Federation:
    """Return one client for each number of training samples, with ``test`` test samples each; a binary task."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(features, 1, generator=generator)

    def split(n: int) -> Split:
        x = torch.randn(n, features, generator=generator)
        return Split(x, (x @ direction + torch.randn(n, 1, generator=generator) > 0).float())

    clients = tuple(Client(str(c), split(n), split(test)) for c, n in enumerate(sizes))
    return Federation("synthetic_clients", clients, "binary", synthetic=True)


def log_normal(clients: int, median: float = 100, sigma: float = 1.0, seed: int = 0) -> list[int]:
    """Return numbers of samples of which the logarithm is normally distributed, at least 2."""
    generator = torch.Generator().manual_seed(seed)
    return (median * torch.exp(sigma * torch.randn(clients, generator=generator))).long().clamp(min=2).tolist()
