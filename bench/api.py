"""Python interface: training of one algorithm on one federation for all combinations of settings and seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from inspect import Parameter, Signature, signature
from typing import Any

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
    seeds: Sequence[int] = (0,),
    checkpoint: str | Sequence[str] | None = None,
    model_options: Mapping[str, Any] | None = None,
    algorithm_options: Mapping[str, Any] | None = None,
    path: ExecutionPath = "auto",
    **budget: Any,
) -> Result:
    """Train ``algorithm`` on ``federation`` for every combination of hyper-parameters and seeds, and test all models.

    ``algorithm`` is a name from ``silobench list algorithms``. ``model`` is a name from ``silobench list models``, or
    a module, whose weights are the initial weights of every run. ``hyperparameters`` maps names to a number, or to a
    list of numbers to combine to a grid; the last name varies fastest. ``algorithm_options`` and ``model_options`` are
    the options that the two lists show. ``checkpoint`` names the checkpoint rules to report: "latest", "global" or
    "local"; None reports all that can be applied. ``path`` "stack" or "loop" forces the way of computing. One round of
    both agrees to about 1e-5 with SGD; adaptive optimisers (AdamW, FedAdam) divide by small gradients and so amplify
    rounding, and over many rounds differences grow. All other arguments are the fields of :class:`bench.types.Budget`.

    Raise :class:`bench.SpecError` for a request that cannot be run, before training starts.
    """
    limits = _budget(budget)
    _check_choices(federation, algorithm, model)
    for name, given in (("hyperparameters", hyperparameters), ("algorithm_options", algorithm_options),
                        ("model_options", model_options)):  # fmt: skip
        if given is not None and not isinstance(given, Mapping):
            raise SpecError(f"{name} = {given!r}: expected a dictionary of names and values")
    if isinstance(model, nn.Module) and model_options:
        raise SpecError("model_options: not used with a module; set its options where it is built")
    rules = _checkpoint_rules(checkpoint, federation, limits)
    settings = grid(hyperparameters or {})
    trained = engine.run(
        federation,
        algorithm=algorithm,
        model=model,
        settings=settings,
        seeds=seeds,
        budget=limits,
        model_options=model_options,
        algorithm_options=algorithm_options,
        path=path,
    )
    return Result(federation, trained, rules)


def _budget(given: Mapping[str, Any]) -> Budget:
    """Return the budget that arguments of :func:`run` give; raise :class:`SpecError` for an unknown argument."""
    for name in given:
        if name not in {field.name for field in fields(Budget)}:
            raise SpecError(f"unknown argument {name!r}: {nearest(name, signature(run).parameters)}")
    if "rounds" not in given:
        raise SpecError("rounds is missing; give the number of rounds")
    return Budget(**given)


def _check_choices(federation: Any, algorithm: Any, model: Any) -> None:
    """Raise :class:`SpecError` for arguments of a wrong type, which the engine takes for granted."""
    if not isinstance(federation, Federation):
        kind = type(federation).__name__
        raise SpecError(f"federation is a {kind}; expected a Federation, from load_dataset or Federation.from_arrays")
    if not isinstance(algorithm, str):
        raise SpecError(f"algorithm = {algorithm!r}: expected a name from `silobench list algorithms`")
    if isinstance(model, type):
        raise SpecError(f"model is the class {model.__name__}; expected an instance, e.g. {model.__name__}()")
    if not isinstance(model, str | nn.Module):
        raise SpecError(f"model = {model!r}: expected a name from `silobench list models` or a torch.nn.Module")


def _checkpoint_rules(given: Any, federation: Federation, budget: Budget) -> tuple[str, ...]:
    """Return the rules to report; raise :class:`SpecError` for an unknown rule or one that cannot be applied."""
    if given is None:
        return CHECKPOINTS
    rules = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
    if not rules:
        raise SpecError(f"checkpoint = {given!r}: expected at least one of {', '.join(CHECKPOINTS)}")
    for rule in rules:
        if rule not in CHECKPOINTS:
            raise SpecError(f"unknown checkpoint rule {rule!r}: {nearest(rule, CHECKPOINTS)}")
    share = budget.validation * sum(len(client.train) for client in federation.clients)
    held_out = share >= 1 or any(client.validation for client in federation.clients)
    needing = [rule for rule in rules if rule != "latest"]
    if needing and not held_out:
        raise SpecError(
            f"checkpoint {needing[0]!r} needs validation samples; increase validation = {budget.validation}"
        )
    return rules


def _with_budget(own: Signature) -> Signature:
    """Return the signature of :func:`run` with the fields of a budget as keyword arguments, for help texts."""
    lengths = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in fields(Budget)
    ]
    return own.replace(parameters=[*list(own.parameters.values())[:-1], *lengths])


run.__signature__ = _with_budget(signature(run))  # type: ignore[attr-defined]


def grid(hyperparameters: Mapping[str, Values]) -> list[dict[str, float]]:
    """Return all combinations of the values; the last name varies fastest."""
    axes: list[list[float]] = []
    for name, values in hyperparameters.items():
        several = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
        axes.append([_number(value) for value in several])
        if not axes[-1]:
            raise SpecError(f"hyper-parameter {name} = {several!r}: expected at least one value")
    return [dict(zip(hyperparameters, values, strict=True)) for values in itertools.product(*axes)]


def _number(value: Any) -> Any:
    """Convert a NumPy number to a Python number; leave anything else to the checks of the engine."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Result:
    """Results of :func:`run`: runs are numbered from 0, all seeds of the first setting first; NaN if a run diverged."""

    federation: Federation
    trained: engine.TrainedRuns
    rules: tuple[str, ...]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run: ``run``, ``seed``, hyper-parameters, ``status``, ``diverged``, ``parameters``, ``path``.

        ``up`` and ``down`` are the floats that a client uploads and downloads in a round, averaged over clients and
        rounds.
        """
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
        """Test scores of each client's own model: ``run, seed, client, checkpoint, metric, value``."""
        frame = self.cross_scores
        pooled = frame.model.nunique() == 1 and len(self.federation.clients) > 1
        return frame[pooled | (frame.model == frame.client)].drop(columns="model").reset_index(drop=True)

    @cached_property
    def cross_scores(self) -> pd.DataFrame:
        """Test scores as :attr:`scores`, with ``model``, the client whose model was tested; local tests all pairs."""
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
        """Validation losses after every round: ``run, seed, round, client, loss``; client -1 is the weighted mean."""
        rows = [
            {**self._key(number), "round": round_, "client": client, "loss": loss}
            for number, outcome in enumerate(self.trained.outcomes)
            for round_, (losses, aggregated) in enumerate(zip(outcome.validation, outcome.aggregated, strict=True))
            for client, loss in [*enumerate(losses), (-1, aggregated)]
        ]
        return pd.DataFrame(rows).astype({"loss": float})

    @cached_property
    def curves(self) -> pd.DataFrame:
        """Test scores of own models every ``test_every`` rounds: ``run, seed, rounds, client, metric, value``."""
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
        """Traced quantities of the algorithm (APPLE's p, APFL's alpha) after the local training of every round.

        Columns: ``run, seed, round, client, name, entry, value``; a vector has a row per ``entry``.
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
        """Return the state dict of a client's personal model.

        If the personal model has several parts (APFL), the names of each part begin with ``v.`` or ``w.``; scalars
        (``alpha``) keep their names. Raise :class:`SpecError` for an unknown run, client or checkpoint.
        """
        rounds, personal = self.trained.personal(run, client, self._rule(run, checkpoint))
        model = rounds.run_batch.models[0 if rounds.run_batch.algorithm.pooled else client]
        if set(personal) == {"w"}:
            return model.state_dict(personal["w"])
        named: dict[str, Tensor] = {}
        for part, value in personal.items():
            vector = value.shape == (model.size,)
            named |= {f"{part}.{k}": v for k, v in model.state_dict(value).items()} if vector else {part: value}
        return named

    def global_weights(self, run: int = 0) -> dict[str, Tensor]:
        """Return the shared weights of the server after the last round.

        Raise :class:`SpecError` if the algorithm has no global model: it shares nothing (local), or the server keeps
        a model per client (APPLE, FedAMP, FedFomo, pFedLA).
        """
        rounds, server = self.trained.server(run)
        exchange = rounds.run_batch.exchanges[0]
        shared = server.get("w")
        if shared is None or shared.shape != (exchange.size,) or not exchange.size:
            name = rounds.run_batch.algorithm.registered_name
            raise SpecError(f"{name} has no global model; read a client's model with weights(run, client)")
        model = rounds.run_batch.models[0]
        state = model.state_dict(exchange.install(model.initial, shared))
        return state if exchange.everything else {name: state[name] for name in exchange.names}

    def _rule(self, run: int, checkpoint: str) -> str:
        kept = [rule for rule in self.rules if rule in self.trained.checkpoints(run)]
        if checkpoint not in kept:
            raise SpecError(f"no checkpoint {checkpoint!r}; this run has {', '.join(kept)}")
        return checkpoint

    def _key(self, number: int) -> dict[str, Any]:
        outcome = self.trained.outcomes[number]
        return {"run": number, "seed": outcome.seed, **outcome.hyperparameters}
