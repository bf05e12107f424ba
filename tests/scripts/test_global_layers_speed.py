"""The plain transformer of the speed script equals the model that silobench trains."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

from bench.models.global_layers import gl_transformer

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    yield importlib.import_module("plain_transformer")
    sys.modules.pop("plain_transformer")


def test_both_are_the_same_network(plain) -> None:
    torch.manual_seed(3)
    ours = gl_transformer((5,), 3, d_global=1, gate=True, input_norm=True)
    torch.manual_seed(3)
    theirs = plain.Transformer(5, 3, d_global=1).eval()
    x = torch.randn(7, 5)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
    assert sum(w.numel() for w in ours.parameters()) == sum(w.numel() for w in theirs.parameters())


def test_its_rounds_average_the_middle_layers_only(plain) -> None:
    sites = [(torch.randn(12, 3), torch.randint(0, 2, (12,)), plain.Transformer(3, 2, d_global=1)) for _ in range(2)]
    begun = [model.head.weight.clone() for _, _, model in sites]
    plain.rounds(sites, 2, batches=3)
    (_, _, one), (_, _, other) = sites
    assert torch.equal(one.layer3[1].weight, other.layer3[1].weight)
    assert not torch.equal(one.layer1[1].weight, other.layer1[1].weight)
    assert not torch.equal(one.head.weight, begun[0])
