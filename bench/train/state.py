"""Runs between two rounds: their state, and what they leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench.algorithms.base import Tree
from bench.train.mapper import Grid, Mapper


@dataclass(frozen=True)
class Trained:
    """What the rounds leave: losses, checkpoints, and the first bad number of each run."""

    server: Grid  # kind "HS"
    best: dict[str, Tensor]  # rule -> lowest validation losses so far (H, S, C)
    travelled: dict[str, Tensor]  # "up", "down" -> floats of all rounds so far, mean over clients (H, S)
    checkpoints: dict[str, Grid] = field(default_factory=dict)  # rule -> personal models, kind "HSC"
    losses: list[Tensor] = field(default_factory=list)  # of each round (H, S, C), NaN without validation samples
    curves: list[Tensor] = field(default_factory=list)  # of each tested round (metrics, H, S, clients)
    traces: dict[str, list[Tensor]] = field(default_factory=dict)  # what is watched -> of each round (H, S, C, ...)
    diverged: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)  # by (h, s)
    untuned: Tensor | None = None  # losses (H, S, C) of the last round before a tuning that only this round has

    @property
    def validation(self) -> Tensor:
        """All losses, (rounds, H, S, C)."""
        return torch.stack(self.losses)

    def of(self, mapper: Mapper, settings: Sequence[int]) -> Trained:
        """What is left of some of the settings."""
        rows, places = torch.tensor(settings), {h: place for place, h in enumerate(settings)}
        return Trained(
            server=mapper.settings(self.server, settings),
            best={rule: value[rows] for rule, value in self.best.items()},
            travelled={way: value[rows] for way, value in self.travelled.items()},
            checkpoints={rule: mapper.settings(kept, settings) for rule, kept in self.checkpoints.items()},
            losses=[each[rows] for each in self.losses],
            curves=[each[:, rows] for each in self.curves],
            traces={name: [each[rows] for each in kept] for name, kept in self.traces.items()},
            diverged={(places[h], s): first for (h, s), first in self.diverged.items() if h in places},
        )


@dataclass
class RunState:
    """The state of runs between two rounds: the last round may be trained and not yet evaluated."""

    clients: Grid  # kind "HSC"
    received: Grid  # kind "HSC"
    trained: Trained
    rounds: int = 0  # trained

    def of(self, mapper: Mapper, settings: Sequence[int]) -> RunState:
        """The state of some of the settings."""
        clients, received = (mapper.settings(grid, settings) for grid in (self.clients, self.received))
        return RunState(clients, received, self.trained.of(mapper, settings), self.rounds)

    def parts(self) -> tuple[Tree, dict[str, Any]]:
        """What :meth:`Rounds.resumed` goes on from: a tree of tensors and a few facts."""
        trained = self.trained
        tree = {"clients": self.clients, "server": trained.server, "best": trained.best}
        tree |= {"travelled": trained.travelled, "checkpoints": trained.checkpoints}
        tree |= {"losses": _stacked(trained.losses), "curves": _stacked(trained.curves)}
        tree |= {"traces": {name: torch.stack(values) for name, values in trained.traces.items()}}
        diverged = [[*place, first] for place, first in trained.diverged.items()]
        return tree, {"rounds": self.rounds, "diverged": diverged}


def _stacked(tensors: Sequence[Tensor]) -> Tensor | dict[str, Tensor]:
    return torch.stack(list(tensors)) if tensors else {}
