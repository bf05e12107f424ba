"""Claims about counted quantities: sums, sizes, parameters and settings. See :mod:`bench.report.audit.claims`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict

from bench.report import statistics
from bench.report.audit.claims import SLACK, ClaimPart, ClaimResult, Printed, Where, every, kind, label, near
from bench.types import SpecError

Source = str | float  # a path in paper.toml, or the number itself


class Item(BaseModel):
    """One line of a claim: ``what`` is counted, and where it is ``printed``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    printed: Source


class CountedItem(Item):
    """``counted`` by running what is counted; a ``model`` (name, inputs, outputs, options) says which network.

    ``printed`` is expected to be so many ``times`` the count. Tests hold ``counted`` equal to the model's parameters
    (of the ``children`` named, else of all; only those that are trained) and to the sizes of the data sets.
    """

    counted: int
    times: int = 1
    model: dict[str, Any] | None = None
    children: tuple[str, ...] = ()


class ChainItem(Item):
    """Linear layers of these widths, one list of widths for each chain of layers."""

    chains: list[list[int]]


class OtherItem(Item):
    """``printed`` once more: ``again``, or ``less`` than that."""

    again: Source
    less: int = 0


class ListItem(Item):
    """The length of the list at path ``of``."""

    of: str


class RatioItem(Item):
    """``over`` divided by the sum of all ``under``."""

    over: Source
    under: list[Source]


class SeedsItem(Item):
    """A range of seeds [first, last] at path ``seeds``; ``printed`` says how many they are."""

    seeds: str


@kind
def counted(printed: Printed, items: list[CountedItem]) -> ClaimResult:
    """The printed numbers are what counting gives."""
    parts = [_whole(printed, item, item.times * item.counted) for item in items]
    shares = {printed.number(item.printed) / (item.times * item.counted) for item in items}
    (share,) = shares if len(shares) == 1 else (1.0,)
    return every(parts, f"all are printed {share:g} times as large" if share > 1 and share.is_integer() else "")


@kind
def weights(printed: Printed, items: list[ChainItem]) -> ClaimResult:
    """The printed numbers of parameters are those of linear layers of widths that are not printed, but assumed.

    Other widths may fit, so numbers that do not follow from these cannot be checked.
    """
    parts, without = [], 0
    for item in items:
        layers = [layer for chain in item.chains for layer in pairwise(chain)]
        count = sum(entering * leaving for entering, leaving in layers)
        without += count == printed.number(item.printed)
        parts.append(_whole(printed, item, count + sum(leaving for _, leaving in layers)))
    fits = all(part.follows for part in parts)
    why = f"widths are assumed; with their biases left out {without} of {len(parts)} are as printed"
    return ClaimResult(tuple(parts), True if fits else None, why)


@kind
def length(printed: Printed, items: list[ListItem]) -> ClaimResult:
    """The printed numbers are the lengths of printed lists."""
    return every([_whole(printed, item, len(printed.fact(item.of))) for item in items])


@kind
def equal(printed: Printed, items: list[OtherItem]) -> ClaimResult:
    """The numbers printed in two places agree."""
    return every([_pair(printed, item, one == other) for item, one, other in _pairs(printed, items)])


@kind
def greater(printed: Printed, items: list[OtherItem]) -> ClaimResult:
    """The number printed in one place is greater than that in another."""
    return every([_pair(printed, item, one > other) for item, one, other in _pairs(printed, items)])


@kind
def unlike(printed: Printed, items: list[OtherItem]) -> ClaimResult:
    """What was measured twice is not the same throughout."""
    pairs = list(_pairs(printed, items))
    differ = any(one != other for _, one, other in pairs)
    return every([_pair(printed, item, differ) for item, _, _ in pairs])


def _pairs(printed: Printed, items: list[OtherItem]) -> Iterator[tuple[OtherItem, float, float]]:
    for item in items:
        yield item, printed.number(item.printed), printed.number(item.again) - item.less


def _pair(printed: Printed, item: OtherItem, follows: bool) -> ClaimPart:
    other = printed.number(item.again) - item.less
    return ClaimPart(item.what, _number(printed.number(item.printed)), _number(other), follows)


@kind
def largest(printed: Printed, of: str, places: list[int]) -> ClaimResult:
    """The largest entries of the list at path ``of`` stand at these places, counted from 0."""
    values = printed.fact(of)
    order = sorted(range(len(values)), key=lambda place: -values[place])[: len(places)]
    told, found = (", ".join(map(str, sorted(each))) for each in (places, order))
    return every([ClaimPart(f"largest of {len(values)}", told, found, told == found)])


@kind
def ratio(printed: Printed, items: list[RatioItem]) -> ClaimResult:
    """The printed shares are those of the printed sizes."""
    parts = []
    for item in items:
        told = printed.number(item.printed)
        share = printed.number(item.over) / sum(printed.number(under) for under in item.under)
        # A share printed as 0.3 is one of 30 %, so its unit is a hundredth.
        parts.append(ClaimPart(item.what, f"{told:.2f}", f"{share:.3f}", near(share, told, 0.005)))
    return every(parts)


@kind
def seeds(printed: Printed, items: list[SeedsItem]) -> ClaimResult:
    """Ranges of seeds are as many as there are runs, all with the last seed or all without it."""
    ends = [printed.fact(item.seeds) for item in items]
    told = [printed.number(item.printed) for item in items]
    readings = {"with the last": 1, "without it": 0}
    held = {
        name: [last - first + more == n for (first, last), n in zip(ends, told, strict=True)]
        for name, more in readings.items()
    }
    best = max(held, key=lambda name: sum(held[name]))
    parts = [
        ClaimPart(
            f"{item.what}, seeds {first} to {last}",
            _number(n),
            " or ".join(f"{last - first + more} {name}" for name, more in readings.items()),
            fits,
        )
        for item, (first, last), n, fits in zip(items, ends, told, held[best], strict=True)
    ]
    return every(parts, "" if all(held[best]) else "no one reading of the ranges gives all numbers of runs")


@kind
def total(printed: Printed, rows: str, of: list[str], equals: str) -> ClaimResult:
    """In every row below path ``rows`` the numbers ``of`` add up to the one under ``equals``."""
    parts = []
    for name, row in printed.fact(rows).items():
        added = sum(row[key] for key in of)
        parts.append(ClaimPart(name, _number(row[equals]), _number(added), added == row[equals]))
    return every(parts)


@kind
def column_total(printed: Printed, rows: str, of: list[str], equals: str) -> ClaimResult:
    """Below path ``rows`` the numbers under each key ``of`` add up to that of the entry ``equals``."""
    entries = dict(printed.fact(rows))
    totals = entries.pop(equals)
    parts = []
    for key in of:
        added = sum(row[key] for row in entries.values())
        parts.append(ClaimPart(key, _number(totals[key]), _number(added), added == totals[key]))
    return every(parts)


@kind
def adds_up(printed: Printed, of: list[str], equals: Source) -> ClaimResult:
    """The numbers in the lists at the paths ``of`` add up to ``equals``."""
    added, told = sum(sum(printed.fact(path)) for path in of), printed.number(equals)
    return every([ClaimPart("sum", _number(told), _number(added), added == told)])


@kind
def disjoint(printed: Printed, lists: list[str]) -> ClaimResult:
    """No two of the lists at these paths have an entry in common."""
    parts = []
    for one, other in combinations(lists, 2):
        shared = [entry for entry in printed.fact(one) if entry in printed.fact(other)]
        what = f"{one.rpartition('.')[2]} and {other.rpartition('.')[2]}"
        parts.append(ClaimPart(what, "nothing shared", ", ".join(map(str, shared)) or "nothing shared", not shared))
    return every(parts)


@kind
def on_grid(
    printed: Printed,
    chosen: str,
    grid: str,
    each: bool = False,
    factors: dict[str, float] | None = None,
) -> ClaimResult:
    """Every chosen value is one of those that were tried.

    Below ``chosen`` stand {case: {key: value}}, below ``grid`` {key: values}, or {case: values} if the grid is that of
    ``each`` case. Grids of keys among ``factors`` are multiplied.
    """
    tried = printed.fact(grid)
    parts = []
    for case, values in printed.fact(chosen).items():
        for key, value in values.items():
            options = tried[case if each else key]
            factor = (factors or {}).get(key)
            options = options if factor is None else [option * factor for option in options]
            follows = any(_alike(value, option) for option in options)
            parts.append(ClaimPart(f"{case}, {key}", _number(value), "of " + ", ".join(map(_number, options)), follows))
    return every(parts, f"{sum(part.follows for part in parts)} of {len(parts)} chosen values were tried")


@kind
def on_decades(printed: Printed, tuned: str) -> ClaimResult:
    """Every best value is one of its range, which goes in steps of a factor of ten.

    Below ``tuned`` stand {case: {method: {key: {range = [first, last], best = value or values}}}}.
    """
    parts = []
    for case, methods in printed.fact(tuned).items():
        for method, entries in methods.items():
            for key, entry in entries.items():
                best = entry["best"] if isinstance(entry["best"], list) else [entry["best"]]
                largest, smallest = sorted(entry["range"], reverse=True)
                tried = [largest / 10**step for step in range(round(math.log10(largest / smallest)) + 1)]
                follows = all(any(_alike(value, option) for option in tried) for value in best)
                text = ", ".join(map(_number, dict.fromkeys(best)))
                parts.append(
                    ClaimPart(f"{case}, {method}, {key}", text, "of " + ", ".join(map(_number, tried)), follows)
                )
    return every(parts)


def _alike(value: Any, option: Any) -> bool:
    if isinstance(value, str) or isinstance(option, str):
        return bool(value == option)
    return math.isclose(value, option, rel_tol=SLACK)


@kind
def power(printed: Printed, base: float, exponent: float, value: Source) -> ClaimResult:
    """``base`` to the power of ``exponent`` is the printed number."""
    told, found = printed.number(value), base**exponent
    return every([ClaimPart(f"{base:g}^{exponent:g}", f"{told:g}", f"{found:.5g}", near(found, told))])


@kind
def multiples(printed: Printed, cells: Where, clients: dict[str, Source]) -> ClaimResult:
    """Shares of clients are whole clients: multiples of one over the number of ``clients`` of each data set."""
    parts = []
    for dataset, source in clients.items():
        own = [cell for cell in printed.select(cells) if cell.dataset == dataset]
        told = int(printed.number(source))
        fits = [n for n in range(1, 101) if all(near(round(cell.value * n) / n, cell.value, cell.unit) for cell in own)]
        found = told if told in fits else min(fits, default=0)
        parts.append(ClaimPart(f"clients of {dataset}", str(told), f"the shares are of {found}", told in fits))
    return every(parts)


@kind
def loss_floor(printed: Printed, losses: Where, accuracies: Where, unit: Source) -> ClaimResult:
    """Mean cross-entropies are as large as the share of mistakes asks: a mistake costs at least ln 2.

    The losses are printed in units of ``unit``. Cells of both tables belong together by data set and method.
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
    """One threshold parts the steps ``before`` from those ``at`` the transition of every case.

    Below ``steps`` stand {case: {before = [least, most], at = [least, most]}}, what clients show; a case is taken to
    allow every threshold from the least step before to the most at its transition.
    """
    cases = printed.fact(steps)
    ranges = {case: (entry["before"][0], entry["at"][1]) for case, entry in cases.items()}
    low_case, high_case = max(ranges, key=lambda case: ranges[case][0]), min(ranges, key=lambda case: ranges[case][1])
    low, high = ranges[low_case][0], ranges[high_case][1]
    text = f"at least {low:g} ({low_case}) and below {high:g} ({high_case})"
    return every([ClaimPart("one threshold for all", "exists", text, low < high)])


@kind
def distinct_runs(printed: Printed, cells: Where, test: str, runs: int) -> ClaimResult:
    """Runs that differ do not have a radius of 0: one test sample more or less right in one of them shows.

    ``test`` is the path of the clients' test sizes. The sample is one of the largest client's, whose weight is least.
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
    """FedAdam on one number, whose clients always answer ``update``, ends at the printed value.

    Below path ``of`` stand start, update, server_lr, beta1, beta2, tau, rounds and printed.
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


def _whole(printed: Printed, item: Item, count: int) -> ClaimPart:
    told = printed.number(item.printed)
    return ClaimPart(item.what, _number(told), _number(count), told == count)


def _number(value: Any) -> str:
    """A number as one reads it: whole ones with thousands apart, others short."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"{value!r} in paper.toml: expected a number")
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1 else f"{value:g}"
