"""Queries on a store: finished runs selected by their settings, one run by its hash, and the study file of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.sweep.store import Record, Store
from bench.sweep.summaries import names, summary
from bench.types import SpecError, content_hash, nearest

SHOWN = 3  # hashes listed when a prefix is ambiguous


@dataclass(frozen=True)
class Selection:
    """Summaries of the selected runs in order, all settings of each run by its hash, and damaged files of the store."""

    summaries: list[dict[str, Any]]
    settings: Mapping[str, Mapping[str, Any]]
    damage: list[str]


def select(store: Store, wanted: Iterable[tuple[str, Any]]) -> Selection:
    """Select the runs whose settings equal all ``wanted`` (name, value) pairs.

    Names are those of :func:`bench.sweep.summaries.names`, and "status". Raise :class:`SpecError` for a name or a text
    value that no run has.
    """
    records, damage = store.read_all()
    settings = {run: {"status": record["status"], **names(record)} for run, record in records.items()}
    everything = list(settings.values())
    for name, value in wanted:
        _refuse_unknown(name, value, everything)
        settings = {run: each for run, each in settings.items() if name in each and each[name] == value}
    summaries = sorted((summary(records[run]) for run in settings), key=lambda each: _order(each, settings))
    return Selection(summaries, settings, damage)


def find(records: Mapping[str, Record], prefix: str) -> Record | None:
    """Return the record whose hash starts with ``prefix``, None if there is no such record.

    Raise :class:`SpecError` if there are several.
    """
    found = [run for run in sorted(records) if run.startswith(prefix.lower())]
    if len(found) > 1:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise SpecError(f"run {prefix!r} is ambiguous: {', '.join(found[:SHOWN])}{more}; give more digits")
    return records[found[0]] if found else None


def study_file(record: Record) -> str:
    """Return the text of a study file that repeats this run and no other."""
    from bench.spec.one_run import study_text

    versions, spec = record["versions"], record["spec"]
    lines = [
        f"# Made by silobench {versions['silobench']} with torch {versions['torch']}. Fingerprint of the data:",
        f"# {spec['data']['fingerprint']}.",
    ]
    if content_hash(spec) != record["run"]:
        lines.append("# An older version of silobench computed this hash; repeated, the run has another hash.")
    return "\n".join([*lines, study_text(spec, title=f"Run {record['run']}")])


def _refuse_unknown(name: str, value: Any, settings: Collection[Mapping[str, Any]]) -> None:
    """Refuse an unknown name or text value; a number that no run has is a valid question."""
    known = {other for each in settings for other in each}
    if known and name not in known:
        raise SpecError(f"no run has a setting {name!r}: {nearest(name, known)}")
    texts = {each[name] for each in settings if isinstance(each.get(name), str)}
    if texts and isinstance(value, str) and value not in texts:
        raise SpecError(f"no run has {name} = {value!r}: {nearest(value, texts)}")


def _order(run: Mapping[str, Any], settings: Mapping[str, Mapping[str, Any]]) -> tuple[Any, ...]:
    """Sort by data, algorithm, model, hyper-parameters, options, then seed."""
    options = [str(value) for name, value in settings[run["run"]].items() if "." in name]
    own = sorted(run["setting"].items())
    return run["data"], run["algorithm"], run["model"], own, options, run["seed"], run["run"]
