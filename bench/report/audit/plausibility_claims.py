"""Claims that printed results are possible: shares of clients, losses, thresholds, radii, and a small simulation."""

from __future__ import annotations

import math

from bench.report import statistics
from bench.report.audit.claims import ClaimPart, ClaimResult, Printed, Where, every, kind, label, near
from bench.report.audit.count_claims import NumberSource


@kind
def multiples(printed: Printed, cells: Where, clients: dict[str, NumberSource]) -> ClaimResult:
    """Check that shares of clients are multiples of one over the number of ``clients`` of each data set."""
    parts = []
    for dataset, source in clients.items():
        own = [cell for cell in printed.select(cells) if cell.dataset == dataset]
        told = int(printed.number(source))
        fits = [n for n in range(1, 101) if all(near(round(cell.value * n) / n, cell.value, cell.unit) for cell in own)]
        found = told if told in fits else min(fits, default=0)
        parts.append(ClaimPart(f"clients of {dataset}", str(told), f"the shares are of {found}", told in fits))
    return every(parts)


@kind
def loss_floor(printed: Printed, losses: Where, accuracies: Where, unit: NumberSource) -> ClaimResult:
    """Check that mean cross-entropies are large enough for the share of mistakes: each costs at least ln 2.

    The losses are printed in units of ``unit``. Cells of both tables are matched by data set and method.
    """
    right = {(cell.dataset, cell.method): cell.value for cell in printed.select(accuracies)}
    scale = printed.number(unit)
    parts, least = [], 0.0
    for cell in printed.select(losses):
        floor = (1 - right[cell.dataset, cell.method]) * math.log(2)
        least = max(least, floor / cell.value)
        loss = cell.value * scale
        what = label(cell, ("method", "dataset"))
        parts.append(ClaimPart(what, f"{loss:.4f}", f"at least {floor:.4f}", loss >= floor))
    return every(parts, f"the unit must be at least {least:.1e}")


@kind
def threshold(printed: Printed, steps: str) -> ClaimResult:
    """Check that one threshold separates the steps ``before`` from those ``at`` the transition in every case.

    ``steps`` is the path of {case: {before = [least, most], at = [least, most]}} over clients. A case allows every
    threshold from the least step before to the most at its transition.
    """
    cases = printed.fact(steps)
    ranges = {case: (entry["before"][0], entry["at"][1]) for case, entry in cases.items()}
    low_case, high_case = max(ranges, key=lambda case: ranges[case][0]), min(ranges, key=lambda case: ranges[case][1])
    low, high = ranges[low_case][0], ranges[high_case][1]
    text = f"at least {low:g} ({low_case}) and below {high:g} ({high_case})"
    return every([ClaimPart("one threshold for all", "exists", text, low < high)])


@kind
def distinct_runs(printed: Printed, cells: Where, test: str, runs: int) -> ClaimResult:
    """Check that radii are not 0, because one more correct test sample in one of the ``runs`` would be visible.

    ``test`` is the path of the clients' test sizes. The sample is one of the largest client, where it weighs least.
    """
    sizes = printed.fact(test)
    step = 1 / (len(sizes) * max(sizes))
    alike_but_one = [0.0] * (runs - 1) + [step]
    radius = statistics.t_radius(alike_but_one) or 0.0
    parts = []
    for cell in printed.select(cells):
        told, least = cell.shown(cell.get("ci95")), cell.shown(radius)
        follows = cell.get("ci95") > 0 or float(least) == 0
        parts.append(ClaimPart(label(cell, ("method", "checkpoint")), f"± {told}", f"± {least} or more", follows))
    without = sum(not part.follows for part in parts)
    return every(parts, f"{without} of {len(parts)} radii are 0" if without else "")


@kind
def fedadam(printed: Printed, of: str) -> ClaimResult:
    """Check that FedAdam on one number, whose clients always return ``update``, ends at the printed value.

    ``of`` is the path of start, update, server_lr, beta1, beta2, tau, rounds and printed.
    """
    case = printed.fact(of)
    x, m, v = case["start"], 0.0, 0.0
    for _ in range(case["rounds"]):
        delta = case["update"] - x
        m = case["beta1"] * m + (1 - case["beta1"]) * delta
        v = case["beta2"] * v + (1 - case["beta2"]) * delta**2
        x += case["server_lr"] * m / math.sqrt(v + case["tau"])
    return every(
        [ClaimPart(f"after {case['rounds']} rounds", f"{case['printed']:g}", f"{x:.4f}", near(x, case["printed"]))]
    )
