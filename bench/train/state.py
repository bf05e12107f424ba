"""The state of a run batch between two rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bench.algorithms.base import Tree
from bench.train.mapping.mapper import Grid, Mapper


@dataclass(frozen=True)
class Trained:
    """Results of the rounds so far: server state, losses, checkpoints, and diverged runs."""

    server: Grid  # axes "HS"
    best: dict[str, Tensor]  # rule -> lowest validation losses so far (H, S, C)
    communication: dict[str, Tensor]  # "up", "down" -> floats of all rounds so far, mean over clients (H, S)
    waited: Tensor  # rounds since the lowest aggregated validation loss (H, S)
    checkpoints: dict[str, Grid] = field(default_factory=dict)  # rule -> personal models, axes "HSC"
    losses: list[Tensor] = field(default_factory=list)  # of each round (H, S, C), NaN without validation samples
    curves: list[Tensor] = field(default_factory=list)  # of each tested round (metrics, H, S, clients)
    traces: dict[str, list[Tensor]] = field(default_factory=dict)  # traced quantity -> of each round (H, S, C, ...)
    diverged: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)  # by (setting, seed)
    untuned: Tensor | None = None  # losses (H, S, C) of the last round before a tuning that only this round has

    @property
    def validation(self) -> Tensor:
        """All losses, (rounds, H, S, C)."""
        return torch.stack(self.losses)

    def of(self, mapper: Mapper, settings: Sequence[int], seeds: Sequence[int]) -> Trained:
        """Return the part that belongs to some of the settings and seeds, by position."""
        own = torch.tensor(settings)[:, None], torch.tensor(seeds)  # rows and columns of axes (H, S)
        places = {(h, s): (row, column) for row, h in enumerate(settings) for column, s in enumerate(seeds)}
        return Trained(
            server=mapper.part(self.server, settings, seeds),
            best={rule: value[own] for rule, value in self.best.items()},
            communication={way: value[own] for way, value in self.communication.items()},
            waited=self.waited[own],
            checkpoints={rule: mapper.part(kept, settings, seeds) for rule, kept in self.checkpoints.items()},
            losses=[each[own] for each in self.losses],
            curves=[each[:, *own] for each in self.curves],
            traces={name: [each[own] for each in values] for name, values in self.traces.items()},
            diverged={places[run]: first for run, first in self.diverged.items() if run in places},
        )


@dataclass
class RunState:
    """The state of a run batch between two rounds; the last round may be trained but not yet evaluated."""

    clients: Grid  # axes "HSC"
    received: Grid  # axes "HSC"
    trained: Trained
    rounds: int = 0  # rounds trained so far

    def of(self, mapper: Mapper, settings: Sequence[int], seeds: Sequence[int]) -> RunState:
        """Return the state of some of the settings and seeds, by position."""
        clients, received = (mapper.part(grid, settings, seeds) for grid in (self.clients, self.received))
        return RunState(clients, received, self.trained.of(mapper, settings, seeds), self.rounds)

    def parts(self) -> tuple[Tree, dict[str, Any]]:
        """Return a tree of tensors and metadata (plain containers).

        Training continues from them with :meth:`bench.train.rounds.Rounds.resumed`.
        """
        trained = self.trained
        tree = {"clients": self.clients, "server": trained.server, "best": trained.best}
        tree |= {"waited": trained.waited, "communication": trained.communication, "checkpoints": trained.checkpoints}
        tree |= {"losses": _stacked(trained.losses), "curves": _stacked(trained.curves)}
        tree |= {"traces": {name: torch.stack(values) for name, values in trained.traces.items()}}
        diverged = [[*index, first] for index, first in trained.diverged.items()]
        return tree, {"rounds": self.rounds, "diverged": diverged}


def _stacked(tensors: Sequence[Tensor]) -> Tensor | dict[str, Tensor]:
    return torch.stack(list(tensors)) if tensors else {}
