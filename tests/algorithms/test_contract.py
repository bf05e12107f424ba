"""Every registered algorithm trains on tables and images, and those that can on features of the clients' own."""

from __future__ import annotations

import pytest
import torch

from bench import settings
from bench.registry import catalogue, load
from bench.train import engine
from bench.types import Budget, Client, Federation, Split
from tests.train.toy import federation

OPTIONS = {"global_layers": {"layers": ("head",)}}  # its own are the layers of its paper's model
BUDGET = Budget(rounds=2, local_steps=2, batch_size=4)
# These exchange nothing, or only the head, which does not depend on the features.
FEATURES_OF_THEIR_OWN = ("global_layers", "lg_fedavg", "local")


def _images() -> Federation:
    generator = torch.Generator().manual_seed(1)

    def split(n: int) -> Split:
        x = torch.randn(n, 1, 8, 8, generator=generator)
        return Split(x, (x.mean((1, 2, 3)) > 0).long() + (x[:, 0, 0, 0] > 0).long())

    clients = tuple(Client(f"site {c}", split(n), split(7)) for c, n in enumerate((23, 11, 12)))
    return Federation("images", clients, "multiclass", classes=3)


def _check(fed: Federation, name: str, model: str, model_options: dict[str, int]) -> None:
    (outcome,) = engine.train(
        fed, algorithm=name, algorithm_options=OPTIONS.get(name), model=model, model_options=model_options,
        settings=[{"lr": 0.01}], seeds=[1], budget=BUDGET,
    )  # fmt: skip
    assert outcome.status == "finished"
    own = {client for rule, model, client, _, value in outcome.scores if rule == "latest" and value is not None}
    assert own == set(range(len(fed.clients)))
    assert all(loss is not None for losses in outcome.validation for loss in losses)


@pytest.mark.slow  # the reference loops have binary tables in the fast tests
@pytest.mark.parametrize("name", catalogue("algorithms"))
def test_on_a_binary_table(name: str) -> None:
    _check(federation(), name, "mlp", {"hidden": 4})


@pytest.mark.parametrize("name", catalogue("algorithms"))
def test_on_images_of_several_classes(name: str) -> None:
    _check(_images(), name, "cnn", {"channels": 2, "hidden": 4})


@pytest.mark.parametrize("name", FEATURES_OF_THEIR_OWN)
def test_on_clients_with_features_of_their_own(name: str) -> None:
    parts = [federation(features=features).clients[c] for c, features in enumerate((13, 9, 12))]
    fed = Federation("disjoint", tuple(parts), "binary")
    _check(fed, name, "mlp", {"hidden": 4})


@pytest.mark.parametrize("name", catalogue("algorithms"))
def test_the_class_has_its_name_and_defaults_that_the_engine_resolves(name: str) -> None:
    kind = load("algorithms", name)
    assert kind.registered_name == name
    assert set(kind.hyperparameters()) <= set(settings.resolve(name, kind.optimizers[0], {}))
