"""Clients of the quickstart: every image once, label skew, both parts usable."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from bench.data import load_dataset
from bench.types import Federation, SpecError


@pytest.fixture(scope="module")
def federation() -> Federation:
    return load_dataset("digits")


def images(federation: Federation) -> torch.Tensor:
    """All images with their labels, as sorted rows (n, 65)."""
    parts = [part for client in federation.clients for part in (client.train, client.test)]
    rows = torch.cat([torch.cat([part.x * 16, part.y[:, None]], dim=1) for part in parts])
    return torch.stack(sorted(rows, key=lambda row: row.tolist()))


def test_clients_hold_every_image_once(federation: Federation):
    pixels, labels = load_digits(return_X_y=True)
    original = torch.cat([torch.tensor(pixels), torch.tensor(labels)[:, None]], dim=1).float()
    assert torch.equal(images(federation), torch.stack(sorted(original, key=lambda row: row.tolist())))


@pytest.mark.parametrize("seed", range(5))
def test_every_client_has_a_quarter_for_testing(seed: int):
    federation = load_dataset("digits", partition_seed=seed)
    assert len(federation.clients) == 6
    for client in federation.clients:
        assert len(client.test) >= 10
        assert 0 <= len(client.test) - (len(client.train) + len(client.test)) / 4 < 1
        assert client.train.x.shape[1:] == client.test.x.shape[1:] == (64,)


def test_parts_of_a_client_are_stratified(federation: Federation):
    for client in federation.clients:
        train, test = (torch.bincount(part.y, minlength=10) for part in (client.train, client.test))
        whole = (train + test).double()
        assert ((test - whole / 4).abs() <= 1).all()


def test_partition_seed_decides_the_clients(federation: Federation):
    assert federation.fingerprint == "e1cd6c00d98bbf88bbf2cc8bb7b984732dd853e249f8f069933254ce666822ea"
    assert load_dataset("digits", partition_seed=1).fingerprint != federation.fingerprint


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_bad_partition_seed_is_refused(seed: object):
    with pytest.raises(SpecError, match=r"partition_seed = .*: expected a whole number from 0"):
        load_dataset("digits", partition_seed=seed)
