"""EfficientNet-B0: parameter counts of FENDA-FL's Table 9, its details, and weights from a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from torch import nn

from bench.models.efficientnet import MBConv, _convolution, efficientnet_b0, parallel_efficientnet_b0
from bench.models.functional import Model
from bench.types import DataError, SpecError

IMAGE = (3, 200, 200)


def test_parameters_of_table_9() -> None:
    full, twin = efficientnet_b0(IMAGE, 8), efficientnet_b0(IMAGE, 8, frozen_blocks=13)
    fenda = parallel_efficientnet_b0(IMAGE, 8)
    assert [Model(module).trainable for module in (full, twin, fenda)] == [4017796, 2315544, 4775016]
    assert 2 * 2315544 == 4631088  # as printed for APFL
    assert Model(full).size == Model(twin).size


def test_what_is_frozen_is_the_stem_and_the_first_blocks() -> None:
    twin = efficientnet_b0(IMAGE, 8, frozen_blocks=13)
    trained = [number for number, part in enumerate(twin.base) if any(p.requires_grad for p in part.parameters())]
    assert trained == [14, 15, 16, 17]
    with pytest.raises(SpecError, match="frozen_blocks = 17: expected 0 to 16"):
        efficientnet_b0(IMAGE, 8, frozen_blocks=17)


def test_images_shrink_as_with_the_published_weights() -> None:
    # Padding is that of 224 pixels: 25 become 12, which symmetric padding would make 13.
    x, sides = torch.randn(1, *IMAGE), []
    for part in efficientnet_b0(IMAGE, 8).base.eval()[:-1]:
        x = part(x)
        sides.append(x.shape[-1])
    assert sides == [100, 100, *[50] * 2, *[25] * 2, *[12] * 6, *[6] * 5]


@pytest.mark.parametrize(
    ("kernel", "stride", "windows"),
    # The rows of a picture of four that each window sees: half of them begins before the picture, the odd one after.
    [(3, 1, [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]), (3, 2, [[0, 1, 2], [2, 3]]), (5, 2, [[0, 1, 2, 3], [1, 2, 3]])],
)
def test_padding(kernel: int, stride: int, windows: list[list[int]]) -> None:
    layer = _convolution(1, 1, kernel, stride).eval()
    nn.init.ones_(layer[1].weight)
    rows = torch.eye(4)[:, None, :, None] * torch.tensor([1.0, 0.0, 0.0, 0.0])  # picture r is 1 in row r, column 0
    seen = layer(rows)[:, 0, :, 0] > 0.5
    assert [torch.nonzero(column)[:, 0].tolist() for column in seen.T] == windows


def test_in_training_whole_samples_lose_the_branch() -> None:
    torch.manual_seed(0)
    block = MBConv(8, 8, expansion=6, kernel=3, stride=1, drop=0.25)
    x, key = torch.randn(200, 8, 4, 4), torch.tensor(3)
    dropping, sure = Model(block), Model(block)
    sure._dropouts[0].p = 0.0
    branch = (sure(sure.initial, x, key).output - x) / 0.75
    found = dropping(dropping.initial, x, key).output - x
    dropped = (found == 0).flatten(1).all(1)
    torch.testing.assert_close(found[~dropped], branch[~dropped], rtol=1e-4, atol=1e-5)
    assert 30 < dropped.sum() < 70
    evaluated = dropping(dropping.initial, x).output
    torch.testing.assert_close(evaluated, block.eval()(x))


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, torch.Tensor]]:
    """A file of a whole network for 1,000 classes whose layers have other names, its checksum and contents."""
    file = tmp_path_factory.mktemp("weights") / "b0.pth"
    state = {f"_{number}": value for number, value in enumerate(efficientnet_b0(IMAGE, 1000).state_dict().values())}
    torch.save(state, file)
    return file, hashlib.sha256(file.read_bytes()).hexdigest(), state


def test_weights_from_a_file(pretrained: tuple[Path, str, dict[str, torch.Tensor]]) -> None:
    file, sha256, state = pretrained
    parallel = parallel_efficientnet_b0(IMAGE, 8, weights=str(file), sha256=sha256)
    for extractor in (parallel.local_extractor, parallel.global_extractor):
        for ours, theirs in zip(extractor.state_dict().values(), state.values(), strict=False):
            assert torch.equal(ours, theirs)


def test_weights_that_are_not_taken(pretrained: tuple[Path, str, dict[str, torch.Tensor]], tmp_path: Path) -> None:
    file, sha256, state = pretrained
    short = dict(list(state.items())[7:])

    def saved(name: str, what: object) -> dict[str, str]:
        torch.save(what, tmp_path / name)
        return {
            "weights": str(tmp_path / name), "sha256": hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        }  # fmt: skip

    for options, message in (
        ({"weights": str(file), "sha256": "0" * 64}, f"its SHA-256 is {sha256}, not sha256 = '0000"),
        ({"weights": str(file)}, "not sha256 = None; give the right one"),
        ({"sha256": sha256}, "there is no such file; leave weights out"),
        ({"weights": "nowhere.pth", "sha256": sha256}, "there is no such file"),
        (saved("short.pth", short), "not the weights of an EfficientNet-B0"),
        (saved("module.pth", nn.Linear(2, 2)), "not a state dict"),
        (saved("list.pth", [1, 2]), "not a state dict"),
    ):
        with pytest.raises(DataError, match=message):
            efficientnet_b0(IMAGE, 8, **options)
