"""Claims about ranks: mean ranks, Friedman's and Nemenyi's tests, and the best method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from bench.report import ranks
from bench.report.audit.claims import SLACK, ClaimPart, ClaimResult, Printed, Where, every, half_unit, kind, near, words
from bench.types import SpecError

MEAN_RANK = "mean_rank"  # the data set that a table's printed mean ranks are filed under


@dataclass(frozen=True, eq=False)
class Columns:
    """A table's ``values`` (data sets, methods), the higher the better, and its ``printed`` mean ranks (methods,)."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    values: NDArray[np.float64]
    printed: NDArray[np.float64]


def _columns(printed: Printed, where: Where, lower: bool) -> Columns:
    cells = printed.select(where)
    told = {cell.method: cell.value for cell in cells if cell.dataset == MEAN_RANK}
    found = {(cell.dataset, cell.method): cell.value for cell in cells if cell.dataset != MEAN_RANK}
    datasets, methods = (tuple(dict.fromkeys(key[part] for key in found)) for part in (0, 1))
    for dataset, method in product(datasets, methods):
        if (dataset, method) not in found:
            raise SpecError(f"nothing is printed of {method} on {dataset} in {words(where)}; ranks need every value")
    values = np.array([[found[dataset, method] for method in methods] for dataset in datasets])
    ranks_told = np.array([told.get(method, np.nan) for method in methods])
    return Columns(datasets, methods, -values if lower else values, ranks_told)


class Misprint(NamedTuple):
    """A printed value and its replacement that explains more of the table."""

    dataset: int
    method: int
    value: float
    fits: int


@kind
def mean_rank(
    printed: Printed,
    cells: Where,
    lower: bool = False,
    exact: bool = False,
    misprint: Literal["power of ten", "other value"] | None = None,
) -> ClaimResult:
    """Check that the printed mean ranks are those of the printed values, ties sharing their mean rank.

    ``lower`` says that lower values are better. Equal printed values may have differed before rounding, so a rank that
    follows from some order among them is accepted too, unless the printed values are ``exact``. With ``misprint``,
    search for the single changed value that explains most ranks: a wrong power of ten that moved a value away from the
    middle of its column, or another value of the column.
    """
    table = _columns(printed, cells, lower)
    least, average, most = _bounds(table.values)
    fits = _fits(table.values, table.printed, exact)
    parts = [
        ClaimPart(
            method,
            f"{told:.1f}",
            f"{mean:.2f}" + ("" if exact or low == high else f" ({low:.2f} to {high:.2f} by rounding)"),
            bool(fit),
        )
        for method, told, mean, low, high, fit in zip(
            table.methods, table.printed, average, least, most, fits, strict=True
        )
    ]
    why = f"{fits.sum()} of {len(fits)} follow"
    if misprint and not fits.all() and (found := _misprint(table, exact, misprint)):
        value = -found.value if lower else found.value
        why += (
            f"; {found.fits} would if {table.methods[found.method]} on {table.datasets[found.dataset]} had {value:.2g} "
            f"for {abs(table.values[found.dataset, found.method]):.2g}"
        )
    return every(parts, why)


def _bounds(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean ranks (k,) with ties broken in favour of each method, with shared ranks, and against it."""
    higher = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    alike = (values[:, None, :] == values[:, :, None]).sum(axis=2) - 1
    least, most = (1 + higher).mean(axis=0), (1 + higher + alike).mean(axis=0)
    return least, (least + most) / 2, most


def _fits(values: NDArray[np.float64], told: NDArray[np.float64], exact: bool) -> NDArray[np.bool_]:
    """Return which mean ranks ``told`` (k,), printed with one digit, follow from ``values`` (datasets, k)."""
    least, average, most = _bounds(values)
    unit = half_unit(0.1) + SLACK
    if exact:
        return np.abs(average - told) <= unit
    return (told >= least - unit) & (told <= most + unit)


def _misprint(table: Columns, exact: bool, misprint: str) -> Misprint | None:
    """Return the changed value with which most ranks fit; None if none explains more, or if several are equal."""
    current = int(_fits(table.values, table.printed, exact).sum())
    found = []
    for dataset, method, value in _others(table.values, misprint):
        changed = table.values.copy()
        changed[dataset, method] = value
        found.append(Misprint(dataset, method, value, int(_fits(changed, table.printed, exact).sum())))
    best = max((one.fits for one in found), default=0)
    explaining = [one for one in found if one.fits == best]
    return explaining[0] if best > current and len(explaining) == 1 else None


def _others(values: NDArray[np.float64], misprint: str) -> Iterator[tuple[int, int, float]]:
    for (dataset, method), value in np.ndenumerate(values):
        column = values[dataset]
        if misprint == "other value":
            yield from ((dataset, method, float(other)) for other in np.unique(column) if other != value)
            continue
        if not column.all():
            continue  # no power of ten is near 0
        middle = np.median(np.log10(np.abs(column)))
        for factor in (0.1, 10.0):
            if abs(np.log10(abs(value * factor)) - middle) < abs(np.log10(abs(value)) - middle):
                yield dataset, method, float(value * factor)


@kind
def friedman(printed: Printed, cells: Where, p: str, lower: bool = False) -> ClaimResult:
    """Check that Friedman's test over data sets has the p-value at path ``p`` of paper.toml ("< 0.005" or "0.043").

    The remark gives other candidates: Iman and Davenport's correction, the test on the printed mean ranks, and the test
    with data sets in the place of methods.
    """
    table = _columns(printed, cells, lower)
    told = str(printed.fact(p))
    proper = ranks.rank(table.methods, table.values)
    _, turned = ranks.friedman_as_published(table.methods, table.values)
    part = ClaimPart("p, methods compared over data sets", told, f"{proper.p:.3g}", _is(proper.p, told))
    from_ranks = ""
    if np.isfinite(table.printed).all():
        k, n = len(table.methods), len(table.datasets)
        chi2 = 12 * n / (k * (k + 1)) * ((table.printed**2).sum() - k * (k + 1) ** 2 / 4)
        from_ranks = f"of the printed mean ranks {scipy.stats.chi2.sf(chi2, k - 1):.3g}, "
    fits = "as printed" if _is(turned, told) else "not as printed either"
    return every(
        [part], f"Iman-Davenport {proper.f_p:.3g}, {from_ranks}data sets taken for methods {turned:.3g} ({fits})"
    )


def _is(p: float, told: str) -> bool:
    bound = told.removeprefix("<").strip()
    try:
        value = float(bound)
    except ValueError:
        raise SpecError(f'{told!r} in paper.toml: expected a p-value such as "0.043" or "< 0.005"') from None
    return p < value if bound != told else near(p, value)


@kind
def leads(printed: Printed, cells: Where, method: str, lower: bool = False) -> ClaimResult:
    """Check that ``method`` has the best mean rank, of the printed ones and of those of the printed values."""
    table = _columns(printed, cells, lower)
    _, average, _ = _bounds(table.values)
    parts = []
    for name, values in (("printed mean ranks", table.printed), ("mean ranks of the printed values", average)):
        first, second = np.argsort(values, kind="stable")[:2]
        text = f"{table.methods[first]} {values[first]:.2f}, then {table.methods[second]} {values[second]:.2f}"
        parts.append(ClaimPart(f"best of the {name}", method, text, table.methods[first] == method))
    return every(parts)


@kind
def significantly_better(printed: Printed, cells: Where, method: str, lower: bool = False) -> ClaimResult:
    """Check that ``method`` has a significantly better mean rank than every other method (Nemenyi, 0.05)."""
    table = _columns(printed, cells, lower)
    report = ranks.rank(table.methods, table.values)
    own = table.methods.index(method)
    parts = [
        ClaimPart(
            f"{method} before {other}",
            "p < 0.05",
            f"{report.average[own]:.2f} against {report.average[i]:.2f}, p = {report.pairwise[own, i]:.2g}",
            bool(report.average[i] - report.average[own] > report.critical_difference),
        )
        for i, other in enumerate(table.methods)
        if i != own
    ]
    held = sum(part.follows for part in parts)
    why = f"{held} of {len(parts)}; mean ranks differ at 0.05 when more than {report.critical_difference:.2f} apart"
    return every(parts, why)
