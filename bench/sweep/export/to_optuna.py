"""Export of searches to a database of Optuna, which ``optuna-dashboard sqlite:///FILE`` shows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.spec import Method, StudySpec
from bench.sweep.search.draws import distributions
from bench.sweep.search.selection import Record, SearchResult, best_validation
from bench.sweep.summaries import means, own_metric

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial


def write(study: StudySpec, searches: Mapping[str, SearchResult], file: Path) -> None:
    """Write an Optuna study per method and a trial per setting to the new SQLite database ``file``.

    The value of a trial is what the rule of the study minimises; its intermediate values are validation losses by
    finished rounds. Both are means over seeds. A setting with a diverged run has the state FAIL, a dropped one PRUNED,
    one with missing runs WAITING.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.RDBStorage(f"sqlite:///{file.absolute()}")
    try:
        for name, search in searches.items():
            made = optuna.create_study(storage=storage, study_name=name, direction="minimize")
            for key, value in {"title": study.title, "rule": study.rule, "seeds": list(study.seeds)}.items():
                made.set_user_attr(key, value)
            made.add_trials([trial(study.methods[name], search, number) for number in range(len(search.settings))])
    finally:
        storage.remove_session()
        storage.engine.dispose()


def trial(method: Method, search: SearchResult, number: int) -> FrozenTrial:
    """Return the setting with this index as a trial."""
    from optuna.trial import TrialState, create_trial

    records = [record for record in search.records[number] if record is not None]
    loss = fmean(map(best_validation, records)) if records else math.inf
    if len(records) < len(search.seeds):
        state = TrialState.WAITING
    elif any(record["status"] == "diverged" for record in records):
        state = TrialState.FAIL
    else:
        state = TrialState.PRUNED if number in search.dropped else TrialState.COMPLETE
    return create_trial(
        state=state,
        value=loss if state in (TrialState.COMPLETE, TrialState.PRUNED) else None,
        params={name: _plain(method, name, search.settings[number][name]) for name in method.axes},
        distributions=_distributions(method),
        intermediate_values=_losses(records),
        user_attrs={"runs": [record["run"] for record in records], **_scores(records)},
    )


def _distributions(method: Method) -> dict[str, BaseDistribution]:
    """Return the distributions of the search; for listed values, those of the values instead of their indices."""
    from optuna.distributions import CategoricalDistribution

    listed = {
        name: CategoricalDistribution([_plain(method, name, value) for value in axis])
        for name, axis in method.axes.items()
        if isinstance(axis, tuple)
    }
    return distributions(method) | listed


def _plain(method: Method, name: str, value: Any) -> Any:
    """Return a value of a type that Optuna stores; records have hyper-parameters as real numbers."""
    axis = method.axes[name]
    if isinstance(axis, tuple):
        return value if isinstance(value, bool | int | float | str) else json.dumps(value)
    return int(value) if axis.whole else value


def _losses(records: list[Record]) -> dict[int, float]:
    """Return the mean validation loss over runs by finished rounds, where all runs have one."""
    rounds = enumerate(zip(*(record["aggregated"] for record in records), strict=False), 1)
    return {number: fmean(losses) for number, losses in rounds if None not in losses}


def _scores(records: list[Record]) -> dict[str, float]:
    """Return the mean test scores over clients and runs for the data set's default metric."""
    if not records or any(record["status"] == "diverged" for record in records):
        return {}
    metric = own_metric(records[0])
    by_run = [means(record, metric) for record in records]
    by_rule = {rule: [mean for run in by_run if (mean := run.get(rule)) is not None] for rule in by_run[0]}
    return {f"{metric} ({rule})": fmean(each) for rule, each in by_rule.items() if len(each) == len(records)}
