"""The kernel of AdamW's update against its definition; tests/train/optim compares both with torch."""

from __future__ import annotations

import pytest
import torch

from bench.native import adamw


@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_is_the_definition(seed: int) -> None:
    """Compare with double precision, to a few roundings (6e-8) of the terms, which may cancel in the result."""
    torch.manual_seed(seed)
    w, gradient, m, v = torch.randn(4, 1001) * torch.logspace(-8, 2, 1001)
    keep, scale, epsilon = torch.tensor(0.999), torch.tensor(0.01), torch.tensor(1e-8)
    arguments = (w, gradient, m, v.abs(), keep, scale, epsilon)
    assert adamw.KERNEL.serves(w)
    exact = adamw.by_definition(*(each.double() for each in arguments))
    terms = adamw.by_definition(w.abs(), gradient.abs(), m.abs(), v.abs(), keep, -scale, epsilon)
    for found in (adamw.update(*arguments), adamw.by_definition(*arguments)):
        for ours, theirs, size in zip(found, exact, terms, strict=True):
            assert ((ours - theirs).abs() <= 1e-6 * size).all()
