"""The Python interface: one algorithm on one federation, for every combination of settings and seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from torch import Tensor, nn

from bench.train import engine
from bench.train.path import ExecutionPath
from bench.types import CHECKPOINTS, Budget, Federation, SpecError, nearest

Values = float | int | Iterable[float]


def run(
    federation: Federation,
    algorithm: str,
    model: str | nn.Module,
    *,
    hyperparameters: Mapping[str, Values] | None = None,
    rounds: int,
    local_steps: int | None = None,
    local_epochs: int | None = None,
    batch_size: int | Literal["full"] = 32,
    optimizer: Literal["adamw", "sgd"] = "sgd",
    seeds: Sequence[int] = (0,),
    validation: float = 0.2,
    checkpoint: str | Sequence[str] = CHECKPOINTS,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
    batches: int | None = None,
    optimizer_state: Literal["keep", "reset"] = "keep",
    evaluate: Literal["aggregated", "trained"] = "aggregated",
    test_every: int = 0,
    draws: Literal["keyed", "torch"] = "keyed",
    path: ExecutionPath = "auto",
) -> Result:
    """Train ``algorithm`` on ``federation`` once for every setting and seed, and test every personal model.

    ``hyperparameters`` maps names to a number or to a list to search; lists are combined to a grid, the last name
    varying fastest. ``model`` is a registered name or a module, whose weights are the initial weights of every run.
    ``validation`` is the share of each client's training samples held out for the checkpoint rules ``global`` and
    ``local``; test samples are used for the final scores only. ``batches`` cuts a client's epoch into so many
    mini-batches, whatever ``batch_size``; ``optimizer_state`` says whether the clients' optimisers keep their moments
    over rounds. ``evaluate`` "trained" validates, keeps and tests models before aggregation instead of after it.
    ``test_every`` draws learning curves on test samples (:attr:`Result.curves`), a point after so many rounds each.
    ``draws`` "torch" takes initial weights and mini-batches as a script in torch draws them from a seed (see Budget).
    ``path`` forces the stacked or the looped way of computing, which agree to 1e-5; by default the better one is taken.

    Raises :class:`bench.SpecError` for anything that cannot be run, before training starts.
    """
    rules = (checkpoint,) if isinstance(checkpoint, str) else tuple(checkpoint)
    for rule in rules:
        if rule not in CHECKPOINTS:
            raise SpecError(f"unknown checkpoint rule {rule!r}: {nearest(rule, CHECKPOINTS)}")
    budget = Budget(
        rounds, local_steps, local_epochs, batch_size, optimizer, validation, batches, optimizer_state, evaluate,
        test_every, draws,
    )  # fmt: skip
    settings = grid(hyperparameters or {})
    trained = engine.run(
        federation,
        algorithm=algorithm,
        model=model,
        settings=settings,
        seeds=[_number(seed) for seed in seeds],
        budget=budget,
        model_options=model_options,
        algorithm_options=algorithm_options,
        path=path,
    )
    return Result(federation, trained, rules)


def grid(hyperparameters: Mapping[str, Values]) -> list[dict[str, float]]:
    """Every combination of the values given, the last name varying fastest."""
    axes: list[list[float]] = []
    for name, values in hyperparameters.items():
        several = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
        axes.append([_number(value) for value in several])
        if not axes[-1]:
            raise SpecError(f"empty grid: hyper-parameter {name} has no values")
    return [dict(zip(hyperparameters, values, strict=True)) for values in itertools.product(*axes)]


def _number(value: Any) -> Any:
    """NumPy's numbers as Python's; anything else is left for the engine to judge."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Result:
    """Runs in settings-major order, numbered from 0; a diverged run has no numbers (NaN in the frames)."""

    federation: Federation
    trained: engine.TrainedRuns
    rules: tuple[str, ...]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run: its key, ``status``, ``parameters``, ``up`` and ``down`` (floats a round), ``path``."""
        return pd.DataFrame(
            {
                **self._key(number),
                "status": outcome.status,
                "diverged": outcome.diverged,
                "parameters": outcome.parameters,
                **outcome.communication,
                "path": outcome.path,
            }
            for number, outcome in enumerate(self.trained.outcomes)
        )

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Each client's personal model on its own test samples: ``run, seed, client, checkpoint, metric, value``."""
        frame = self.cross_scores
        pooled = frame.model.nunique() == 1 and len(self.federation.clients) > 1
        return frame[pooled | (frame.model == frame.client)].drop(columns="model").reset_index(drop=True)

    @cached_property
    def cross_scores(self) -> pd.DataFrame:
        """As :attr:`scores`, with ``model``: the client whose model was tested (local: every model on every client)."""
        rows = [
            {
                **self._key(number),
                "model": model,
                "client": client,
                "checkpoint": rule,
                "metric": metric,
                "value": value,
            }
            for number, outcome in enumerate(self.trained.outcomes)
            for rule, model, client, metric, value in outcome.scores
            if rule in self.rules
        ]
        columns = [*self._key(0), "model", "client", "checkpoint", "metric", "value"]
        return pd.DataFrame(rows, columns=columns).astype({"value": float})

    @cached_property
    def history(self) -> pd.DataFrame:
        """Validation losses after every round: ``run, seed, round, client, loss``; client -1 is their weighted mean."""
        rows = [
            {**self._key(number), "round": round_, "client": client, "loss": loss}
            for number, outcome in enumerate(self.trained.outcomes)
            for round_, (losses, aggregated) in enumerate(zip(outcome.validation, outcome.aggregated, strict=True))
            for client, loss in [*enumerate(losses), (-1, aggregated)]
        ]
        return pd.DataFrame(rows).astype({"loss": float})

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Test scores after every ``rounds`` so many: ``run, seed, rounds, client, metric, value``, of own models."""
        rows = [
            {**self._key(number), "rounds": rounds, "client": client, "metric": metric, "value": value}
            for number, outcome in enumerate(self.trained.outcomes)
            for metric, points in outcome.curves.get("scores", {}).items()
            for rounds, values in zip(outcome.curves["rounds"], points, strict=True)
            for client, value in enumerate(values)
        ]
        columns = [*self._key(0), "rounds", "client", "metric", "value"]
        return pd.DataFrame(rows, columns=columns).astype({"value": float})

    @cached_property
    def traces(self) -> pd.DataFrame:
        """What the algorithm watches of its clients (APPLE's p, APFL's alpha) at the end of every round's local work.

        ``run, seed, round, client, name, entry, value``, with one row for each ``entry`` of a vector.
        """
        rows = [
            {**self._key(number), "round": round_, "client": client, "name": name, "entry": entry, "value": each}
            for number, outcome in enumerate(self.trained.outcomes)
            for name, rounds in outcome.traces.items()
            for round_, clients in enumerate(rounds)
            for client, value in enumerate(clients)
            for entry, each in enumerate(value if isinstance(value, list) else [value])
        ]
        columns = [*self._key(0), "round", "client", "name", "entry", "value"]
        return pd.DataFrame(rows, columns=columns).astype({"value": float})

    def weights(self, run: int = 0, client: int = 0, checkpoint: str = "latest") -> dict[str, Tensor]:
        """The state dict of a client's personal model.

        A personal model of several parts (APFL's twins) has each part's names behind ``v.`` or ``w.``, and its
        scalars (``alpha``) by their own name.
        """
        rounds, personal = self.trained.personal(run, client, self._rule(checkpoint))
        model = rounds.run_batch.models[0 if rounds.run_batch.algorithm.pooled else client]
        if set(personal) == {"w"}:
            return model.state_dict(personal["w"])
        named: dict[str, Tensor] = {}
        for part, value in personal.items():
            vector = value.shape == (model.size,)
            named |= {f"{part}.{k}": v for k, v in model.state_dict(value).items()} if vector else {part: value}
        return named

    def global_weights(self, run: int = 0) -> dict[str, Tensor]:
        """The shared weights the server holds after the last round; raises where nothing is shared."""
        rounds, server = self.trained.server(run)
        exchange = rounds.run_batch.exchanges[0]
        if not exchange.size:
            raise SpecError(f"{rounds.run_batch.algorithm.registered_name} has no global weights: nothing is shared")
        model = rounds.run_batch.models[0]
        state = model.state_dict(exchange.install(model.initial, server["w"]))
        return state if exchange.everything else {name: state[name] for name in exchange.names}

    def _rule(self, checkpoint: str) -> str:
        kept = [rule for rule in self.rules if rule in self.trained.models[0][2].checkpoints]
        if checkpoint not in kept:
            raise SpecError(f"no checkpoint {checkpoint!r} was kept, only {', '.join(kept)}")
        return checkpoint

    def _key(self, number: int) -> dict[str, Any]:
        outcome = self.trained.outcomes[number]
        return {"run": number, "seed": outcome.seed, **outcome.hyperparameters}
