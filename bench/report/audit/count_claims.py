"""Claims about counts: parameters, sizes, list lengths, seeds, and numbers printed twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict

from bench.report.audit.claims import ClaimPart, ClaimResult, Printed, every, kind, number_text

NumberSource = str | float  # a path in paper.toml, or the number itself


class Item(BaseModel):
    """One entry of a claim: ``what`` is counted, and where it is ``printed``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    printed: NumberSource


class CountedItem(Item):
    """A number that was ``counted``; ``model`` (name, inputs, outputs, options) names the network, if it is one.

    ``printed`` should be ``times`` the count. Tests check that ``counted`` equals the model's trained parameters (of
    the named ``children``, or of all) and the sizes of the data sets.
    """

    counted: int
    times: int = 1
    model: dict[str, Any] | None = None
    children: tuple[str, ...] = ()


class ChainItem(Item):
    """Linear layers of these widths, one list of widths for each chain of layers."""

    chains: list[list[int]]


class OtherItem(Item):
    """The same number printed ``again``, minus ``less``."""

    again: NumberSource
    less: int = 0


class ListItem(Item):
    """The length of the list at path ``of``."""

    of: str


class SeedsItem(Item):
    """A range of seeds [first, last] at path ``seeds``, whose number is ``printed``."""

    seeds: str


@kind
def counted(printed: Printed, items: list[CountedItem]) -> ClaimResult:
    """Check that the printed numbers equal the counts."""
    parts = [_whole(printed, item, item.times * item.counted) for item in items]
    shares = {printed.number(item.printed) / (item.times * item.counted) for item in items}
    (share,) = shares if len(shares) == 1 else (1.0,)
    return every(parts, f"all are printed {share:g} times as large" if share > 1 and share.is_integer() else "")


@kind
def weights(printed: Printed, items: list[ChainItem]) -> ClaimResult:
    """Check printed numbers of parameters against linear layers of assumed widths, which are not printed.

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
    """Check that the printed numbers are the lengths of printed lists."""
    return every([_whole(printed, item, len(printed.fact(item.of))) for item in items])


@kind
def equal(printed: Printed, items: list[OtherItem]) -> ClaimResult:
    """Check that the numbers printed in two places agree."""
    return every([_pair(printed, item, one == other) for item, one, other in _pairs(printed, items)])


@kind
def greater(printed: Printed, items: list[OtherItem]) -> ClaimResult:
    """Check that the number printed in one place is greater than that in another."""
    return every([_pair(printed, item, one > other) for item, one, other in _pairs(printed, items)])


@kind
def unlike(printed: Printed, items: list[OtherItem]) -> ClaimResult:
    """Check that two measurements are not equal throughout."""
    pairs = list(_pairs(printed, items))
    differ = any(one != other for _, one, other in pairs)
    return every([_pair(printed, item, differ) for item, _, _ in pairs])


def _pairs(printed: Printed, items: list[OtherItem]) -> Iterator[tuple[OtherItem, float, float]]:
    for item in items:
        yield item, printed.number(item.printed), printed.number(item.again) - item.less


def _pair(printed: Printed, item: OtherItem, follows: bool) -> ClaimPart:
    other = printed.number(item.again) - item.less
    return ClaimPart(item.what, number_text(printed.number(item.printed)), number_text(other), follows)


@kind
def largest(printed: Printed, of: str, places: list[int]) -> ClaimResult:
    """Check that the largest entries of the list at path ``of`` are at these places, counted from 0."""
    values = printed.fact(of)
    order = sorted(range(len(values)), key=lambda place: -values[place])[: len(places)]
    told, found = (", ".join(map(str, sorted(each))) for each in (places, order))
    return every([ClaimPart(f"largest of {len(values)}", told, found, told == found)])


@kind
def seeds(printed: Printed, items: list[SeedsItem]) -> ClaimResult:
    """Check that ranges of seeds have as many seeds as there are runs, all with the last seed or all without it."""
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
            number_text(n),
            " or ".join(f"{last - first + more} {name}" for name, more in readings.items()),
            fits,
        )
        for item, (first, last), n, fits in zip(items, ends, told, held[best], strict=True)
    ]
    return every(parts, "" if all(held[best]) else "no one reading of the ranges gives all numbers of runs")


def _whole(printed: Printed, item: Item, count: int) -> ClaimPart:
    told = printed.number(item.printed)
    return ClaimPart(item.what, number_text(told), number_text(count), told == count)
