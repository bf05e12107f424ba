"""How hard a study looked for the settings it shows: searches, their budgets, and what they cost in runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.spec import Method

KINDS = {
    "grid": "every setting of a grid",
    "random": "settings drawn at random",
    "tpe": "settings drawn by TPE",
    "halving": "settings drawn at random, the worse of them dropped on the way",
}


def described(methods: Mapping[str, Method], names: Mapping[str, str], seeds: int) -> Iterator[str]:
    """The searches behind a table in words; ``names`` are what it calls each of the ``methods``, by key."""
    tried = {key: methods[key].tried for key in names}
    runs = f"{sum(tried.values()) * seeds:,} runs over {seeds} seed{'s' * (seeds > 1)}"
    searched = [key for key in names if methods[key].axes]
    if not searched:
        yield f"Search: none, all settings are given. Cost: {runs}."
        return
    by_kind: dict[str, list[str]] = {}
    for key in searched:
        by_kind.setdefault(methods[key].search.kind, []).append(f"{names[key]} {tried[key]}")
    kinds = "; ".join(f"{KINDS[kind]} ({', '.join(each)})" for kind, each in by_kind.items())
    counts = {tried[key] for key in searched}
    equal = "an equal budget" if len(counts) == 1 else f"no equal budget: {min(counts)} to {max(counts)} settings"
    given = [names[key] for key in names if key not in searched]
    rest = f" Not searched: {', '.join(given)}." if given else ""
    yield f"Search: {kinds}; {equal}.{rest} Cost: {runs}, those not chosen included."
