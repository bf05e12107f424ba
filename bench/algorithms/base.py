"""Hooks of an algorithm, with FedAvg's as the defaults.

A hook is written for ONE client of ONE run (``aggregate``: for the server of one run). The engine maps it over clients,
seeds and settings. State is a tree: dictionaries of tensors. A hook returns new trees and never changes its arguments.
Decisions that depend on numbers use ``torch.where``, not ``if``.

A round is ``download``, ``start``, ``step`` for every local step, ``end``, ``aggregate``. Then every client downloads
and starts again, and its personal model is validated. With ``Budget.evaluate`` "trained", or in an algorithm with
``before_aggregation``, the model that ``end`` returned is validated instead.

The docstring of an algorithm gives its equations with their numbers in the paper. It ends with the sentences that
``silobench list algorithms`` prints (:mod:`bench.listing`): Paper, Variant, Communication cost.
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
    """Mini-batch: inputs, targets and sample weights (b,) that sum to 1 (0 for padding; 1/b without padding)."""

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
    """Local context of a client in a hook; tensors are scalars of this client in this round or local step."""

    model: Model
    exchange: Exchange
    criterion: Callable[[Tensor, Tensor], Tensor]  # (output, targets) -> loss of each sample (b,)
    optimizer: Optimizer
    optimizer_at: Callable[[Any], Optimizer]  # with another learning rate, for other numbers
    clients: int
    weights: Tensor  # (C,) each client's share n_j / n of all training samples
    index: Tensor  # number of this client, from 0
    samples: Tensor  # number of its training samples
    steps: Tensor  # number of its local steps in this round
    round: Tensor  # number of the round, from 0
    step: Tensor  # number of the local step in this round, from 0
    key: Tensor  # random key of this local step; between local steps, of this round
    validation: Batch | None = None  # only in `start`, if the algorithm validates; weights sum to 1

    def share(self, w: Tensor) -> Tensor:
        """Return the shared part (s,) of ``w`` (d,)."""
        return self.exchange.share(w)

    def install(self, w: Tensor, part: Tensor) -> Tensor:
        """Return ``w`` (d,) with its shared part replaced by ``part`` (s,)."""
        return self.exchange.install(w, part)

    def forward(self, w: Tensor, batch: Batch, stream: int = 0) -> Forward:
        """Run a training pass (dropout on); passes with different ``stream`` draw different dropout masks."""
        return self.model(w, batch.x, self.key ^ derive("pass", stream))

    def features(self, w: Tensor, batch: Batch) -> Tensor:
        """Return the features (b, k) of a frozen model, in evaluation mode."""
        return self.model(w, batch.x).features

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        """Return the task's loss of an output, averaged over the batch."""
        return (self.criterion(output, batch.y) * batch.weight).sum()

    def gradient(self, loss: Callable[[Tensor], tuple[Tensor, Tensor]], w: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient (d,) of a loss at ``w`` (d,), and ``w`` with updated running statistics.

        ``loss`` returns its value and ``w`` with updated running statistics. Untrained weights have gradient 0.
        """
        gradient, updated = grad(loss, has_aux=True)(w)
        return self.trained(gradient), self.with_statistics(w, updated)

    def trained(self, vector: Tensor) -> Tensor:
        """Return ``vector`` (d,) with zeros for all weights that are not trained."""
        trainable = self.model.trainable
        if trainable == self.model.size:
            return vector
        return torch.cat([vector[:trainable], torch.zeros_like(vector[trainable:])])

    def with_statistics(self, w: Tensor, source: Tensor) -> Tensor:
        """Return ``w`` (d,) with the running statistics of ``source`` (d,)."""
        trainable = self.model.trainable
        if trainable == self.model.size:
            return w
        return torch.cat([w[:trainable], source[trainable:].detach()])


@dataclass(frozen=True)
class Algorithm:
    """Base class with FedAvg's hooks. A subclass is a frozen dataclass; its searchable fields are hyper-parameters."""

    registered_name: ClassVar[str]
    personalised: ClassVar[bool] = False  # clients keep their own models: tables show local checkpoints only
    pooled: ClassVar[bool] = False  # one client trains on the samples of all
    cross_evaluate: ClassVar[bool] = False  # test every client's model on every client
    independent_init: ClassVar[bool] = False  # every client draws its own initial weights
    validates: ClassVar[bool] = False  # `start` reads the client's validation samples (Site.validation)
    before_aggregation: ClassVar[bool] = False  # evaluates models before aggregation, whatever Budget.evaluate is
    optimizers: ClassVar[tuple[str, ...]] = ("adamw", "sgd")  # optimisers that its equations allow
    excluded: ClassVar[tuple[str, ...]] = ()  # optional hyper-parameters of the optimiser that its equations rule out
    parallel: ClassVar[bool] = False  # needs a model with local_extractor, global_extractor and head

    @classmethod
    def hyperparameters(cls) -> dict[str, float]:
        """Return names and defaults of the hyper-parameters."""
        return {each.name: each.default for each in fields(cls) if each.metadata.get("searchable")}  # type: ignore[misc]

    def prepare(self, module: nn.Module) -> nn.Module:
        """Return the module to train, given the study's."""
        return module

    def check_model(self, model: Model) -> None:
        """Raise :class:`SpecError` for a model that the algorithm cannot train; called once, before training."""
        if self.parallel and not model.parallel:
            raise SpecError(
                f"{self.registered_name} needs a model with local_extractor, global_extractor and head; "
                f"give a registered name such as parallel_mlp, or a module with these three parts"
            )

    def parameters(self, model: Model) -> int:
        """Return the number of trained weights of a client's personal model."""
        return model.trainable

    def shared(self, name: str, model: Model) -> bool:
        """Return whether the weight ``name`` is exchanged with the server."""
        return True

    def init_client(self, w: Tensor, site: Site) -> Tree:
        """Return a client's state before the first round.

        ``w`` (d,) are the initial weights, the same for all clients unless ``independent_init``.
        """
        return {"w": w, "optimizer": site.optimizer.init(w)}

    def init_server(self, w: Tensor) -> Tree:
        """Return the server's state before the first round; ``w`` (C, s) are the clients' initial shared weights."""
        return {"w": w[0]}

    def download(self, server: Tree, client: Tensor) -> Tree:
        """Return what the server sends to client number ``client`` at the start of a round."""
        return {"w": server["w"]}

    def start(self, client: Tree, received: Tree, site: Site) -> Tree:
        """Return the client's state after the download; by default, its model is then validated."""
        return {**client, "w": site.install(client["w"], received["w"])}

    def loss(self, w: Tensor, batch: Batch, client: Tree, received: Tree, site: Site) -> tuple[Tensor, Tensor]:
        """Return the loss of a local step, and ``w`` with updated running statistics (see :meth:`Site.gradient`)."""
        forward = site.forward(w, batch)
        return site.loss(forward.output, batch), forward.w

    def step(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        """Take one local step; return the client's new state."""
        gradient, w = site.gradient(lambda w: self.loss(w, batch, client, received, site), client["w"])
        w, state = site.optimizer.step(w, gradient, client["optimizer"])
        return {**client, "w": w, "optimizer": state}

    def end(self, client: Tree, received: Tree, site: Site) -> tuple[Tree, Tree]:
        """Return the client's state after its last local step, and its upload."""
        return client, {"w": site.share(client["w"])}

    def aggregate(self, server: Tree, uploads: Tree, weights: Tensor) -> Tree:
        """Return the server's new state from stacked uploads (C, ...); ``weights`` (C,) are n_i / n."""
        return {**server, "w": mean(uploads["w"], weights)}

    def tuning(self, last: bool) -> int:
        """Return the epochs of local tuning before an evaluation, after the ``last`` round or after another one.

        Tuning starts from the aggregate, whatever ``Budget.evaluate`` is.
        """
        return 0

    def tune(self, client: Tree, received: Tree, batch: Batch, site: Site) -> Tree:
        """Take one step of local tuning; the result is evaluated and then discarded."""
        return self.step(client, received, batch, site)

    def floats(self, message: Tree, site: Site) -> Any:
        """Return the number of floats that an upload or download transfers.

        It is a number, or a scalar tensor where it depends on the numbers in ``message``.
        """
        return count(message)

    def watch(self, client: Tree, site: Site) -> dict[str, Tensor]:
        """Return the traced quantities of a client by name (small tensors), recorded after ``end`` in every round."""
        return {}

    def layer_analysis(self) -> str:
        """Return which analysis by layer of the last round's models to record (:mod:`bench.train.layer_statistics`).

        "none"; "gradients" (sensitivity, gradient variance, Hessian trace); "all" (also distances between clients).
        """
        return "none"

    def personal(self, client: Tree) -> Tree:
        """Return the part of a client's state that its personal model needs; a checkpoint keeps this part."""
        return {"w": client["w"]}

    def predict(self, personal: Tree, x: Tensor, site: Site) -> Tensor:
        """Return the personal model's output for inputs ``x`` (n, ...)."""
        return site.model(personal["w"], x).output


def mean(stacked: Tensor, weights: Tensor) -> Tensor:
    """Return the mean over the leading axis of ``stacked`` (C, ...) with weights (C,) that sum to 1."""
    return torch.tensordot(weights, stacked, dims=1)


def uniform_mean(stacked: Tensor) -> Tensor:
    """Return the unweighted mean over clients, (C, ...) -> (...)."""
    return stacked.mean(0)


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """Return ||a - b||^2."""
    return ((a - b) ** 2).sum()


def contrast(z: Tensor, positive: Tensor, negative: Tensor, temperature: float) -> Tensor:
    """Return the contrastive loss of every sample (b,), MOON's equation 3.

    It is -log of the positive's share in a softmax of cosines over ``temperature``: -log(e^p / (e^p + e^n)) =
    softplus(n - p) with p = cos(z, positive) / temperature, and n likewise. All features are (b, k).
    """
    difference = cosine_similarity(z, negative, dim=1) - cosine_similarity(z, positive, dim=1)
    return softplus(difference / temperature)


def count(tree: Tree | Mapping[str, Any]) -> int:
    """Return the number of floats in a tree: the communication cost of one message."""
    return sum(leaf.numel() for leaf in pytree.tree_leaves(tree))
