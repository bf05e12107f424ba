"""The U-Nets of FENDA-FL: parameter counts of Tables 9 and 12 (printed doubled), shapes, and a federated run."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.models.functional import Model
from bench.models.unet import UNet, parallel_unet3d, unet3d
from bench.train import engine
from bench.types import Budget, Client, Federation, SpecError, Split

VOLUME = (1, 48, 60, 48)


@pytest.mark.parametrize(
    ("module", "printed"),
    [
        pytest.param(unet3d(VOLUME, 2), 1106520, id="standard"),
        pytest.param(parallel_unet3d(VOLUME, 2), 984620, id="fenda"),
        pytest.param(parallel_unet3d(VOLUME, 2, channels=11), 1859924, id="depth (3, 3), latent (11, 11)"),
        pytest.param(parallel_unet3d(VOLUME, 2, channels=14, global_levels=2), 1824740, id="depth (2, 3)"),
        pytest.param(
            parallel_unet3d(VOLUME, 2, channels=16, global_channels=8, global_levels=2), 2070692, id="latent (8, 16)"
        ),
        pytest.param(
            parallel_unet3d(VOLUME, 2, channels=8, levels=2, global_channels=16, global_levels=3), 2070692,
            id="latent (16, 8)",
        ),
    ],
)  # fmt: skip
def test_parameters_of_tables_9_and_12(module: nn.Module, printed: int) -> None:
    assert Model(module).trainable == printed / 2


@pytest.mark.parametrize(("channels", "printed"), [(8, 984624), (11, 1859928)])
def test_parameters_of_apfls_twins(channels: int, printed: int) -> None:
    # Two twins, each printed doubled.
    assert 2 * Model(unet3d(VOLUME, 2, channels=channels)).trainable == printed / 2


def test_a_probability_for_every_channel_and_voxel() -> None:
    x = torch.randn(2, 1, 4, 8, 4)
    for module in (unet3d(x.shape[1:], 2, channels=2), parallel_unet3d(x.shape[1:], 2, channels=2, global_levels=2)):
        p = module(x)
        assert p.shape == (2, 2, 4, 8, 4)
        torch.testing.assert_close(p.sum(1), torch.ones(2, 4, 8, 4))


def test_fine_features_come_first_where_a_level_is_joined() -> None:
    # Channels 1, two levels: 2 channels of the way down beside 4 interpolated ones from below.
    unet = UNet(1, 1, 2).eval()
    entering = []
    unet.up[0].register_forward_pre_hook(lambda _, inputs: entering.append(inputs[0]))
    x = torch.randn(1, 1, 4, 4, 4)
    unet(x)
    [joined] = entering
    fine = unet.down[0](x)
    coarse = unet.down[1](nn.functional.max_pool3d(fine, 2))
    torch.testing.assert_close(joined[:, :2], fine)
    torch.testing.assert_close(joined[:, 2:, ::3, ::3, ::3], coarse[:, :, [0, 1]])  # corners stay where they are


@pytest.mark.parametrize("volume", [(1, 48, 62, 48), (48, 60, 48)])
def test_volumes_that_cannot_be_halved_are_refused(volume: tuple[int, ...]) -> None:
    with pytest.raises(SpecError, match=r"a U-Net of 3 levels takes volumes .* multiples of 4, not \("):
        unet3d(volume, 2)


def test_a_federated_run() -> None:
    generator = torch.Generator().manual_seed(0)

    def split(n: int) -> Split:
        x = torch.randn(n, 1, 4, 4, 4, generator=generator)
        return Split(x, torch.cat([(x <= 0).float(), (x > 0).float()], dim=1))

    clients = tuple(Client(name, split(n), split(2)) for name, n in (("A", 6), ("B", 4)))
    fed = Federation("blobs", clients, "segmentation", metrics=("dice",), loss={"name": "dice", "epsilon": 1e-9})
    budget = Budget(rounds=2, local_steps=2, batch_size=2, optimizer="adamw", validation=0.25)
    [outcome] = engine.train(
        fed, algorithm="fenda", model="parallel_unet3d", model_options={"channels": 2, "levels": 2},
        settings=[{"lr": 1e-2}], seeds=[0], budget=budget,
    )  # fmt: skip
    assert (outcome.status, outcome.path) == ("finished", "loop")
    assert 0 < outcome.aggregated[1] < outcome.aggregated[0] < 1
