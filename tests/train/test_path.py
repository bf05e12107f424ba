"""The choice between stack and loop."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bench.train import engine
from bench.train import path as execution_path
from bench.types import Budget, SpecError
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
