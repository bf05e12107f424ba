"""PLayer-FL's networks: parameters of every layer, sizes of the maps, initial weights, and padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.models import player
from bench.models.functional import Model

FMNIST = [1_664, 204_928, 819_456, 25_700]


@pytest.mark.parametrize(
    ("module", "layers", "total"),
    [
        (player.player_fmnist((1, 28, 28), 10), [*FMNIST, 1_010], 1_052_758),
        (player.player_fmnist((1, 28, 28), 62), [*FMNIST, 6_262], 1_058_010),
        (
            player.player_cifar((3, 32, 32), 10),
            [1_792, 73_856, 295_168, 1_180_160, 2_359_808, 51_300, 1_010],
            3_963_094,
        ),
        (player.player_isic((3, 200, 200), 4), [896, 18_496, 73_856, 295_168, 1_180_160, 131_328, 1_028], 1_700_932),
        (player.player_heart((10,), 5), [550, 1_020, 420, 105], 2_095),
    ],
)
def test_parameters_of_every_layer(module: nn.Module, layers: list[int], total: int) -> None:
    model = Model(module)
    assert model.layer_sums(torch.ones(model.size)).tolist() == layers
    assert model.trainable == model.size == total
    assert model.in_head(model.names[-1])
    assert not model.in_head(model.names[-3])


@pytest.mark.parametrize(("length", "rest"), [(119, 7_175_426), (512, 7_477_250)])
def test_parameters_of_the_text_model(length: int, rest: int) -> None:
    model = Model(player.player_text((length,), 2, vocabulary=50))
    assert model.trainable == 768 * 50 + rest
    assert model.layers == [
        "token_embedding", "position_embedding", "attention1", "proj1", "fc1", "resid1", "fc2.0"
    ]  # fmt: skip
    sizes = model.layer_sums(torch.ones(model.size)).tolist()
    assert sizes[2:] == [1_769_472, 590_592, 2_362_368, 2_360_064, 1_538]


@pytest.mark.parametrize(
    ("make", "inputs", "sizes"),
    [
        (player.player_fmnist, (1, 28, 28), [28, 14, 7]),
        (player.player_cifar, (3, 32, 32), [34, 36, 20, 22, 13]),
        (player.player_isic, (3, 200, 200), [200, 200, 200, 100, 50]),
    ],
)
def test_sizes_of_the_convolutions_maps(make, inputs: tuple[int, ...], sizes: list[int]) -> None:
    found = []
    with torch.device("meta"):
        module, x = make(inputs, 4), torch.empty(2, *inputs)
    for part in module:
        if isinstance(part, nn.Conv2d):
            part.register_forward_hook(lambda _, inputs, output: found.append(output.shape[-1]))
    assert module(x).shape == (2, 4)
    assert found == sizes


def test_initial_weights() -> None:
    torch.manual_seed(0)
    module = player.player_fmnist((1, 28, 28), 10)
    # Kaiming: variance 2 / fan-in.
    assert module.layer2.weight.std().item() == pytest.approx((2 / (64 * 25)) ** 0.5, rel=0.02)
    assert not any(weight.any() for name, weight in module.named_parameters() if name.endswith("bias"))
    text: Any = player.player_text((20,), 2, vocabulary=30, width=64)
    assert text.attention1.weight.std().item() == pytest.approx((2 / 64) ** 0.5, rel=0.05)
    assert not text.token_embedding.weight[0].any()
    rows = torch.cat([text.token_embedding.weight[1:], text.position_embedding.weight])
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(49))


def test_dropout_is_where_the_paper_has_it() -> None:
    def rates(module: nn.Module) -> list[float]:
        return [part.p for part in module.children() if isinstance(part, nn.Dropout)]

    assert rates(player.player_cifar((3, 32, 32), 10)) == [0.3] * 5
    assert rates(player.player_isic((3, 200, 200), 4)) == [0.2] * 3
    assert rates(player.player_fmnist((1, 28, 28), 10)) == []


def test_padding_changes_nothing() -> None:
    torch.manual_seed(1)
    model = Model(player.player_text((9,), 2, vocabulary=30, width=8))
    tokens = torch.randint(1, 30, (4, 6))
    padded = torch.cat([tokens, torch.zeros(4, 3, dtype=torch.int64)], 1)
    torch.testing.assert_close(model(model.initial, padded).output, model(model.initial, tokens).output)
    # A token in the last place is not padding: it is looked at.
    longer = padded.clone()
    longer[:, -1] = 5
    assert not torch.allclose(model(model.initial, longer).output, model(model.initial, tokens).output)


def test_attention_is_torchs() -> None:
    torch.manual_seed(2)
    attention, x = player.SingleHeadAttention(8), torch.randn(3, 5, 8)
    present = torch.tensor([[True] * 5, [True, True, True, False, False], [True] + [False] * 4])
    q, k, v = ((x @ w.T) for w in attention.weight.chunk(3))
    expected = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=present[:, None])
    torch.testing.assert_close(attention(x, present), expected)
