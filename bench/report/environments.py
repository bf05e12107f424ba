"""Environments of training behind a table (see :mod:`bench.environment`), and the footnote on runs of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from bench.report.scores import Record
from bench.sweep.summaries import NOT_RECORDED, listed

Facts = tuple[tuple[str, str], ...]
# The environments of one run: several if it was resumed on a machine of another kind, none if they are not recorded.
RunEnvironments = tuple[Facts, ...]


def environments(records: Iterable[Record]) -> Counter[RunEnvironments]:
    """Return the environments of runs, versions included, with the number of runs of each."""
    return Counter(
        tuple(tuple(sorted((each | record["versions"]).items())) for each in record["environments"])
        for record in records
    )


def described(found: Iterable[RunEnvironments]) -> dict[RunEnvironments, str]:
    """Return a description of each, by the facts in which they differ; by all facts if no recorded ones differ."""
    runs = list(dict.fromkeys(found))
    known = [dict(facts) for each in runs for facts in each]
    names = {name for facts in known for name in facts}
    differing = {name for name in names if len({facts.get(name) for facts in known}) > 1} or names
    return {
        each: " then ".join(listed({name: dict(facts).get(name, "not set") for name in differing}) for facts in each)
        or NOT_RECORDED
        for each in runs
    }


def mixed(found: Counter[RunEnvironments]) -> Iterator[str]:
    """Yield the footnote that names the environments, if the runs are of more than one."""
    if len({facts for each in found for facts in each or ((),)}) < 2:
        return
    texts = described(found)
    counts = sorted((-number, texts[each]) for each, number in found.items())
    named = "; ".join(f"{text} ({-number:,} {'run' if number == -1 else 'runs'})" for number, text in counts)
    yield f"Environments of training differ, and rounding with them: {named}."
