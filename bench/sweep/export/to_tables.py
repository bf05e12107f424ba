"""Records as long tables, one row a number, for pandas, R or a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.data.files import optional
from bench.sweep.reading import Record, names

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


def write(records: Sequence[Record], folder: Path, form: Literal["csv", "parquet"]) -> None:
    """A file each of runs, scores, history and curves in ``folder``; their column ``run`` is the run's hash."""
    if form == "parquet":
        optional("pyarrow", "parquet")
    folder.mkdir()
    for name, frame in frames(records).items():
        file = folder / f"{name}.{form}"
        if form == "csv":
            frame.to_csv(file, index=False, lineterminator="\n")
        else:
            frame.to_parquet(file, engine="pyarrow", index=False)


def frames(records: Sequence[Record]) -> dict[str, pd.DataFrame]:
    """``runs`` has a row for each run with all that decided it, by the names that studies have for it.

    ``scores``: run, checkpoint, model, client, metric, value (``model`` is the client whose model was tested).
    ``history``: run, round, client, loss (validation; without a client their mean weighted by samples).
    ``curves``: run, rounds, client, metric, value (test scores after so many rounds). Rounds, models and clients count
    from 0; a number that is undefined or diverged is empty.
    """
    import pandas as pd

    columns = {
        "scores": ["run", "checkpoint", "model", "client", "metric", "value"],
        "history": ["run", "round", "client", "loss"],
        "curves": ["run", "rounds", "client", "metric", "value"],
    }
    rows = {"scores": _scores(records), "history": _history(records), "curves": _curves(records)}
    made = {name: pd.DataFrame(list(rows[name]), columns=columns[name]) for name in columns}
    for frame in made.values():
        frame[frame.columns[-1]] = frame[frame.columns[-1]].astype(float)
        frame["client"] = frame["client"].astype("Int64")
    return {"runs": pd.DataFrame([_run(record) for record in records]), **made}


def _run(record: Record) -> Row:
    diverged = record["diverged"] or {}
    return {
        "run": record["run"],
        "status": record["status"],
        "diverged_in": diverged.get("round"),
        "synthetic": record["synthetic"],
        "fingerprint": record["spec"]["data"]["fingerprint"],
        **{name: repr(value) if isinstance(value, list | dict) else value for name, value in names(record).items()},
        "up": record["communication"]["up"],
        "down": record["communication"]["down"],
        "parameters": record["parameters"],
        "path": record["path"],
        **record["versions"],
    }


def _scores(records: Sequence[Record]) -> Iterator[tuple[Any, ...]]:
    for record in records:
        for checkpoint, model, client, metric, value in record["scores"]:
            yield record["run"], checkpoint, model, client, metric, value


def _history(records: Sequence[Record]) -> Iterator[tuple[Any, ...]]:
    for record in records:
        for round_, (losses, mean) in enumerate(zip(record["validation"], record["aggregated"], strict=True)):
            yield record["run"], round_, None, mean
            yield from ((record["run"], round_, client, loss) for client, loss in enumerate(losses))


def _curves(records: Sequence[Record]) -> Iterator[tuple[Any, ...]]:
    for record in records:
        for metric, points in record["curves"].get("scores", {}).items():
            for rounds, values in zip(record["curves"]["rounds"], points, strict=True):
                yield from ((record["run"], rounds, client, metric, value) for client, value in enumerate(values))
