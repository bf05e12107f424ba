"""Networks as functions of a weight vector: its content, its shared part, and running statistics."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import grad

from bench.models.exchange import Exchange
from bench.models.functional import Model
from bench.models.tabular import logistic, mlp, parallel_mlp
from bench.train.optim.optimizers import AdamW
from bench.types import SpecError
from tests.reference import models

KEY = torch.tensor(7)


@pytest.mark.parametrize(
    ("module", "parameters"),
    # FENDA-FL, Tables 5 and 9, on 13 features; 151 is printed as 152.
    [
        (logistic((13,), 1), 14),
        (mlp((13,), 1, hidden=10), 151),
        (mlp((13,), 1, hidden=5), 76),
        (parallel_mlp((13,), 1, hidden=5), 151),
    ],
)
def test_parameters_of_the_papers_models(module: nn.Module, parameters: int) -> None:
    assert Model(module).trainable == Model(module).size == parameters


@pytest.mark.parametrize("module", [mlp((4,), 3, dropout=0.2), models.mlp(4, batch_norm=True), nn.Linear(4, 1)])
def test_the_vector_and_the_module_give_the_same_output(module: nn.Module) -> None:
    model, x = Model(module), torch.randn(6, 4)
    w = model.initial + 0.1
    loaded = copy.deepcopy(module)
    loaded.load_state_dict(model.state_dict(w))
    torch.testing.assert_close(loaded.eval()(x), model(w, x).output)
    assert torch.equal(Model(loaded).initial, w)


def test_the_state_dict_is_a_copy() -> None:
    model = Model(nn.Linear(3, 1))
    w = model.initial.clone()
    model.state_dict(w)["weight"].zero_()
    assert torch.equal(w, model.initial)


def test_the_users_module_is_never_changed() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1)).eval()
    before, parts = copy.deepcopy(module.state_dict()), [type(part) for part in module]
    model = Model(module)
    model(model.initial + 1, torch.randn(8, 4), KEY)
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)
    assert [type(part) for part in module] == parts
    assert not module.training


def test_frozen_weights_get_no_gradient_and_no_weight_decay() -> None:
    module = models.mlp(4)
    module.base[0].weight.requires_grad_(False)
    model = Model(module)
    assert (model.trainable, model.size) == (5 + 5 + 1, 5 * 4 + 5 + 5 + 1)
    trained = torch.arange(model.size) < model.trainable
    optimizer, w, x = AdamW(lr=0.1, weight_decay=0.5, decays=trained.float()), model.initial, torch.randn(8, 4)
    state = optimizer.init(w)
    for _ in range(3):
        gradient = grad(lambda w: model(w, x, KEY).output.mean())(w)
        w, state = optimizer.step(w, torch.where(trained, gradient, 0.0), state)
    torch.testing.assert_close(model.split(w)["base.0.weight"], module.base[0].weight.detach(), rtol=0, atol=0)
    assert bool((w != model.initial)[: model.trainable].all())


def test_a_model_without_trainable_weights_is_refused() -> None:
    with pytest.raises(SpecError, match="no trainable parameters"):
        Model(nn.Linear(3, 1).requires_grad_(False))


class HeadFirst(nn.Module):
    """Its head is defined before its body."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Linear(3, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.body(x)))


class Weights(nn.Module):
    """Weights of its own, without layers."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.slope


@pytest.mark.parametrize(
    ("module", "head"),
    [
        (HeadFirst(), {"head.weight", "head.bias"}),
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1), nn.Sigmoid()), {"2.weight", "2.bias"}),
        (mlp((4,), 1), {"head.0.weight", "head.0.bias"}),
        (nn.Linear(4, 1), {"weight", "bias"}),
        (Weights(), {"slope"}),
    ],
)
def test_the_head(module: nn.Module, head: set[str]) -> None:
    model = Model(module)
    assert {name for name in model.names if model.in_head(name)} == head


def test_features_are_what_enters_the_head() -> None:
    module, x = HeadFirst(), torch.randn(5, 4)
    model = Model(module)
    torch.testing.assert_close(model(model.initial, x).features, torch.relu(module.body(x)))
    image = Model(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 3, 1), nn.Flatten()))
    assert image(image.initial, torch.randn(5, 1, 4, 4)).features.shape == (5, 2 * 2 * 2)


def test_features_of_a_parallel_model_are_local_then_global() -> None:
    module, x = parallel_mlp((4,), 1, hidden=3), torch.randn(5, 4)
    model = Model(module)
    features = model(model.initial, x).features
    assert model.parallel
    assert model.local_features == 3
    torch.testing.assert_close(features, torch.cat([module.local_extractor(x), module.global_extractor(x)], 1))


class Idle(HeadFirst):
    """Never calls its head."""

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def test_a_head_that_is_never_called_is_named() -> None:
    model = Model(Idle())
    with pytest.raises(SpecError, match="never calls its last layer 'head'"):
        model(model.initial, torch.randn(2, 4))


@given(shared=st.sets(st.sampled_from(Model(models.parallel(2, hidden=2, batch_norm=True)).names)))
def test_sharing_and_installing_are_inverse(shared: set[str]) -> None:
    model = Model(models.parallel(2, hidden=2, batch_norm=True))
    exchange = Exchange(model, shared.__contains__)
    own = torch.arange(model.size, dtype=torch.float32)
    arriving = -1 - torch.arange(exchange.size, dtype=torch.float32)
    installed = exchange.install(own, arriving)
    assert torch.equal(exchange.share(installed), arriving)
    assert torch.equal(exchange.install(own, exchange.share(own)), own)
    assert exchange.size == sum(part.numel() for name, part in model.split(own).items() if name in shared)
    for name, part in model.split(installed).items():
        assert bool((part < 0).all()) if name in shared else torch.equal(part, model.split(own)[name])


def test_dropout_keeps_the_mean_and_drops_its_share() -> None:
    model = Model(nn.Sequential(nn.Dropout(0.3), nn.Linear(400, 1)))
    x = torch.ones(250, 400)
    kept = model(model.initial, x, KEY).features
    assert set(kept.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert (kept == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert kept.mean().item() == pytest.approx(1, abs=0.01)
    assert len({tuple(row) for row in (kept == 0).tolist()}) == 250
    assert torch.equal(model(model.initial, x).features, x)


def test_dropout_layers_draw_masks_of_their_own() -> None:
    model = Model(nn.Sequential(nn.Dropout(0.5), nn.Identity(), nn.Dropout(0.5), nn.Linear(1000, 1)))
    twice = model(model.initial, torch.ones(1, 1000), KEY).features
    assert (twice == 0).float().mean().item() == pytest.approx(0.75, abs=0.05)


def test_dropout_of_channels_drops_whole_ones() -> None:
    model = Model(nn.Sequential(nn.Dropout2d(0.5), nn.Conv2d(8, 1, 1)))
    model(model.initial, torch.ones(4, 8, 3, 3), KEY)
    seen = model(model.initial, torch.ones(4, 8, 3, 3), KEY).features.view(32, 9)
    assert set(seen.sum(1).tolist()) == {0.0, 18.0}


def test_batch_norm_moves_its_statistics_in_training_only() -> None:
    module, x = models.mlp(4, batch_norm=True), torch.randn(6, 4)
    model = Model(module)
    assert model.batch_norm
    assert torch.equal(model(model.initial, x).w, model.initial)
    expected = copy.deepcopy(module)
    expected.train()(x)
    moved = model.split(model(model.initial, x, KEY).w)
    state = expected.state_dict()
    torch.testing.assert_close(moved, {name: state[name] for name in moved})


def test_batch_norm_over_all_batches_ever_seen_is_refused() -> None:
    with pytest.raises(SpecError, match="give it a momentum"):
        Model(nn.Sequential(nn.BatchNorm1d(3, momentum=None), nn.Linear(3, 1)))
