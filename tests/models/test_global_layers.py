"""Global Layers' transformer: parameter counts of Tables 8 and 9, and its parts against torch's own."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.func import functional_call

from bench.algorithms.global_layers import GlobalLayers
from bench.models.exchange import Exchange
from bench.models.functional import Model
from bench.models.global_layers import Affine, Embedding, GatedFeedforward, MultiHeadAttention, gl_transformer
from bench.registry import check_options
from bench.types import SpecError

COVERTYPE = {"d_global": 11, "gate": True, "input_norm": True}
HEART = {"d_global": 8}
BEHIND = ("embedding", "blocks", "layer1", "layer2", "layer3", "layer4", "layer5", "norm", "head")


def samples_last(x: torch.Tensor) -> torch.Tensor:
    """The axes in reverse: what the parts of the model compute with, and back again."""
    return x.permute(*reversed(range(x.dim())))


def federated_size(model: Model, *layers: str) -> int:
    algorithm = GlobalLayers(layers=layers) if layers else GlobalLayers()
    return Exchange(model, lambda name: algorithm.shared(name, model)).size


@pytest.mark.parametrize(
    ("features", "outputs", "options", "parameters", "federated"),
    [
        pytest.param(11, 6, COVERTYPE, 915954, 717640, id="comanche"),
        pytest.param(11, 3, COVERTYPE, 915423, 717640, id="neota"),
        pytest.param(11, 4, COVERTYPE, 915600, 717640, id="poudre and rawah"),
        pytest.param(11, 7, COVERTYPE, 916131, 717640, id="fedavg and centralised"),
        pytest.param(13, 1, HEART, 448339, 298688, id="cleveland"),
        pytest.param(9, 1, HEART, 415211, 298688, id="south africa"),
        pytest.param(12, 1, HEART, 440057, 298688, id="faisalabad"),
        pytest.param(31, 1, HEART, 597415, 298688, id="union"),
    ],
)
def test_parameters_of_tables_8_and_9(features, outputs, options, parameters, federated) -> None:
    model = Model(gl_transformer((features,), outputs, **options))
    assert (model.trainable, model.size, federated_size(model)) == (parameters, parameters, federated)


def test_the_papers_fedavg_keeps_the_first_layer_private() -> None:
    covertype, heart = Model(gl_transformer((11,), 7, **COVERTYPE)), Model(gl_transformer((31,), 1, **HEART))
    assert federated_size(covertype, *BEHIND) == 916131 - 22
    assert federated_size(heart, *BEHIND[1:]) == 597415 - 1054


def test_affine_is_untrained_batch_norm_in_evaluation_mode() -> None:
    ours, theirs = Affine(5), nn.BatchNorm1d(5).eval()
    weights = {"weight": torch.randn(5), "bias": torch.randn(5)}
    for x in (torch.randn(4, 5), torch.randn(4, 5, 3)):
        found = functional_call(ours, weights, samples_last(x))
        torch.testing.assert_close(samples_last(found), functional_call(theirs, weights, x))


@pytest.mark.parametrize("features", [7, 16, 31])
def test_attention_is_torchs(features: int) -> None:
    ours, theirs = MultiHeadAttention(), nn.MultiheadAttention(16, 8, bias=False, batch_first=True)
    theirs.load_state_dict({"in_proj_weight": ours.project.weight, "out_proj.weight": ours.out.weight})
    x = torch.randn(3, features, 16)
    torch.testing.assert_close(samples_last(ours(samples_last(x))), theirs(x, x, x)[0])


def test_every_feature_has_a_linear_layer_of_its_own() -> None:
    embedding, x = Embedding(3, lambda channels: nn.Identity()), torch.randn(4, 3)
    for feature in range(3):
        layer = nn.Linear(1, 16)
        layer.load_state_dict({"weight": embedding.weight[feature, :, None], "bias": embedding.bias[feature]})
        torch.testing.assert_close(embedding(x.T)[:, feature].T, layer(x[:, feature : feature + 1]))


def test_the_gate_sees_what_is_not_normalised() -> None:
    # One channel: norm(x) = 2 x (but for its epsilon), selu(3) = 3.1521, times the gate 5 x, times 7, plus a bias.
    layer = GatedFeedforward(1, 1, Affine(1), gate=True, bias=True)
    weights = {"norm.weight": 2.0, "norm.bias": 0.0, "narrow.weight": 1.0, "narrow.bias": 1.0, "gate.weight": 5.0,
               "widen.weight": 7.0, "widen.bias": 0.5}  # fmt: skip
    given = {name: torch.tensor(value).view_as(layer.state_dict()[name]) for name, value in weights.items()}
    found = functional_call(layer, given, torch.ones(1, 1)).item()
    assert found == pytest.approx(3 * 1.0507009873554805 * 5 * 7 + 0.5, rel=1e-4)


@pytest.mark.parametrize("gate", [False, True])
def test_a_seed_draws_what_it_draws_for_torchs_own_layers(gate: bool) -> None:
    """One after another: layers of single features, attention, narrowing, widening and gate of a block, and so on."""

    def gated(width: int, hidden: int, bias: bool) -> list[nn.Module]:
        layers: list[nn.Module] = [nn.Linear(width, hidden, bias), nn.Linear(hidden, width, bias)]
        return [*layers, nn.Linear(width, hidden, False)] if gate else layers

    torch.manual_seed(4)
    found = gl_transformer((3,), 2, d_global=1, gate=gate).state_dict()
    torch.manual_seed(4)
    single = [nn.Linear(1, 16) for _ in range(3)]
    blocks = [[nn.MultiheadAttention(16, 8, bias=False), *gated(16, 8, bias=False)] for _ in range(6)]
    top = [nn.Linear(48, 64), *gated(64, 16, bias=True), nn.Linear(64, 32), *gated(32, 8, bias=True),
           nn.Linear(32, 16), nn.Linear(16, 2)]  # fmt: skip
    layers = [*(layer for block in blocks for layer in block), *top]
    theirs = [weight for layer in layers for weight in layer.state_dict().values()]
    embedding = [torch.cat([getattr(layer, part).flatten() for layer in single]) for part in ("weight", "bias")]
    ours = [weight for name, weight in found.items() if "norm" not in name and not re.search(r"layer[135]\.0", name)]
    assert [weight.flatten().tolist() for weight in ours] == [each.flatten().tolist() for each in [*embedding, *theirs]]


def test_batch_norm_is_there_for_the_asking() -> None:
    affine, batch = (Model(gl_transformer((5,), 1, d_global=1, norm=norm)) for norm in ("affine", "batch"))
    assert affine.trainable == batch.trainable
    assert (affine.batch_norm, batch.batch_norm) == (False, True)
    x = torch.randn(6, 5)
    torch.testing.assert_close(affine(affine.initial, x).output, batch(torch.cat([affine.initial,
        batch.initial[batch.trainable :]]), x).output)  # fmt: skip
    with pytest.raises(SpecError, match="norm = 'bach': did you mean 'batch'"):
        check_options("models", "gl_transformer", {"norm": "bach"})
