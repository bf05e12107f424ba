"""What an algorithm is: a few hooks, each with FedAvg's answer as the default.

Every hook is written for ONE client of ONE run (``aggregate`` for the server of one run); the engine maps it over
clients, seeds and settings. State is a plain tree: dictionaries of tensors. A hook returns new trees and never
changes what it was given. Decisions that depend on numbers are written with ``torch.where``, not ``if``.

A round, in order: ``download`` - ``start`` - ``step`` for every local step - ``end`` - ``aggregate``. Then every
client downloads and starts again, and its personal model is validated: evaluation follows aggregation, unless
``Budget.evaluate`` or the algorithm itself (``before_aggregation``) has the model validated that ``end`` has left.

The docstring of an algorithm gives its equations with their numbers in the paper and ends with the sentences that
``silobench list algorithms`` prints (:mod:`bench.listing`): Paper, Variant, Defaults, Travels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.func import grad
from torch.nn.functional import cosine_similarity, softplus
from torch.utils import _pytree as pytree

from bench.models.exchange import Exchange
from bench.models.functional import Forward, Model
from bench.registry import Allowed
from bench.rng import derive
from bench.types import SpecError

Tree = dict[str, Any]


def searchable(
    default: float,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    log: tuple[float, float] | None = None,
) -> Any:
    """Return the field of a hyper-parameter: its default, its bounds, and the interval to search on a log scale.

    The bounds are those of :class:`bench.registry.Allowed`: greater than, at least, less than, at most.
    """
    allowed = Allowed(gt, ge, lt, le, types=("number",))
    return field(default=default, metadata={"searchable": True, "allowed": allowed, "log": log})


class Batch(NamedTuple):
    """A mini-batch: inputs, targets and sample weights (b,) that sum to 1 (0 for padding, 1/b without)."""

    x: Tensor
    y: Tensor
    weight: Tensor


class Optimizer(Protocol):
    """A client's optimiser as functions of the weight vector; ``lr`` is a number or a tensor of the run."""

    @property
    def lr(self) -> Any: ...

    def init(self, w: Tensor) -> Tree: ...

    def step(self, w: Tensor, gradient: Tensor, state: Tree) -> tuple[Tensor, Tree]: ...


@dataclass(frozen=True)
class Site:
    """What a hook may use at its client; tensors are scalars of this client and this moment."""

    model: Model
    exchange: Exchange
    criterion: Callable[[Tensor, Tensor], Tensor]  # (output, targets) -> loss of each sample (b,)
    optimizer: Optimizer
    optimizer_at: Callable[[Any], Optimizer]  # the same with another learning rate, decayed alike, for other numbers
    clients: int
    weights: Tensor  # (C,) each client's share n_j / n of all training samples
    index: Tensor  # number of this client
    samples: Tensor  # number of its training samples
    steps: Tensor  # local steps it takes in this round
    round: Tensor  # from 0
    step: Tensor  # from 0 in every round
    key: Tensor  # randomness of this local step, or between local steps of this round
    validation: Batch | None = None  # in `start` of an algorithm that validates: weights sum to 1

    def share(self, w: Tensor) -> Tensor:
        """The part of ``w`` that travels."""
        return self.exchange.share(w)

    def install(self, w: Tensor, part: Tensor) -> Tensor:
        """``w`` with the part that travels replaced."""
        return self.exchange.install(w, part)

    def forward(self, w: Tensor, batch: Batch, stream: int = 0) -> Forward:
        """A training pass (dropout on). Passes that must not share dropout masks use different streams."""
        return self.model(w, batch.x, self.key ^ derive("pass", stream))

    def features(self, w: Tensor, batch: Batch) -> Tensor:
        """The features (b, k) of a frozen model, in evaluation mode."""
        return self.model(w, batch.x).features

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """The task's loss of an output, averaged over the batch."""
        return (self.criterion(output, batch.y) * batch.weight).sum()

    def gradient(self, loss: Callable[[Tensor], tuple[Tensor, Tensor]], w: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient (d,) at ``w`` of a loss that returns (value, w moved on), and that moved ``w``.

        What is not trained has gradient 0; ``w`` moves on only in batch-norm's running statistics.
        """
        gradient, moved = grad(loss, has_aux=True)(w)
        return self.trained(gradient), self.moved(w, moved)

    def trained(self, vector: Tensor) -> Tensor:
        """``vector`` (d,) with zeros wherever a weight is not trained."""
        trainable = self.model.trainable
        if trainable == self.model.size:
            return vector
        return torch.cat([vector[:trainable], torch.zeros_like(vector[trainable:])])

    def moved(self, w: Tensor, moved: Tensor) -> Tensor:
        """``w`` with the running statistics of ``moved``."""
        trainable = self.model.trainable
        if trainable == self.model.size:
            return w
        return torch.cat([w[:trainable], moved[trainable:].detach()])


@dataclass(frozen=True)
class Algorithm:
    """FedAvg's answers to every hook. A subclass is a frozen dataclass; its searchable fields are hyper-parameters."""

    registered_name: ClassVar[str]
    personalised: ClassVar[bool] = False  # clients keep models of their own: tables show local checkpoints only
    pooled: ClassVar[bool] = False  # train one client on everybody's samples
    cross_evaluate: ClassVar[bool] = False  # test every client's model on every client
    independent_init: ClassVar[bool] = False  # every client draws its own initial weights
    validates: ClassVar[bool] = False  # clients look at their validation samples (Site.validation) in `start`
    before_aggregation: ClassVar[bool] = False  # evaluated as its local steps left it, whatever Budget.evaluate says
    optimizers: ClassVar[tuple[str, ...]] = ("adamw", "sgd")  # the optimisers its equations allow
    excluded: ClassVar[tuple[str, ...]] = ()  # the optimiser's optional numbers that its equations rule out
    parallel: ClassVar[bool] = False  # needs a model with local_extractor, global_extractor and head

    @classmethod
    def hyperparameters(cls) -> dict[str, float]:
        """Names and defaults of the per-run hyper-parameters."""
        return {each.name: each.default for each in fields(cls) if each.metadata.get("searchable")}  # type: ignore[misc]

    def prepare(self, module: nn.Module) -> nn.Module:
        """The module to train, given the study's."""
        return module

    def check_model(self, model: Model) -> None:
        """Raise :class:`SpecError` for a model that the algorithm cannot train; called once, before training."""
        if self.parallel and not model.parallel:
            raise SpecError(
                f"{self.registered_name} needs a model with local_extractor, global_extractor and head; "
                f"give a registered name such as parallel_mlp, or a module with these three parts"
            )

    def parameters(self, model: Model) -> int:
        """How many trained weights a client's personal model has."""
        return model.trainable

    def shared(self, name: str, model: Model) -> bool:
        """Whether the weight ``name`` travels."""
        return True

    def init_client(self, w: Tensor, site: Site) -> Tree:
        """A client's state before the first round; ``w`` (d,) are the initial weights, the same for all clients."""
        return {"w": w, "optimizer": site.optimizer.init(w)}

    def init_server(self, w: Tensor) -> Tree:
        """The server's state before the first round; ``w`` (C, s) are the shared parts of the initial weights."""
        return {"w": w[0]}

    def download(self, server: Tree, client: Tensor) -> Tree:
        """What the server sends to client number ``client`` at the start of a round."""
        return {"w": server["w"]}

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        """The client's state once it has taken in what it received; also what is validated."""
        return {**client, "w": site.install(client["w"], received["w"])}

    def loss(self, w: Tensor, batch: Batch, client: Tree, received: Tree, site: Site) -> tuple[Tensor, Tensor]:
        """What a local step minimises, with ``w`` moved on (see :meth:`Site.gradient`)."""
        forward = site.forward(w, batch)
        return site.loss(forward.output, batch), forward.w

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        """One local step."""
        gradient, w = site.gradient(lambda w: self.loss(w, batch, client, received, site), client["w"])
        w, state = site.optimizer.step(w, gradient, client["optimizer"])
        return {**client, "w": w, "optimizer": state}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        """The client's state after its last local step, and what it uploads."""
        return client, {"w": site.share(client["w"])}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        """The server's new state from the clients' uploads, stacked (C, ...); ``weights`` (C,) are n_i / n."""
        return {**server, "w": mean(uploads["w"], weights)}

    def tuning(self, last: bool) -> int:
        """Epochs of local tuning that a client's model gets before it is evaluated, after every or the last round.

        They begin from the aggregate, whatever ``Budget.evaluate`` says.
        """
        return 0

    def tune(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        """One step of local tuning; what it changes is evaluated and then forgotten."""
        return self.step(client, received, batch, site)

    def floats(self, message: Tree, site: Site) -> Any:
        """How many floats of an upload or download travel: a number, or a scalar tensor where numbers decide it."""
        return count(message)

    def watch(self, client: Tree, site: Site) -> dict[str, Tensor]:
        """Small quantities of a client that are worth a figure, by name, as :meth:`end` leaves them in every round."""
        return {}

    def layer_analysis(self) -> str:
        """Return which analysis by layer of the last round's models to record (:mod:`bench.train.layer_statistics`).

        "none"; "gradients" (sensitivity, gradient variance, Hessian trace); "all" (also distances between clients).
        """
        return "none"

    def personal(self, client: Tree) -> Tree:
        """The part of a client's state that its personal model needs; this is what a checkpoint keeps."""
        return {"w": client["w"]}

    def predict(self, personal: Tree, x: Tensor, site: Site) -> Tensor:
        """The personal model's output for inputs ``x`` (n, ...)."""
        return site.model(personal["w"], x).output


def mean(stacked: Tensor, weights: Tensor) -> Tensor:
    """The mean over the leading axis of ``stacked`` (C, ...) with weights (C,) that sum to 1."""
    return torch.tensordot(weights, stacked, dims=1)


def uniform_mean(stacked: Tensor) -> Tensor:
    """The plain mean over clients, (C, ...) -> (...)."""
    return stacked.mean(0)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||^2."""
    return ((a - b) ** 2).sum()


def contrast(z: Tensor, positive: Tensor, negative: Tensor, temperature: float) -> Tensor:
    """-log of the positive's share in a softmax of cosines over ``temperature``, for every sample (b,).

    -log(e^p / (e^p + e^n)) = softplus(n - p) with p = cos(z, positive) / temperature, n likewise (MOON, eq. 3).
    """
    difference = cosine_similarity(z, negative, dim=1) - cosine_similarity(z, positive, dim=1)
    return softplus(difference / temperature)


def count(tree: Tree | Mapping[str, Any]) -> int:
    """How many floats a tree holds: the communication of one message."""
    return sum(leaf.numel() for leaf in pytree.tree_leaves(tree))
