"""Export to long tables, one number per row, for pandas, R or a spreadsheet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.optional import optional
from bench.safe_text import csv_text
from bench.sweep.summaries import Record, environment, names

if TYPE_CHECKING:
    import pandas as pd


def write(records: Sequence[Record], folder: Path, form: Literal["csv", "parquet"]) -> None:
    """Write the tables runs, scores, history and curves to ``folder``; the column ``run`` is the hash of the run."""
    if form == "parquet":
        optional("pyarrow", "parquet")
    folder.mkdir()
    for name, frame in frames(records).items():
        file = folder / f"{name}.{form}"
        if form == "csv":
            file.write_text(csv_text(frame), encoding="utf-8")
        else:
            frame.to_parquet(file, engine="pyarrow", index=False)


def frames(records: Sequence[Record]) -> dict[str, pd.DataFrame]:
    """Return the tables by name. ``runs`` has a row per run with all its settings, by their names in study files.

    ``scores``: run, checkpoint, model, client, metric, value (``model`` is the client whose model was tested).
    ``history``: run, round, client, loss (validation; without a client their mean weighted by samples).
    ``curves``: run, rounds, client, metric, value (test scores after ``rounds`` rounds). Rounds, models and clients
    count from 0; a number that is undefined or diverged is empty.
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
    return {"runs": _runs(records), **made}


def _runs(records: Sequence[Record]) -> pd.DataFrame:
    import pandas as pd

    settings = [names(record) for record in records]
    known = dict.fromkeys(name for each in settings for name in each)
    frame = pd.DataFrame(
        [
            {
                "run": record["run"],
                "status": record["status"],
                **{name: setting.get(name) for name in sorted(known, key=lambda name: ("." in name, name))},
                "fingerprint": record["spec"]["data"]["fingerprint"],
                "synthetic": record["synthetic"],
                "diverged_in": record["diverged"] and record["diverged"]["round"],
                **record["communication"],
                "parameters": record["parameters"],
                "path": record["path"],
                **record["versions"],
                "environment": environment(record),
            }
            for record, setting in zip(records, settings, strict=True)
        ],
        dtype=object,
    )
    for name, column in frame.items():
        if any(
            isinstance(value, str | list) for value in column
        ):  # a column of lists, or of numbers and "full", becomes text
            frame[name] = [value if value is None or isinstance(value, str) else json.dumps(value) for value in column]
    return frame.convert_dtypes()


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
