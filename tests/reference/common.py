"""Shared parts of all reference runs: the sites' mini-batches, the trace of a run, optimisers, averaging, validation.

Arguments of every ``run``: ``model`` is the initial model of everybody and is copied, never changed; ``loss`` maps
(output, y) to the mean over a mini-batch; ``hyper`` holds ``lr`` and the algorithm's own numbers. A state is a state
dict without batch-norm's integer batch counter.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
State = dict[str, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]
OptimizerName = Literal["adamw", "sgd"]


@dataclass(frozen=True)
class Site:
    """One client's data as it will be seen: ``batches[t]`` are round t's local steps, ``val`` is in fixed order.

    ``tuning[t]`` are the steps of local tuning after round t, ``keys[t]`` is the key of what the client draws in it.
    """

    batches: list[list[Batch]]
    samples: int
    val: list[Batch]
    val_samples: int
    tuning: list[list[Batch]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)


@dataclass
class Trace:
    """Results of a run by round, always after the clients loaded the aggregate.

    ``trained`` is the same of the models just before they loaded it, where it is not the same.
    ``validation`` [round][client]: mean over the mini-batches of their mean loss, a short last one counting fully.
    ``aggregated`` [round]: mean over clients weighted by their number of validation samples.
    ``personal`` [round][client] and ``server`` [round]: states; ``final``: an algorithm's own state at the end;
    ``watched``: what it watches, {name: [round][client]}.
    """

    validation: list[list[float]] = field(default_factory=list)
    aggregated: list[float] = field(default_factory=list)
    personal: list[list[dict[str, Any]]] = field(default_factory=list)
    server: list[State | None] = field(default_factory=list)
    final: dict[str, Any] = field(default_factory=dict)
    watched: dict[str, list[list[Any]]] = field(default_factory=dict)
    trained: Trace | None = None

    def record_trained(
        self, sites: Sequence[Site], models: Sequence[nn.Module], loss: Loss, personal: list[Any] | None = None
    ) -> None:
        """Validate and note the models at the end of their local steps, before the aggregate is loaded."""
        self.trained = self.trained or Trace()
        self.trained.record(sites, models, loss, None, personal)

    def record(
        self,
        sites: Sequence[Site],
        models: Sequence[nn.Module],
        loss: Loss,
        server: State | None,
        personal: list[Any] | None = None,
    ) -> None:
        """Validate every client's personal model and note all states at the end of a round.

        ``personal`` are the clients' states where a personal model is more than one net.
        """
        losses = [validate(model, site.val, loss) for model, site in zip(models, sites, strict=True)]
        counts = [site.val_samples for site in sites]
        self.validation.append(losses)
        self.aggregated.append(sum(n * value for n, value in zip(counts, losses, strict=True)) / sum(counts))
        self.personal.append(personal or [floats(model) for model in models])
        self.server.append(server)


def copies(model: nn.Module, sites: Sequence[Site]) -> list[nn.Module]:
    """One copy of the initial model for each client."""
    return [copy.deepcopy(model) for _ in sites]


def make_optimizer(name: OptimizerName, model: nn.Module, hyper: dict[str, float]) -> torch.optim.Optimizer:
    """The client's optimiser; built once, so its moments outlive the rounds although weights are overwritten."""
    if name == "adamw":
        decay = hyper.get("weight_decay", 0.01)
        return torch.optim.AdamW(model.parameters(), hyper["lr"], (0.9, 0.999), 1e-8, weight_decay=decay)
    momentum, decay = hyper.get("momentum", 0.0), hyper.get("weight_decay", 0.0)
    return torch.optim.SGD(model.parameters(), hyper["lr"], momentum, weight_decay=decay)


def step(optimizer: torch.optim.Optimizer, value: Tensor) -> None:
    """One local step down the gradient of ``value``."""
    optimizer.zero_grad()
    value.backward()
    optimizer.step()


def floats(model: nn.Module, prefix: str = "") -> State:
    """A copy of the model's weights and running statistics whose names start with ``prefix``."""
    state = model.state_dict().items()
    return {name: t.clone() for name, t in state if t.is_floating_point() and name.startswith(prefix)}


def load(model: nn.Module, state: State) -> None:
    """Overwrite the part of the model's weights that ``state`` names."""
    model.load_state_dict(model.state_dict() | state)


def weighted_mean(states: Sequence[State], weights: Sequence[float]) -> State:
    """FedAvg's aggregate: the sum of w_i / sum(w) times state i."""
    shares = [weight / sum(weights) for weight in weights]
    return {
        name: sum((share * state[name] for share, state in zip(shares, states, strict=True)), torch.tensor(0.0))
        for name in states[0]
    }


def validate(model: nn.Module, batches: Sequence[Batch], loss: Loss) -> float:
    """The unweighted mean over mini-batches of the loss in evaluation mode."""
    model.eval()
    with torch.no_grad():
        return sum(float(loss(model(x), y)) for x, y in batches) / len(batches)
