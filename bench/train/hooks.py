"""The hooks of an algorithm with the context that each client needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Optimizer, Site
from bench.rng import keys
from bench.train.batching import schedule
from bench.train.mapping.mapper import Grid, Hook, HookOf, Mapper
from bench.train.optim import schedules
from bench.train.optim.optimizers import OPTIMIZERS, Restarted
from bench.train.run_batch import RunBatch

Scalars = dict[str, Tensor]


class SiteHooks:
    """Apply hooks ``hook(algorithm, site, *trees)`` to all clients of a run batch.

    The algorithm's hyper-parameters are tensors of the run. The site holds a client's constants, the context of the
    round and the random key.
    """

    def __init__(self, run_batch: RunBatch, mapper: Mapper) -> None:
        self.run_batch, self.mapper = run_batch, mapper
        self.hyper = mapper.grid("H", lambda h: {k: torch.tensor(v) for k, v in run_batch.settings[h].items()})
        counts = run_batch.data.counts
        # The axis along which numbers of samples differ: none where they are the same for every seed.
        self.ragged: Literal["", "S"] = "" if bool((counts == counts[:, :1]).all()) else "S"
        self.constants = mapper.spread(f"{self.ragged}C", self._constants())
        training = counts[0].to(torch.float32)
        self.weights = training / training.sum(1, keepdim=True)  # (S, C)
        self.round = -1

    def _constants(self) -> Scalars:
        """Return each client's constants, (S, C), or (C,) where they are the same for every seed."""
        samples, clients = self.run_batch.data.counts[0], self.mapper.clients
        steps = schedule.cut(self.run_batch.budget, samples).steps
        found = {"index": torch.arange(samples.shape[1]).expand_as(samples)}
        found |= {"samples": samples.to(torch.float32), "steps": steps.to(torch.float32)}
        seeds = slice(self.mapper.sizes["S"]) if self.ragged else 0
        return {name: values[seeds][..., clients].contiguous() for name, values in found.items()}

    def begin_round(self, round_: int) -> None:
        """Set the context of a round: its number, the clients' weights, and a random key for each seed and client."""
        if round_ == self.round:
            return
        self.round = round_
        contexts = [{"round": torch.tensor(round_), "weights": weights} for weights in self.weights]
        self.round_context = self.mapper.grid("S", contexts.__getitem__) if self.ragged else contexts[0]
        sizes, clients = self.mapper.sizes, self.mapper.clients.tolist()
        pairs = [(seed, c) for seed in self.run_batch.seeds[: sizes["S"]] for c in clients]
        of_seed, of_client = zip(*pairs, strict=True)
        drawn = keys("round", of_seed, of_client, [round_] * len(pairs))
        self.keys = self.mapper.spread("SC", drawn.view(sizes["S"], sizes["C"]))

    @property
    def context_axes(self) -> tuple[str, ...]:
        """The axes of :attr:`context`."""
        return "H", f"{self.ragged}C", self.ragged, "SC"

    @property
    def context(self) -> tuple[Grid, ...]:
        """The grids that every hook between local steps needs; :meth:`at_client` turns them into a site."""
        return self.hyper, self.constants, self.round_context, self.keys

    def map(self, name: str, hook: Callable[..., Any], axes: Sequence[str], *grids: Grid) -> Grid:
        """Apply ``hook(algorithm, site, *trees)`` to all clients, between local steps."""
        return self.mapper.map(name, self.at_client(hook), [*self.context_axes, *axes], *self.context, *grids)

    def at_client(self, hook: Callable[..., Any]) -> HookOf:
        """Return, for a client, the hook as a function of :attr:`context` and the trees."""

        def of_client(c: int) -> Hook:
            def call(hyper: Scalars, constants: Scalars, round_context: Scalars, key: Tensor, *trees: Any) -> Any:
                step_context = {**round_context, "step": torch.zeros_like(round_context["round"]), "key": key}
                return hook(self.algorithm(hyper), self.site(hyper, constants, step_context, c), *trees)

            return call

        return of_client

    def predict(self, c: int) -> Hook:
        """Return client ``c``'s prediction as a function of :attr:`context`, the personal model and inputs."""
        return self.at_client(lambda algorithm, site, personal, x: algorithm.predict(personal, x, site))(c)

    def algorithm(self, hyper: Scalars) -> Algorithm:
        """Return the algorithm with a run's hyper-parameters."""
        names = self.run_batch.algorithm.hyperparameters()
        return dataclasses.replace(self.run_batch.algorithm, **{k: v for k, v in hyper.items() if k in names})

    def site(self, hyper: Scalars, constants: Scalars, step_context: Scalars, c: int) -> Site:
        """Return what hooks may use at client ``c``; the optimiser has the run's learning rate in this round."""
        names = self.run_batch.algorithm.hyperparameters()
        model = self.run_batch.models[c]
        trained = torch.arange(model.size) < model.trainable
        own = {k: v for k, v in hyper.items() if k not in names}
        lr, budget = own.pop("lr"), self.run_batch.budget
        options = {name: own.pop(name) for name in schedules.OPTIONS if name in own}
        restarts = budget.optimizer_state == "reset"

        def optimizer_at(lr: Any, decays: Tensor | None = None) -> Optimizer:
            lr = schedules.scheduled(lr, budget.schedule, options, step_context["round"], budget.rounds)
            kept = OPTIMIZERS[budget.optimizer](lr, **own, decays=decays)
            return Restarted(kept, step_context["step"] == 0) if restarts else kept

        decays = None if model.trainable == model.size else trained.to(torch.float32)
        exchange, criterion = self.run_batch.exchanges[c], self.run_batch.criterion
        return Site(
            model, exchange, criterion, optimizer_at(lr, decays), optimizer_at, self.run_batch.sizes["C"],
            **(constants | step_context),  # type: ignore[arg-type]
        )  # fmt: skip


def at_server(hook: Callable[..., Any]) -> HookOf:
    """Return a hook that is the same for every client, or that runs at the server."""
    return lambda c: hook
