"""Validation losses, and what follows from them: checkpoints and diverged runs.

The checkpoint rules keep a client's personal model of the last round (latest), of the round with the lowest aggregated
validation loss (global), and of the round with the client's own lowest loss (local). Of rounds with equal losses the
later one is kept. The order of steps is that of FENDA-FL, section 3.3.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from bench.train.batching import schedule
from bench.train.batching.ragged import Ragged
from bench.train.hooks import SiteHooks
from bench.train.mapping.mapper import Grid, Hook, WeightedRows
from bench.train.state import Trained

EVALUATED = 256  # samples at a time; all 32,293 test samples of a Covertype client at once took three times as long


class Validation:
    """Validates the personal models of a run batch; ``enabled`` is False where no client has validation samples."""

    def __init__(self, hooks: SiteHooks) -> None:
        self.hooks, self.run_batch, self.mapper = hooks, hooks.run_batch, hooks.mapper
        held_out = self.run_batch.data.counts[1].to(torch.float32)
        self.enabled = bool(held_out.sum() > 0)
        self.weights = held_out / held_out.sum(1, keepdim=True)  # (S, C)

    @cached_property
    def rows(self) -> WeightedRows:
        """Validation rows and their weights in the mean over mini-batches."""
        data = self.run_batch.data
        rows, size = data.splits[1], schedule.cut(self.run_batch.budget, data.counts[0]).size
        return WeightedRows(
            rows, Ragged(schedule.mean_over_batches(rows.lengths.flatten(), size.flatten()), rows.lengths)
        )

    @property
    def batch_size(self) -> int:
        """Number of samples that the loop evaluates at a time: the size of a mini-batch if the budget gives one."""
        budget = self.run_batch.budget
        return EVALUATED if budget.batch_size == "full" or budget.batches is not None else budget.batch_size

    def losses(self, personal: Grid) -> Tensor:
        """Return validation losses (H, S, C): unweighted means over mini-batches of their mean loss."""
        if not self.enabled:
            return torch.full([self.run_batch.sizes[axis] for axis in "HSC"], torch.nan)

        def of_client(c: int) -> Hook:
            predict = self.hooks.predict(c)

            def hook(*arguments: Any) -> Tensor:
                *personal, x, y, weight = arguments
                return (self.run_batch.criterion(predict(*personal, x), y) * weight).sum()

            return hook

        axes, grids = [*self.hooks.context_axes, "HSC"], (*self.hooks.context, personal)
        return self.mapper.loss(of_client, axes, grids, self.run_batch, self.rows, self.batch_size)

    def aggregated(self, loss: Tensor) -> Tensor:
        """Return the mean of the clients' losses (..., C), weighted by their numbers of validation samples."""
        if not self.enabled:
            return torch.full(loss.shape[:-1], torch.nan)
        mean = torch.where(self.weights > 0, loss * self.weights, 0.0).sum(-1)
        return torch.where((self.weights > 0).any(-1), mean, torch.nan)

    def recorded(self, loss: Tensor) -> Tensor:
        """Return the losses (H, S, C) with NaN for clients without validation samples."""
        return torch.where(self.weights > 0, loss, torch.nan)

    def checkpoints(self, trained: Trained, personal: Grid, loss: Tensor) -> tuple[dict[str, Tensor], dict[str, Grid]]:
        """Return the lowest losses so far, and the personal models of the rounds that had them."""
        best, checkpoints = dict(trained.best), {"latest": personal}
        if not self.enabled:
            return best, checkpoints
        for rule, value in (("global", self.aggregated(loss)[..., None].expand_as(loss)), ("local", loss)):
            better = value <= best[rule]
            best[rule] = torch.where(better, value, best[rule])
            kept = trained.checkpoints.get(rule)
            checkpoints[rule] = personal if kept is None else self.mapper.where(better, personal, kept)
        return best, checkpoints

    def diverged(self, round_: int, personal: Grid, loss: Tensor) -> dict[tuple[int, int], dict[str, Any]]:
        """Return, by (setting, seed), the first number of this round that is not finite."""
        finite = self.mapper.finite(personal)
        bad = ~finite
        if self.enabled:
            bad = bad | ~torch.isfinite(loss)
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for h, s, c in torch.nonzero(bad).tolist():
            what = "a weight is not finite" if not finite[h, s, c] else f"validation loss is {loss[h, s, c].item()}"
            found.setdefault((h, s), {"round": round_, "client": c, "what": what})
        return found
