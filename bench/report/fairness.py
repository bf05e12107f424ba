"""Fairness over clients: medians per client, their variance, and the share of clients that gain by federation.

Higher scores are better: negate losses first. A client on which the metric is undefined is left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, pvariance

from bench.report.statistics import defined
from bench.types import SilobenchError

Scores = Sequence[float | None]


@dataclass(frozen=True)
class OverClients:
    """A number over ``clients`` clients; ``left_out`` counts those without a defined score."""

    value: float
    clients: int
    left_out: int


def medians(runs: Sequence[Scores | None]) -> list[float | None]:
    """Return each client's median over ``runs`` (runs, clients) of its defined scores; None without any.

    These are the scores behind PLayer-FL's tables of fairness and participation. Raise :class:`SilobenchError` when
    a run is missing (None), or holds other clients than the rest.
    """
    found = [run for run in runs if run is not None]
    if not found or len(found) < len(runs):
        raise SilobenchError(
            f"medians over runs need every run, {len(runs) - len(found)} of {len(runs)} are missing; run them first"
        )
    if len({len(run) for run in found}) > 1:
        raise SilobenchError(f"medians over runs need the same clients in each, found {[len(run) for run in found]}")
    by_client = [defined(scores) for scores in zip(*found, strict=True)]
    return [median(scores) if scores else None for scores in by_client]


def variance(scores: Scores) -> OverClients:
    """Return the variance of the clients' scores, with the number of clients in the denominator; lower is fairer.

    Source: PLayer-FL, equation A.5. Raise :class:`SilobenchError` for fewer than two clients with a score.
    """
    kept = defined(scores)
    if len(kept) < 2:
        raise SilobenchError(f"the variance over clients needs two with a score, {len(kept)} of {len(scores)} have one")
    return OverClients(pvariance(kept), len(kept), len(scores) - len(kept))


def participation(scores: Scores, local: Scores, fedavg: Scores) -> OverClients:
    """Return the share of clients, 0 to 1, with strictly better scores than by training alone *and* than with FedAvg.

    The three are scores of the same clients in the same order; a client must have all three. Source: PLayer-FL,
    equation A.6 (its tables print per cent of clients' medians over runs, see :func:`medians`). Raises
    :class:`SilobenchError` for other numbers of clients and when no client has all three.
    """
    if not len(scores) == len(local) == len(fedavg):
        raise SilobenchError(
            f"a participation rate needs scores of the same clients, found {len(scores)} of the method, "
            f"{len(local)} of local training and {len(fedavg)} of FedAvg"
        )
    gains = [
        score > max(alone, together)
        for score, alone, together in zip(scores, local, fedavg, strict=True)
        if score is not None and alone is not None and together is not None
    ]
    if not gains:
        raise SilobenchError("a participation rate needs a client with all three scores defined, and there is none")
    return OverClients(sum(gains) / len(gains), len(gains), len(scores) - len(gains))
