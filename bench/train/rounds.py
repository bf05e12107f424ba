"""The federated rounds of a run batch.

The order of a round is FENDA-FL's (section 3.3): the server's weights go to the clients, local work, aggregation,
the clients take in the aggregate, and only then is every client's personal model validated; PLayer-FL validates it
before aggregation (``Budget.evaluate``). The checkpoint rules keep the model of the last round (latest), of the round
with the best aggregated validation loss (global), and each client's best (local); of equally good rounds the later
one stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from bench.algorithms.base import Algorithm, Batch, Optimizer, Site, Tree
from bench.rng import derive
from bench.train import evaluate
from bench.train.batching import schedule
from bench.train.mapper import Grid, Index, LocalWork, Mapper
from bench.train.optim.optimizers import OPTIMIZERS, Restarted
from bench.train.run_batch import RunBatch
from bench.train.state import RunState, Trained
from bench.types import CHECKPOINTS

Number = dict[str, Tensor]
# All 32,293 test samples of a Covertype client at once: 40 of 60 seconds went into fresh memory.
EVALUATED = 256


class Rounds:
    """Runs the hooks of a run batch's algorithm with a mapper."""

    def __init__(self, run_batch: RunBatch, mapper: Mapper) -> None:
        self.run_batch, self.mapper = run_batch, mapper
        self.hyper = mapper.grid("H", lambda h: {k: torch.tensor(v) for k, v in run_batch.settings[h].items()})
        counts = run_batch.counts
        # The axis along which sizes differ: none where every seed has clients of the same sizes.
        self.ragged: Literal["", "S"] = "" if bool((counts == counts[:, :1]).all()) else "S"
        self.facts = mapper.grid(f"{self.ragged}C", lambda *index: self._facts(*(0, *index)[-2:]))
        training, held_out = counts.to(torch.float32)
        self.weights = training / training.sum(1, keepdim=True)
        self.validates = bool(held_out.sum() > 0)
        self.validation_weights = held_out / held_out.sum(1, keepdim=True)
        self.round = -1

    # One client or one server, as the mapper calls them ------------------------------------------------------

    def _facts(self, s: int, c: int) -> Number:
        samples = int(self.run_batch.counts[0, s, c])
        return {
            "index": torch.tensor(c),
            "samples": torch.tensor(float(samples)),
            "steps": torch.tensor(float(schedule.local_steps(self.run_batch.budget, samples))),
        }

    def _algorithm(self, hyper: Number) -> Algorithm:
        names = self.run_batch.algorithm.hyperparameters()
        return dataclasses.replace(self.run_batch.algorithm, **{k: v for k, v in hyper.items() if k in names})

    def _site(self, hyper: Number, facts: Number, moment: Number, c: int) -> Site:
        names = self.run_batch.algorithm.hyperparameters()
        model = self.run_batch.models[c]
        trained = torch.arange(model.size) < model.trainable
        own = {k: v for k, v in hyper.items() if k not in names}
        lr, lr_decay = own.pop("lr"), own.pop("lr_decay", None)
        restarts = self.run_batch.budget.optimizer_state == "reset"

        def optimizer_at(lr: Any, decays: Tensor | None = None) -> Optimizer:
            lr = lr if lr_decay is None else lr * lr_decay ** moment["round"]
            kept = OPTIMIZERS[self.run_batch.budget.optimizer](lr, **own, decays=decays)
            return Restarted(kept, moment["step"] == 0) if restarts else kept

        decays = None if model.trainable == model.size else trained.to(torch.float32)
        exchange, criterion = self.run_batch.exchanges[c], self.run_batch.criterion
        return Site(
            model, exchange, criterion, optimizer_at(lr, decays), optimizer_at, self.run_batch.sizes["C"],
            **(facts | moment),  # type: ignore[arg-type]
        )  # fmt: skip

    def _map(self, name: str, hook: Callable[..., Any], kinds: Sequence[str], *grids: Grid) -> Grid:
        """Map ``hook(algorithm, site, *trees)`` over all clients."""

        def at(c: int) -> Callable[..., Any]:
            def call(hyper: Number, facts: Number, now: Number, key: Tensor, *trees: Any) -> Any:
                return hook(self._algorithm(hyper), self._site(hyper, facts, _between(now, key), c), *trees)

            return call

        return self.mapper.map(name, at, [*self._common, *kinds], *self._moment, *grids)

    # What every hook at a client needs: hyper-parameters, its facts, the round with all clients' weights, its key.
    @property
    def _common(self) -> tuple[str, ...]:
        return "H", f"{self.ragged}C", self.ragged, "SC"

    @property
    def _moment(self) -> tuple[Grid, ...]:
        return self.hyper, self.facts, self.now, self.keys

    def _begin_round(self, round_: int) -> None:
        if round_ == self.round:
            return
        seeds = self.run_batch.seeds
        self.round = round_
        nows = [{"round": torch.tensor(round_), "weights": weights} for weights in self.weights]
        self.now = self.mapper.grid("S", nows.__getitem__) if self.ragged else nows[0]
        self.keys = self.mapper.grid("SC", lambda s, c: torch.tensor(derive("round", seeds[s], c, round_)))

    # The rounds -----------------------------------------------------------------------------------------------

    def begin(self) -> RunState:
        """The runs before their first round."""
        clients, server, received = self._begin()
        shape = tuple(self.run_batch.sizes[axis] for axis in "HSC")
        best = {rule: torch.full(shape, torch.inf) for rule in ("global", "local")}
        travelled = {way: torch.zeros(shape[:2], dtype=torch.float64) for way in ("up", "down")}
        return RunState(clients, received, Trained(server, best, travelled))

    def resumed(self, tree: Tree, facts: Mapping[str, Any]) -> RunState:
        """The runs as :meth:`RunState.parts` took them apart."""
        kept = {rule: tree["checkpoints"][rule] for rule in CHECKPOINTS if rule in tree["checkpoints"]}
        traces = {name: list(values) for name, values in tree["traces"].items()}
        diverged = {(h, s): first for h, s, first in facts["diverged"]}
        trained = Trained(
            tree["server"], tree["best"], tree["travelled"], kept, list(tree["losses"]), list(tree["curves"]), traces,
            diverged,
        )  # fmt: skip
        self._begin_round(facts["rounds"] - 1)
        return RunState(tree["clients"], self._download(trained.server), trained, facts["rounds"])

    def train(self, state: RunState) -> None:
        """The next round of all runs: local work, aggregation, and its way back to the clients."""
        self._begin_round(state.rounds)
        state.clients = self._start(state.clients, state.received)
        state.clients = self._local_steps(state.clients, state.received, state.rounds)
        state.clients, uploads = self._end(state.clients, state.received)
        trained = state.trained
        traces = {name: [*trained.traces.get(name, []), each] for name, each in self._watch(state.clients).items()}
        messages = {"up": uploads, "down": state.received}
        travelled = {way: floats + self._floats(way, messages[way]) for way, floats in trained.travelled.items()}
        server = self._aggregate(trained.server, uploads)
        state.trained = dataclasses.replace(trained, server=server, travelled=travelled, traces=traces)
        state.received = self._download(server)
        state.rounds += 1

    def evaluated(self, state: RunState) -> Trained:
        """What is left once the last round's personal models are validated, and kept where a rule says so."""
        trained, round_ = state.trained, state.rounds - 1
        algorithm, last = self.run_batch.algorithm, state.rounds == self.run_batch.budget.rounds
        self._begin_round(round_)
        personal = self._personal(self._evaluated(state.clients, state.received, algorithm.tuning(last)))
        loss, untuned = self._validate(personal), None
        if last and algorithm.tuning(last) != (epochs := algorithm.tuning(last=False)):
            untuned = self._validate(self._personal(self._evaluated(state.clients, state.received, epochs)))
        best, checkpoints = self._checkpoint(trained, personal, loss)
        tested = state.rounds in self.run_batch.budget.tested
        return dataclasses.replace(
            trained,
            best=best,
            checkpoints=checkpoints,
            losses=[*trained.losses, torch.where(self.validation_weights > 0, loss, torch.nan)],
            curves=[*trained.curves, evaluate.curve_point(self, personal)] if tested else trained.curves,
            diverged={**self._diverged(round_, personal, loss), **trained.diverged},
            untuned=untuned,
        )

    def trial(self) -> None:
        """The first round's local work alone, to measure it."""
        clients, _, received = self._begin()
        self._local_steps(self._start(clients, received), received, 0)

    def _begin(self) -> tuple[Grid, Grid, Grid]:
        """Clients, server and first download of the runs' initial weights."""
        run_batch, mapper = self.run_batch, self.mapper
        self._begin_round(0)
        initial = mapper.grid("SC", lambda s, c: run_batch.initial(run_batch.seeds[s], c))
        clients = self._map("init_client", lambda a, site, w: a.init_client(w, site), ["SC"], initial)
        shared = mapper.grid("S", self._shared_parts)
        init_server = _anywhere(lambda hyper, w: self._algorithm(hyper).init_server(w))
        server = mapper.map("init_server", init_server, ["H", "S"], self.hyper, shared, over="HS")
        return clients, server, self._download(server)

    def _shared_parts(self, s: int) -> Tensor:
        """The shared parts (C, s) of all clients' initial weights."""
        initial, seed = self.run_batch.initial, self.run_batch.seeds[s]
        return torch.stack([each.share(initial(seed, c)) for c, each in enumerate(self.run_batch.exchanges)])

    def _download(self, server: Grid) -> Grid:
        return self._map("download", lambda a, site, server: a.download(server, site.index), ["HS"], server)

    def _start(self, clients: Grid, received: Grid) -> Grid:
        def hook(algorithm: Algorithm, site: Site, client: Tree, received: Tree, *samples: Tensor) -> Tree:
            seen = dataclasses.replace(site, validation=Batch(*samples)) if samples else site
            return algorithm.start(client, received, seen)

        samples = self._validation_samples if self.run_batch.algorithm.validates else ()
        kinds = ["HSC", "HSC", *["SC"] * len(samples)]
        return self._map("start", hook, kinds, clients, received, *samples)

    @cached_property
    def _validation_samples(self) -> tuple[Grid, ...]:
        return self.mapper.weighted(self.run_batch, self._validation)

    def _evaluated(self, clients: Grid, received: Grid, epochs: int) -> Grid:
        """The clients as they are evaluated: with the aggregate, tuned on it, or as local steps have left them."""
        algorithm, budget = self.run_batch.algorithm, self.run_batch.budget
        if not epochs and (algorithm.before_aggregation or budget.evaluate == "trained"):
            return clients
        started = self._start(clients, received)
        return self._local_steps(started, received, self.round, epochs) if epochs else started

    def _end(self, clients: Grid, received: Grid) -> tuple[Grid, Grid]:
        ended = self._map("end", lambda a, site, *trees: a.end(*trees, site), ["HSC", "HSC"], clients, received)
        return self.mapper.unzip(ended)

    def _watch(self, clients: Grid) -> dict[str, Tensor]:
        """What the algorithm watches of its clients, by name, (H, S, C, ...)."""
        watched = self._map("watch", lambda a, site, client: a.watch(client, site), ["HSC"], clients)
        return dict(self.mapper.numbers(watched))

    def _personal(self, clients: Grid) -> Grid:
        return self._map("personal", lambda a, site, client: a.personal(client), ["HSC"], clients)

    def _aggregate(self, server: Grid, uploads: Grid) -> Grid:
        def hook(hyper: Number, server: Tree, uploads: Tree, now: Number) -> Tree:
            return self._algorithm(hyper).aggregate(server, uploads, now["weights"])

        grids = (self.hyper, server, self.mapper.gather(uploads), self.now)
        return self.mapper.map("aggregate", _anywhere(hook), ["H", "HS", "HS", self.ragged], *grids, over="HS")

    def _local_steps(self, clients: Grid, received: Grid, round_: int, tuning: int = 0) -> Grid:
        def at(c: int) -> Callable[..., Any]:
            def step(
                client: Tree, hyper: Number, facts: Number, received: Tree, now: Number,
                x: Tensor, y: Tensor, weight: Tensor, key: Tensor, number: Tensor,
            ) -> Tree:  # fmt: skip
                site = self._site(hyper, facts, {**now, "step": number, "key": key}, c)
                algorithm = self._algorithm(hyper)
                one_step = algorithm.tune if tuning else algorithm.step
                return one_step(client, received, Batch(x, y, weight), site)

            return step

        run_batch = self.run_batch
        work: dict[Index, LocalWork] = {
            (s, c): run_batch.work(s, c, round_, tuning) for s, c in self.mapper.indices("SC")
        }
        fixed = (self.hyper, self.facts, received, self.now)
        name, kinds = "tune" if tuning else "train", ["H", f"{self.ragged}C", "HSC", self.ragged]
        return self.mapper.train(name, at, kinds, clients, fixed, run_batch, work)

    # Validation and checkpoints -------------------------------------------------------------------------------

    def _validate(self, personal: Grid) -> Tensor:
        """Validation losses (H, S, C): unweighted means over batches of the batches' mean loss."""
        if not self.validates:
            return torch.full([self.run_batch.sizes[axis] for axis in "HSC"], torch.nan)

        def at(c: int) -> Callable[..., Any]:
            predict = self._predict(c)

            def hook(*arguments: Any) -> Tensor:
                *personal, x, y, weight = arguments
                return (self.run_batch.criterion(predict(*personal, x), y) * weight).sum()

            return hook

        kinds, grids = [*self._common, "HSC"], (*self._moment, personal)
        return self.mapper.loss(at, kinds, grids, self.run_batch, self._validation, self._evaluated_together)

    def _predict(self, c: int) -> Callable[..., Tensor]:
        def predict(hyper: Number, facts: Number, now: Number, key: Tensor, personal: Tree, x: Tensor) -> Tensor:
            site = self._site(hyper, facts, _between(now, key), c)
            return self._algorithm(hyper).predict(personal, x, site)

        return predict

    @cached_property
    def _validation(self) -> dict[Index, tuple[Tensor, Tensor]]:
        """Validation rows and their weights in the mean over batches, by (seed number, client)."""
        found: dict[Index, tuple[Tensor, Tensor]] = {}
        for (s, c), (_, rows) in self.run_batch.splits.items():
            size = schedule.batch_size(self.run_batch.budget, int(self.run_batch.counts[0, s, c]))
            found[s, c] = rows, schedule.mean_over_batches(len(rows), size)
        return found

    @property
    def _evaluated_together(self) -> int:
        """How many samples the loop evaluates at a time: as many as it trains on, where that is no part of them all."""
        budget = self.run_batch.budget
        return EVALUATED if budget.batch_size == "full" or budget.batches is not None else budget.batch_size

    def aggregated(self, loss: Tensor) -> Tensor:
        """The clients' losses (..., C) averaged with the numbers of validation samples as weights."""
        if not self.validates:
            return torch.full(loss.shape[:-1], torch.nan)
        weights = self.validation_weights
        mean = torch.where(weights > 0, loss * weights, 0.0).sum(-1)
        return torch.where((weights > 0).any(-1), mean, torch.nan)

    def _checkpoint(self, trained: Trained, personal: Grid, loss: Tensor) -> tuple[dict[str, Tensor], dict[str, Grid]]:
        """The lowest losses so far, and the personal models of the rounds that have them."""
        best, checkpoints = dict(trained.best), {"latest": personal}
        if not self.validates:
            return best, checkpoints
        for rule, value in (("global", self.aggregated(loss)[..., None].expand_as(loss)), ("local", loss)):
            better = value <= best[rule]
            best[rule] = torch.where(better, value, best[rule])
            kept = trained.checkpoints.get(rule)
            checkpoints[rule] = personal if kept is None else self.mapper.where(better, personal, kept)
        return best, checkpoints

    def _diverged(self, round_: int, personal: Grid, loss: Tensor) -> dict[tuple[int, int], dict[str, Any]]:
        """A bad number of each run that has any in this round."""
        finite = self.mapper.finite(personal)
        bad = ~finite
        if self.validates:
            bad = bad | ~torch.isfinite(loss)
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for h, s, c in torch.nonzero(bad).tolist():
            what = "a weight is not finite" if not finite[h, s, c] else f"validation loss is {loss[h, s, c].item()}"
            found.setdefault((h, s), {"round": round_, "client": c, "what": what})
        return found

    def _floats(self, way: str, messages: Grid) -> Tensor:
        """How many floats the messages of a round hold, mean over clients (H, S)."""

        def hook(algorithm: Algorithm, site: Site, message: Tree) -> Tensor:
            return torch.as_tensor(algorithm.floats(message, site), dtype=torch.float64)

        return self.mapper.numbers(self._map(f"floats {way}", hook, ["HSC"], messages)).mean(-1)

    # Testing --------------------------------------------------------------------------------------------------

    def outputs(self, personal: Grid, inputs: Mapping[Index, Tensor]) -> dict[Index, Tensor]:
        """Outputs (H, n, k) of personal models for ``inputs`` (n, ...), both by (seed number, client)."""
        kinds, grids = [*self._common, "HSC"], (*self._moment, personal)
        return self.mapper.outputs(self._predict, kinds, grids, self.run_batch, inputs, self._evaluated_together)


def _between(now: Number, key: Tensor) -> Number:
    """The moment of hooks that run between local steps."""
    return {**now, "step": torch.zeros_like(now["round"]), "key": key}


def _anywhere(hook: Callable[..., Any]) -> Callable[[int], Callable[..., Any]]:
    """A hook that is the same for every client."""
    return lambda c: hook
