"""The choice between stack and loop."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.train import engine
from bench.train import path as execution_path
from bench.types import Budget, Client, Federation, SpecError, Split
from tests.train.toy import federation

BUDGET = Budget(rounds=1, local_steps=1, batch_size=4)


class Recurrent(nn.Module):
    """A recurrent network over the features of a sample."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(1, 4, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(x.unsqueeze(-1))
        return self.head(states[:, -1])


def paths(model: nn.Module, **changes: Any) -> set[str]:
    asked = {"settings": [{"lr": 0.1}], "seeds": [0, 1], "budget": BUDGET} | changes
    return {outcome.path for outcome in engine.train(federation(), algorithm="fedavg", model=model, **asked)}


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_are_looped(kind: str) -> None:
    assert paths(Recurrent(kind)) == {"loop"}


def test_a_stack_of_recurrent_layers_is_refused_before_training() -> None:
    told: list[object] = []
    with pytest.raises(
        SpecError, match=r"path = 'stack': fedavg with Recurrent cannot be stacked: .*gru.*path = 'loop'"
    ):
        paths(Recurrent("GRU"), path="stack", tell=lambda *progress: told.append(progress))
    assert told == []


class Branching(nn.Module):
    """A model that looks at its numbers, which ``vmap`` cannot do."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(13, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * (2 if x[0, 0].item() > 0 else 1)


def test_the_reason_for_the_loop_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_path, "_reported", set())
    with caplog.at_level(logging.WARNING):
        assert paths(Branching()) == paths(Branching()) == {"loop"}
    [message] = caplog.messages
    assert message.startswith("fedavg with Branching cannot be stacked: ")
    assert message.endswith("runs are computed one after another, which is slower")
    assert "\n" not in message


def test_nothing_is_logged_where_the_loop_is_faster(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert paths(nn.Sequential(nn.Linear(13, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))) == {"loop"}
    assert caplog.messages == []


def test_an_unknown_path_is_refused() -> None:
    with pytest.raises(SpecError, match=r"path = 'stacked': did you mean 'stack'\?"):
        paths(nn.Linear(13, 1), path="stacked")


def test_the_initial_weights_are_not_changed_by_the_decision() -> None:
    model = nn.Linear(13, 1)
    before = model.weight.detach().clone()
    paths(model)
    torch.testing.assert_close(model.weight.detach(), before, rtol=0, atol=0)


class Attentive(nn.Module):
    """A model with attention, which ``vmap`` maps one by one with a warning."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 2, batch_first=True)
        self.head = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(-1).expand(-1, -1, 2)
        return self.head(self.attention(x, x, x)[0].mean(1))


def test_attention_is_stacked_without_warnings_of_torch(recwarn: pytest.WarningsRecorder) -> None:
    assert paths(Attentive()) == {"stack"}
    assert [str(each.message) for each in recwarn] == []


TRANSFORMER = {"norm": "affine", "gate": False, "input_norm": False}
PERFCL = {"dropout": 0.3, "global_hidden": None, "head_hidden": [], "hidden": 5}


# The paths of the published records, by the form of their data.
@pytest.mark.parametrize(("shape", "classes", "samples", "algorithm", "model", "options", "budget", "path"), [
    ((1, 28, 28), 10, 320, "fedavg", "apple_cnn", {}, {"batch_size": 256}, "loop"),
    ((1, 28, 28), 10, 320, "fedfomo", "apple_cnn", {}, {"batch_size": 256}, "loop"),
    ((1, 28, 28), 10, 160, "fedavg", "player_fmnist", {}, {"batch_size": 128}, "loop"),
    ((11,), 7, 5970, "global_layers", "gl_transformer",
     {"norm": "affine", "d_global": 11, "gate": True, "input_norm": True},
     {"batches": 10, "optimizer": "adamw"}, "loop"),
    ((31,), 2, 230, "global_layers", "gl_transformer", TRANSFORMER | {"d_global": 8},
     {"batches": 5, "optimizer": "adamw"}, "loop"),
    ((31,), 2, 230, "local", "gl_transformer", TRANSFORMER | {"d_global": 8},
     {"batches": 5, "optimizer": "adamw"}, "loop"),
    ((13,), 2, 85, "fedavg", "logistic", {}, {"batch_size": 4, "optimizer": "adamw"}, "stack"),
    ((13,), 2, 85, "scaffold", "logistic", {}, {"batch_size": 4}, "stack"),
    ((13,), 2, 85, "apfl", "mlp", {"dropout": 0.3, "hidden": 5}, {"batch_size": 4, "optimizer": "adamw"}, "stack"),
    ((13,), 2, 85, "perfcl", "parallel_mlp", PERFCL, {"batch_size": 4, "optimizer": "adamw"}, "stack"),
    ((10,), 5, 85, "player_fl", "player_heart", {}, {"batch_size": 32}, "stack"),
    ((10,), 5, 85, "pfedla", "player_heart", {}, {"batch_size": 32}, "stack"),
])  # fmt: skip
def test_models_of_published_studies_keep_their_paths(
    shape: tuple[int, ...], classes: int, samples: int, algorithm: str, model: str, options: dict[str, Any],
    budget: dict[str, Any], path: str,
) -> None:  # fmt: skip
    def split() -> Split:
        y = torch.arange(samples) % classes
        return Split(torch.rand(samples, *shape), y if classes > 2 else y[:, None].float())

    clients = tuple(Client(str(c), split()) for c in range(4))
    task = "multiclass" if classes > 2 else "binary"
    run_batch = engine.prepare(
        Federation("toy", clients, task, classes=classes), algorithm=algorithm, model=model, model_options=options,
        settings=[{}], seeds=[0, 1], budget=Budget(rounds=1, local_steps=1, **budget),
    )  # fmt: skip
    assert execution_path.select_path(run_batch, "auto") == path
