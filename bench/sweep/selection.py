"""Which setting of a search goes into the tables: a named rule that sees validation losses and no score."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.types import Chosen

if TYPE_CHECKING:
    from bench.spec import Rule

Record = Mapping[str, Any]


@dataclass(frozen=True)
class SearchResult:
    """All runs of one method: ``records[i][j]`` is setting i with seed j, None where the run is missing.

    ``dropped`` are the settings (by number) whose runs ended before the budget did, at a rung of successive halving.
    """

    method: str
    settings: tuple[Mapping[str, Any], ...]
    seeds: tuple[int, ...]
    records: tuple[tuple[Record | None, ...], ...]
    dropped: frozenset[int] = frozenset()

    def along(self, name: str, setting: Mapping[str, Any]) -> dict[float, tuple[Record | None, ...]]:
        """The runs whose settings equal ``setting`` but for hyper-parameter ``name``, by its value."""
        rest = {**setting, name: None}
        return {
            tried[name]: records
            for tried, records in zip(self.settings, self.records, strict=True)
            if {**tried, name: None} == rest
        }


def best_validation(record: Record | None, rounds: int | None = None) -> float:
    """The lowest aggregated validation loss of all rounds, or of the first ``rounds`` as any longer run has them.

    Infinite for a run that is missing, diverged or has none.
    """
    if record is None or record["status"] == "diverged":
        return math.inf
    losses = record["aggregated"][:rounds]
    if rounds == len(record["aggregated"]) and "untuned" in record:
        losses = [*losses[:-1], record["untuned"]]
    return min((loss for loss in losses if loss is not None), default=math.inf)


RULES: dict[Rule, Callable[[Record | None], float]] = {"best-val": best_validation}


def choose(search: SearchResult, rule: Rule = "best-val") -> Chosen:
    """The setting with the lowest mean over seeds of what ``rule`` measures; the first in grid order wins ties.

    A setting with a missing or diverged run is worse than any without, and one that was dropped is not chosen.
    """
    losses = [
        math.inf if number in search.dropped else fmean(map(RULES[rule], records))
        for number, records in enumerate(search.records)
    ]
    finalists = [number for number in range(len(losses)) if number not in search.dropped]
    best = min(finalists, key=losses.__getitem__)
    return Chosen(
        method=search.method,
        rule=rule,
        hyperparameters=search.settings[best],
        records=search.records[best],
        seeds=search.seeds,
        settings=sum(None not in records for records in search.records),
        loss=losses[best] if math.isfinite(losses[best]) else None,
    )
