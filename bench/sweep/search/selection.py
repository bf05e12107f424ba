"""Selection of the setting that the tables show, by a named rule that uses validation losses and no test scores."""

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
    """All runs of one method: ``records[i][j]`` is the record of setting i with seed j, None if the run is missing.

    ``dropped`` has the indices of the settings that successive halving dropped before the end of the budget.
    """

    method: str
    settings: tuple[Mapping[str, Any], ...]
    seeds: tuple[int, ...]
    records: tuple[tuple[Record | None, ...], ...]
    dropped: frozenset[int] = frozenset()

    @property
    def missing(self) -> bool:
        """Whether a run is missing."""
        return any(record is None for records in self.records for record in records)

    def along(self, name: str, setting: Mapping[str, Any]) -> dict[float, tuple[Record | None, ...]]:
        """Return the runs whose settings equal ``setting`` except for hyper-parameter ``name``, by its value."""
        rest = {**setting, name: None}
        return {
            tried[name]: records
            for tried, records in zip(self.settings, self.records, strict=True)
            if {**tried, name: None} == rest
        }


def best_validation(record: Record | None, rounds: int | None = None) -> float:
    """Return the lowest aggregated validation loss of all rounds, or of the first ``rounds``.

    Return infinity for a run that is missing, diverged or has no validation loss. If the run tuned its models after
    its last round, and that round is among the first ``rounds``, its loss before tuning counts, as in a longer run.
    """
    if record is None or record["status"] == "diverged":
        return math.inf
    losses = record["aggregated"][:rounds]
    if rounds == len(record["aggregated"]) and "untuned" in record:
        losses = [*losses[:-1], record["untuned"]]
    return min((loss for loss in losses if loss is not None), default=math.inf)


RULES: dict[Rule, Callable[[Record | None], float]] = {"best-val": best_validation}


def choose(search: SearchResult, rule: Rule = "best-val") -> Chosen:
    """Choose the setting with the lowest value of ``rule``, averaged over seeds; the first in grid order wins ties.

    A setting with a missing or diverged run is worse than any setting without; dropped settings are not chosen.
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
