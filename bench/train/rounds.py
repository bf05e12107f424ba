"""The federated rounds of a run batch.

A round, as in FENDA-FL (section 3.3): the clients receive the server's weights, train locally and upload; the server
aggregates; the clients receive the aggregate; then every client's personal model is validated. With
``Budget.evaluate`` "trained" the models are validated before aggregation instead, as in PLayer-FL.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Batch, Site, Tree
from bench.train.hooks import Scalars, SiteHooks, at_server
from bench.train.mapping.mapper import Grid, Index, Mapper
from bench.train.run_batch import RunBatch
from bench.train.state import RunState, Trained
from bench.train.validation import Validation
from bench.types import CHECKPOINTS


class Rounds:
    """Train and validate a run batch, one round at a time."""

    def __init__(self, run_batch: RunBatch, mapper: Mapper) -> None:
        self.run_batch, self.mapper = run_batch, mapper
        self.hooks = SiteHooks(run_batch, mapper)
        self.validation = Validation(self.hooks)

    def begin(self) -> RunState:
        """Return the state before the first round."""
        clients, server, received = self._begin()
        shape = tuple(self.run_batch.sizes[axis] for axis in "HSC")
        best = {rule: torch.full(shape, torch.inf) for rule in ("global", "local")}
        communication = {way: torch.zeros(shape[:2], dtype=torch.float64) for way in ("up", "down")}
        waited = torch.zeros(shape[:2], dtype=torch.int64)
        return RunState(clients, received, Trained(server, best, communication, waited))

    def resumed(self, tree: Tree, metadata: Mapping[str, Any]) -> RunState:
        """Return the state that :meth:`RunState.parts` has taken apart."""
        kept = {rule: tree["checkpoints"][rule] for rule in CHECKPOINTS if rule in tree["checkpoints"]}
        traces = {name: list(values) for name, values in tree["traces"].items()}
        diverged = {(h, s): first for h, s, first in metadata["diverged"]}
        trained = Trained(
            tree["server"], tree["best"], tree["communication"], tree["waited"], kept, list(tree["losses"]),
            list(tree["curves"]), traces, diverged,
        )  # fmt: skip
        self.hooks.begin_round(metadata["rounds"] - 1)
        return RunState(tree["clients"], self._download(trained.server), trained, metadata["rounds"])

    def train(self, state: RunState) -> None:
        """Train the next round of all runs: local steps, aggregation, and the download of the aggregate."""
        self.hooks.begin_round(state.rounds)
        state.clients = self._start(state.clients, state.received)
        state.clients = self._local_steps(state.clients, state.received, state.rounds)
        state.clients, uploads = self._end(state.clients, state.received)
        trained = state.trained
        traced = self._traced(state.clients)
        traces = {name: [*trained.traces.get(name, []), values] for name, values in traced.items()}
        messages = {"up": uploads, "down": state.received}
        communication = {way: total + self._floats(way, messages[way]) for way, total in trained.communication.items()}
        server = self._aggregate(trained.server, uploads)
        state.trained = dataclasses.replace(trained, server=server, communication=communication, traces=traces)
        state.received = self._download(server)
        state.rounds += 1

    def evaluated(self, state: RunState) -> Trained:
        """Validate the personal models after the last trained round; return what is recorded and kept of them."""
        trained, round_ = state.trained, state.rounds - 1
        algorithm, last = self.run_batch.algorithm, state.rounds == self.run_batch.budget.rounds
        self.hooks.begin_round(round_)
        personal = self._personal(self._evaluated(state.clients, state.received, algorithm.tuning(last)))
        loss, untuned = self.validation.losses(personal), None
        if last and algorithm.tuning(last) != (epochs := algorithm.tuning(last=False)):
            others = self._personal(self._evaluated(state.clients, state.received, epochs))
            untuned = self.validation.losses(others)
        best, checkpoints = self.validation.checkpoints(trained, personal, loss)
        lower = (best["global"] < trained.best["global"])[..., 0]
        return dataclasses.replace(
            trained,
            best=best,
            waited=torch.where(lower, 0, trained.waited + 1),
            checkpoints=checkpoints,
            losses=[*trained.losses, self.validation.recorded(loss)],
            diverged={**self.validation.diverged(round_, personal, loss), **trained.diverged},
            untuned=untuned,
        )

    def trial(self) -> None:
        """Run the local steps of the first round only."""
        clients, _, received = self._begin()
        self._local_steps(self._start(clients, received), received, 0)

    def trial_evaluation(self) -> None:
        """Compute the outputs of the initial personal models for one sample of each client."""
        clients, _, received = self._begin()
        samples = self.run_batch.data.samples[0, self.mapper.first]
        inputs = {index: samples[torch.tensor([0])][0] for index in self.mapper.indices("SC")}
        self.outputs(self._personal(self._start(clients, received)), inputs)

    def outputs(self, personal: Grid, inputs: Mapping[Index, Tensor]) -> dict[Index, Tensor]:
        """Return outputs (H, n, k) of personal models for ``inputs`` (n, ...), both by (seed, client)."""
        axes, grids = [*self.hooks.context_axes, "HSC"], (*self.hooks.context, personal)
        return self.mapper.outputs(self.hooks.predict, axes, grids, self.run_batch, inputs, self.validation.batch_size)

    # The steps of a round ---------------------------------------------------------------------------------------

    def _begin(self) -> tuple[Grid, Grid, Grid]:
        """Return clients, server and first download, from the initial weights."""
        run_batch, mapper = self.run_batch, self.mapper
        self.hooks.begin_round(0)
        initial = mapper.grid("SC", lambda s, c: run_batch.initial(run_batch.seeds[s], mapper.first + c))
        clients = self.hooks.map("init_client", lambda a, site, w: a.init_client(w, site), ["SC"], initial)
        shared = mapper.grid("S", self._shared_parts)
        init_server = at_server(lambda hyper, w: self.hooks.algorithm(hyper).init_server(w))
        server = mapper.map("init_server", init_server, ["H", "S"], self.hooks.hyper, shared, over="HS")
        return clients, server, self._download(server)

    def _shared_parts(self, s: int) -> Tensor:
        """Return the shared parts (C, s) of all clients' initial weights."""
        weights = [self.run_batch.initial(self.run_batch.seeds[s], c) for c in range(self.run_batch.sizes["C"])]
        if all(w is weights[0] for w in weights):
            return self.run_batch.exchanges[0].share(weights[0]).expand(len(weights), -1)
        return torch.stack([each.share(w) for each, w in zip(self.run_batch.exchanges, weights, strict=True)])

    def _download(self, server: Grid) -> Grid:
        return self.hooks.map("download", lambda a, site, server: a.download(server, site.index), ["HS"], server)

    def _start(self, clients: Grid, received: Grid) -> Grid:
        def hook(algorithm: Algorithm, site: Site, client: Tree, received: Tree, *samples: Tensor) -> Tree:
            seen = dataclasses.replace(site, validation=Batch(*samples)) if samples else site
            return algorithm.start(client, received, seen)

        samples = self._validation_samples if self.run_batch.algorithm.validates else ()
        axes = ["HSC", "HSC", *["SC"] * len(samples)]
        return self.hooks.map("start", hook, axes, clients, received, *samples)

    @cached_property
    def _validation_samples(self) -> tuple[Grid, ...]:
        return self.mapper.weighted(self.run_batch, self.validation.rows)

    def _local_steps(self, clients: Grid, received: Grid, round_: int, tuning: int = 0) -> Grid:
        """Return the clients after a round's local steps, or after ``tuning`` epochs of local tuning."""
        hooks, run_batch = self.hooks, self.run_batch

        def of_client(c: int) -> Callable[..., Any]:
            def step(
                client: Tree, hyper: Scalars, constants: Scalars, received: Tree, round_context: Scalars,
                x: Tensor, y: Tensor, weight: Tensor, key: Tensor, number: Tensor,
            ) -> Tree:  # fmt: skip
                site = hooks.site(hyper, constants, {**round_context, "step": number, "key": key}, c)
                algorithm = hooks.algorithm(hyper)
                one_step = algorithm.tune if tuning else algorithm.step
                return one_step(client, received, Batch(x, y, weight), site)

            return step

        fixed = (hooks.hyper, hooks.constants, received, hooks.round_context)
        name, axes = "tune" if tuning else "train", ["H", f"{hooks.ragged}C", "HSC", hooks.ragged]
        return self.mapper.train(name, of_client, axes, clients, fixed, run_batch, run_batch.work(round_, tuning))

    def _end(self, clients: Grid, received: Grid) -> tuple[Grid, Grid]:
        ended = self.hooks.map("end", lambda a, site, *trees: a.end(*trees, site), ["HSC", "HSC"], clients, received)
        return self.mapper.unzip(ended)

    def _aggregate(self, server: Grid, uploads: Grid) -> Grid:
        def hook(hyper: Scalars, server: Tree, uploads: Tree, round_context: Scalars) -> Tree:
            return self.hooks.algorithm(hyper).aggregate(server, uploads, round_context["weights"])

        grids = (self.hooks.hyper, server, self.mapper.gather(uploads), self.hooks.round_context)
        axes = ["H", "HS", "HS", self.hooks.ragged]
        return self.mapper.map("aggregate", at_server(hook), axes, *grids, over="HS")

    def _evaluated(self, clients: Grid, received: Grid, epochs: int) -> Grid:
        """Return the clients as they are evaluated: before aggregation, after it, or tuned on the aggregate."""
        algorithm, budget = self.run_batch.algorithm, self.run_batch.budget
        if not epochs and (algorithm.before_aggregation or budget.evaluate == "trained"):
            return clients
        started = self._start(clients, received)
        return self._local_steps(started, received, self.hooks.round, epochs) if epochs else started

    def _personal(self, clients: Grid) -> Grid:
        return self.hooks.map("personal", lambda a, site, client: a.personal(client), ["HSC"], clients)

    def _traced(self, clients: Grid) -> dict[str, Tensor]:
        """Return the quantities that the algorithm traces at its clients, by name, (H, S, C, ...)."""
        traced = self.hooks.map("watch", lambda a, site, client: a.watch(client, site), ["HSC"], clients)
        return dict(self.mapper.numbers(traced))

    def _floats(self, way: str, messages: Grid) -> Tensor:
        """Return how many floats the messages of a round hold, mean over clients (H, S)."""

        def hook(algorithm: Algorithm, site: Site, message: Tree) -> Tensor:
            return torch.as_tensor(algorithm.floats(message, site), dtype=torch.float64)

        return self.mapper.numbers(self.hooks.map(f"floats {way}", hook, ["HSC"], messages)).mean(-1)
