"""Modules of users that cannot be trained are refused before training; attention without dropout is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, spectral_norm

from bench.models.functional import Model
from bench.models.tabular import parallel_mlp
from bench.train import engine
from bench.train.path import ExecutionPath
from bench.types import Budget, SpecError
from tests.train.toy import federation


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(13, 13), nn.Linear(13, 13), nn.Linear(13, 1)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x)))


class Several(nn.Module):
    """Output with a second tensor beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(13, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(x), x


class Counting(nn.Module):
    """A buffer that training changes: in place, or by an assignment."""

    seen: Tensor

    def __init__(self, kind: torch.dtype, *, assigns: bool) -> None:
        super().__init__()
        self.head, self.assigns = nn.Linear(13, 1), assigns
        self.register_buffer("seen", torch.zeros((), dtype=kind))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.assigns:
            self.seen = self.seen + len(x)
        elif self.training:
            self.seen += len(x)
        return self.head(x)


class Attention(nn.Module):
    """Self-attention over the 13 features of a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x[..., None])
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))


def run(module: nn.Module, algorithm: str = "fedavg", path: ExecutionPath = "loop") -> engine.TrainedRuns:
    return engine.run(
        federation(), algorithm=algorithm, model=module, settings=[{"lr": 0.1}], seeds=[1],
        budget=Budget(rounds=2, local_steps=2, batch_size=4), path=path,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Tied(), r"model Tied: first.weight and second.weight are one parameter \(tied weights\); give each layer"),
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(1)), "model Sequential: 1.weight has no shape yet"),
        (nn.Sequential(nn.SyncBatchNorm(13), nn.Linear(13, 1)), "model Sequential: SyncBatchNorm needs several proc"),
        (Several(), r"the model returns a tuple, expected one tensor \(n, outputs\); return the output alone"),
        (Counting(torch.float32, assigns=False), r"changes its own buffers in training \(seen\), which would be lost"),
        (Counting(torch.float32, assigns=True), r"changes its own buffers in training \(seen\)"),
        (Counting(torch.int64, assigns=False), r"changes its own buffers in training \(seen\)"),
        (Counting(torch.int64, assigns=True), r"changes its own buffers in training \(seen\)"),
        (nn.Sequential(parametrizations.spectral_norm(nn.Linear(13, 5)), nn.Linear(5, 1)),
         r"changes its own buffers in training \(0.parametrizations.weight.0._u, 0.parametrizations.weight.0._v\)"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_trained_is_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        run(module)


@pytest.mark.filterwarnings("ignore:.*spectral_norm:FutureWarning", "ignore:.*spectral_norm:DeprecationWarning")
def test_a_module_that_cannot_be_copied_is_refused() -> None:
    module = nn.Sequential(spectral_norm(nn.Linear(13, 5)), nn.Linear(5, 1))
    module(torch.randn(2, 13))  # makes a tensor that is neither parameter nor buffer
    with pytest.raises(SpecError, match=r"model Sequential cannot be copied \(.*\); use torch.nn.utils.parametriz"):
        run(module)


def test_the_check_leaves_buffers_as_they_were() -> None:
    module = Counting(torch.int64, assigns=False)
    model = Model(module)
    with pytest.raises(SpecError):
        model.check_buffers(torch.randn(2, 13))
    assert model.module.get_buffer("seen") == module.seen == 0


@pytest.mark.filterwarnings("ignore:.*batching rule:UserWarning")  # a stack maps the operation client by client
def test_attention_without_dropout_is_trained() -> None:
    module = Attention()
    (loop,), (stack,) = (run(module, path=path).outcomes for path in ("loop", "stack"))
    assert loop.validation[1] != loop.validation[0]
    torch.testing.assert_close(torch.tensor(loop.validation), torch.tensor(stack.validation))


def test_attention_with_functional_dropout_draws_random_numbers() -> None:
    module = Attention()
    module.attention.dropout = 0.1
    with pytest.raises(SpecError, match="draws random numbers that no seed"):
        run(module)


def test_perfcl_compares_features_of_one_width() -> None:
    unequal = parallel_mlp((13,), 1, hidden=5, global_hidden=4)
    message = "perfcl compares local and global features, which are 5 and 4 wide in this model; give both"
    with pytest.raises(SpecError, match=message):
        run(unequal, "perfcl")
    assert run(unequal, "fenda").outcomes[0].status == "finished"
    assert run(parallel_mlp((13,), 1, hidden=[3, 4], global_hidden=4), "perfcl").outcomes[0].status == "finished"


def test_an_algorithm_for_parallel_models_names_families_that_have_them() -> None:
    with pytest.raises(SpecError) as error:
        engine.run(
            federation(), algorithm="fenda", model="player_heart", settings=[{}], seeds=[1],
            budget=Budget(rounds=1, local_steps=1),
        )  # fmt: skip
    what = "fenda needs a model with two extractors, and the family 'player_heart' has none; families that have: "
    assert str(error.value) == f"{what}cnn, efficientnet_b0, mlp, unet3d"
