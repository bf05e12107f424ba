"""Learning curves: test scores of the clients after several rounds of a run, and rules that select a round.

A curve is the ``curves`` of a run's record, ``{"rounds": [r, ...], "scores": {metric: [[one value per client] per
tested round]}}``: clients' own models after ``r`` rounds of training, so the first possible one is 1. Higher scores
are better. A client on which the metric is undefined after any tested round is left out of all of them, so that rounds
are compared over the same clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import statistics
from bench.types import SilobenchError, SpecError, nearest

Curve = Mapping[str, Any]
ORACLE, VALIDATED = "best-test (oracle)", "best-val"


@dataclass(frozen=True)
class BestRound:
    """The round that ``rule`` selects, the mean over clients, and the ``scores`` by client (None: left out).

    A rule named "(oracle)" uses test samples.
    """

    rule: str
    round: int
    mean: float
    scores: tuple[float | None, ...]

    @property
    def left_out(self) -> int:
        """Return the number of clients on which the metric is undefined."""
        return self.scores.count(None)


def means(curve: Curve, metric: str, sizes: Sequence[int] | None = None) -> list[float]:
    """Return the mean over clients after each tested round, weighted by ``sizes`` if given.

    With test sizes it is the score of all clients' test samples pooled, as APPLE's Figures 2 and 7 draw accuracy;
    its tables count clients the same.
    """
    return [_mean(scores, sizes) for scores in _common(curve, metric)]


def bmcta(curve: Curve, metric: str = "accuracy") -> BestRound:
    """Return the best mean client test accuracy (APPLE, section 4): the highest mean over clients of a tested round.

    An oracle: test samples select the round, so the number is optimistic. The first of equally good rounds counts.
    :func:`validated` selects the round without test samples.
    """
    scores = _common(curve, metric)
    over_rounds = [_mean(each) for each in scores]
    place = over_rounds.index(max(over_rounds))
    return BestRound(ORACLE, curve["rounds"][place], over_rounds[place], tuple(scores[place]))


def validated(curve: Curve, losses: Sequence[float | None], metric: str = "accuracy") -> BestRound:
    """Return the scores of the tested round with the lowest aggregated validation loss, see :func:`bmcta`.

    ``losses`` are the ``aggregated`` ones of the record, of every round. The first of equally good rounds counts.
    Raise :class:`SilobenchError` when a tested round has no entry in ``losses``, and when none has a loss.
    """
    scores = _common(curve, metric)
    beyond = [round_ for round_ in curve["rounds"] if not 1 <= round_ <= len(losses)]
    if beyond:
        raise SilobenchError(
            f"curve: tested after round {beyond[0]}, but there are losses of rounds 1 to {len(losses)}"
        )
    after = [losses[round_ - 1] for round_ in curve["rounds"]]
    tested = [math.inf if loss is None else loss for loss in after]
    if math.inf == min(tested, default=math.inf):
        raise SilobenchError(
            "curve: no tested round has a validation loss; hold out validation samples to pick a round"
        )
    place = tested.index(min(tested))
    return BestRound(VALIDATED, curve["rounds"][place], _mean(scores[place]), tuple(scores[place]))


def _common(curve: Curve, metric: str) -> list[list[float | None]]:
    """Return the scores (rounds, clients); a client with an undefined score is undefined in all rounds."""
    if not curve:
        raise SilobenchError("curve: this run was not tested along the way; set test_every in its budget")
    if metric not in curve["scores"]:
        raise SpecError(f"curve: no {metric!r} was tested: {nearest(metric, curve['scores'])}")
    rows = curve["scores"][metric]
    if not rows or len(rows) != len(curve["rounds"]) or len({len(row) for row in rows}) > 1:
        raise SilobenchError(
            f"curve: expected a row of {metric} for each of {len(curve['rounds'])} rounds, with the same clients in "
            f"each; found rows of {[len(row) for row in rows]}"
        )
    kept = [None not in column for column in zip(*rows, strict=True)]
    if not any(kept):
        raise SilobenchError(f"curve: {metric} is undefined on every client after some tested round")
    return [[value if keep else None for value, keep in zip(row, kept, strict=True)] for row in rows]


def _mean(scores: Sequence[float | None], sizes: Sequence[int] | None = None) -> float:
    kept = statistics.defined(scores)
    if sizes is None:
        return statistics.mean(kept)
    weights = [size for size, score in zip(sizes, scores, strict=True) if score is not None]
    return statistics.mean(kept, weights)
