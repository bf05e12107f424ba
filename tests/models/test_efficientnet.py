"""EfficientNet-B0: parameter counts of FENDA-FL's Table 9, its details, and weights from a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from bench import registry
from bench.models.efficientnet import LAYOUTS, MBConv, _convolution, efficientnet_b0, parallel_efficientnet_b0
from bench.models.functional import Model
from bench.types import Budget, DataError, RunSpec, SpecError

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
    with pytest.raises(SpecError, match="frozen_blocks = 17: expected a whole number of at least 0 and at most 16"):
        registry.check_options("models", "efficientnet_b0", {"frozen_blocks": 17})


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


# Weights from a file ------------------------------------------------------------------------------------------------


def sha256(file: Path) -> str:
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    """The floating point tensors of a network for 1,000 classes, as efficientnet_pytorch calls them, shuffled."""
    values = [value for value in efficientnet_b0(IMAGE, 1000).state_dict().values() if value.is_floating_point()]
    named = dict(zip((*LAYOUTS["efficientnet_pytorch"], "_fc.weight", "_fc.bias"), values, strict=True))
    return {name: named[name] for name in sorted(named)}


@pytest.fixture(scope="module")
def folder(state: dict[str, torch.Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights in both forms, one called as torchvision does."""
    folder = tmp_path_factory.mktemp("weights")
    torch.save(state, folder / "b0.pth")
    renamed = dict(zip(LAYOUTS["efficientnet_pytorch"], LAYOUTS["torchvision"], strict=True))
    save_file({renamed.get(name, name): value for name, value in state.items()}, folder / "b0.safetensors")
    (folder / "notes.txt").write_text("not looked at")
    return folder


@pytest.mark.parametrize("name", ["b0.pth", "b0.safetensors"])
def test_weights_are_found_by_their_content_and_taken_by_name(name: str, folder: Path, state, monkeypatch) -> None:
    expected = [state[each] for each in LAYOUTS["efficientnet_pytorch"]]
    for place in (folder, folder / name):
        monkeypatch.setenv("BENCH_WEIGHTS", str(place))
        parallel = parallel_efficientnet_b0(IMAGE, 8, weights=sha256(folder / name))
        for extractor in (parallel.local_extractor, parallel.global_extractor):
            ours = [value for value in extractor.state_dict().values() if value.is_floating_point()]
            assert len(ours) == len(expected) == 309
            assert all(map(torch.equal, ours, expected))


def test_without_weights_no_file_is_looked_for_and_that_is_the_recorded_default(monkeypatch) -> None:
    monkeypatch.setenv("BENCH_WEIGHTS", "/nowhere")
    assert efficientnet_b0(IMAGE, 8, weights="none").base
    for name in ("efficientnet_b0", "parallel_efficientnet_b0"):
        assert registry.defaults("models", name)["weights"] == "none"


def test_the_path_of_the_weights_is_no_part_of_a_run(folder: Path, tmp_path: Path, monkeypatch) -> None:
    """Two machines keep the file in different places; the same study is the same run, and gives the same weights."""
    (tmp_path / "elsewhere.pth").write_bytes((folder / "b0.pth").read_bytes())
    options = {"weights": sha256(folder / "b0.pth")}
    built = []
    for place in (folder, tmp_path / "elsewhere.pth"):
        monkeypatch.setenv("BENCH_WEIGHTS", str(place))
        built.append(efficientnet_b0(IMAGE, 8, **options).base.state_dict())
    torch.testing.assert_close(*built, rtol=0, atol=0)
    specs = [
        RunSpec({"name": "d"}, {"name": "fedavg"}, {"name": "efficientnet_b0", "options": each}, {}, Budget(1, 1), 1)
        for each in (options, dict(options), {"weights": "none"})
    ]
    assert specs[0].hash == specs[1].hash != specs[2].hash


def test_weights_that_are_not_taken(folder: Path, state, tmp_path: Path, monkeypatch) -> None:
    def refused(content: object, message: str, name: str = "own.pth") -> None:
        file = tmp_path / name
        file.write_bytes(content) if isinstance(content, bytes) else torch.save(content, file)
        monkeypatch.setenv("BENCH_WEIGHTS", str(file))
        with pytest.raises(DataError, match=message) as caught:
            efficientnet_b0(IMAGE, 8, weights=sha256(file))
        assert "\n" not in str(caught.value)

    refused(nn.Linear(2, 2), "own.pth: not a file of named tensors")  # a pickled module, which may run anything
    refused([1, 2], "own.pth: not a file of named tensors")
    refused(b"", "own.pth: not a file of named tensors")
    refused(b"{", "own.safetensors: not a file of named tensors", "own.safetensors")
    without = {name: value for name, value in state.items() if name != "_blocks.3._bn1.bias"}
    refused(
        without, r"not weights of this model \(as in efficientnet_pytorch it lacks _blocks.3._bn1.bias, as in torchv"
    )
    refused(
        state | {"_conv_stem.weight": torch.zeros(32, 1, 3, 3)}, r"the shape \(32, 1, 3, 3\), expected \(32, 3, 3, 3\)"
    )

    unknown = f"sha256:{'0' * 64}"
    for place, message in (
        (str(folder), f"not in .* \\(b0.pth is {sha256(folder / 'b0.pth')}; b0.safetensors is sha256:"),
        (str(tmp_path / "gone"), "BENCH_WEIGHTS = .*gone': no such file or folder; correct"),
        ("", "BENCH_WEIGHTS is not set; set BENCH_WEIGHTS"),
    ):
        monkeypatch.setenv("BENCH_WEIGHTS", place)
        with pytest.raises(DataError, match=message):
            efficientnet_b0(IMAGE, 8, weights=unknown)
    for option in ("b0.pth", "sha256:12", unknown.upper(), None):
        with pytest.raises(SpecError, match="expected 'none', or 'sha256:' and the 64 hexadecimal digits"):
            efficientnet_b0(IMAGE, 8, weights=option)
