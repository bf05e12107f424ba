"""Footnotes on the search for settings: kinds of search, their budgets, and the number of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.spec import Method
from bench.sweep.search.draws import STARTUP_TRIALS

KINDS = {
    "grid": "all settings of a grid",
    "random": "settings drawn at random",
    "tpe": "settings proposed by TPE",
    "halving": "settings drawn at random, with successive halving",
}


def described(
    methods: Mapping[str, Method], names: Mapping[str, str], seeds: int, recorded: Mapping[str, int] | None = None
) -> Iterator[str]:
    """Yield the footnotes on the searches behind a table.

    ``names`` are the table's names of its ``methods``, by key; ``recorded`` counts the settings whose runs are all
    recorded.
    """
    tried = {key: methods[key].tried for key in names}
    total = sum(tried.values()) * seeds
    runs = f"{total:,} run{'s' * (total > 1)} over {seeds} seed{'s' * (seeds > 1)}"
    searched = [key for key in names if methods[key].axes]
    if not searched:
        yield f"Search: none, all settings are given. Cost: {runs}."
        return
    by_kind: dict[str, list[str]] = {}
    for key in searched:
        by_kind.setdefault(_kind(methods[key]), []).append(f"{names[key]} {tried[key]}")
    kinds = "; ".join(f"{kind} ({', '.join(each)})" for kind, each in by_kind.items())
    counts = {tried[key] for key in searched}
    budgets = "equal budgets" if len(counts) == 1 else f"unequal budgets, {min(counts)} to {max(counts)} settings"
    given = [names[key] for key in names if key not in searched]
    rest = f" Not searched: {', '.join(given)}." if given else ""
    yield f"Search: {kinds}; {budgets}.{rest} Cost: {runs}, including settings that were not chosen."
    found = {key: (recorded or {}).get(key, 0) for key in names}
    partly = [f"{names[key]} {found[key]} of {tried[key]}" for key in names if 0 < found[key] < tried[key]]
    if partly:
        yield f"Not all settings are recorded ({', '.join(partly)}); the best of the recorded ones is chosen."


def _kind(method: Method) -> str:
    """Return the kind of search; TPE without a trial beyond its start-up only draws at random."""
    return KINDS["random" if method.search.kind == "tpe" and method.tried <= STARTUP_TRIALS else method.search.kind]
