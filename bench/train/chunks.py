"""Chunks of a run batch: settings and seeds that are trained together, and the state of their runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.train import evaluate
from bench.train.rounds import Rounds
from bench.train.state import RunState, Trained

Run = tuple[int, int]  # the numbers of a run's setting and seed in the run batch


@dataclass(eq=False)
class Chunk:
    """Some of the settings and seeds, by their numbers, and the state of all their runs."""

    settings: Sequence[int]
    seeds: Sequence[int]
    rounds: Rounds
    state: RunState

    @property
    def runs(self) -> list[Run]:
        """All its runs, in settings-major order."""
        return [(setting, seed) for setting in self.settings for seed in self.seeds]

    def around(self, runs: Sequence[Run], rounds: int) -> Chunk:
        """Return the settings and the seeds that occur in some of its runs, with a budget of ``rounds`` rounds."""
        occurring = {h for h, _ in runs}, {s for _, s in runs}
        rows = [place for place, setting in enumerate(self.settings) if setting in occurring[0]]
        columns = [place for place, seed in enumerate(self.seeds) if seed in occurring[1]]
        run_batch = self.rounds.run_batch.of(rows, columns, rounds)
        mapper = self.rounds.mapper.resized(len(rows), len(columns))
        settings, seeds = [self.settings[place] for place in rows], [self.seeds[place] for place in columns]
        return Chunk(settings, seeds, Rounds(run_batch, mapper), self.state.of(mapper, rows, columns))

    def without_patience(self, trained: Trained, patience: int) -> list[Run]:
        """Return the runs without a lower aggregated validation loss in the last ``patience`` rounds."""
        waited = trained.waited.flatten().tolist()
        return [run for run, rounds in zip(self.runs, waited, strict=True) if rounds >= patience]

    def evaluated(self) -> Trained:
        """Validate the models after the last trained round, and test them if the learning curve has a point there."""
        trained = self.rounds.evaluated(self.state)
        if self.state.rounds not in self.rounds.run_batch.budget.tested:
            return trained
        point = evaluate.curve_point(self.rounds, trained.checkpoints["latest"])
        return dataclasses.replace(trained, curves=[*trained.curves, point])
