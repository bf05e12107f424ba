"""Records as runs of MLflow, in a database that ``mlflow ui --backend-store-uri sqlite:///FILE`` shows."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bench import __version__
from bench.optional import optional
from bench.sweep.export.to_tensorboard import results, scalars
from bench.sweep.summaries import Record, names

BATCH = 1000  # MLflow takes no more metrics at once


def write(records: Sequence[Record], file: Path) -> None:
    """An experiment for each data set and a run for each record in the new SQLite database ``file``.

    Parameters are all that decided the run, metrics as in TensorBoard (a step is a round finished), a diverged run is
    "FAILED", and the tag ``silobench.run`` is the run's hash.
    """
    # Unless told otherwise MLflow reports its use over the network; ours is nobody's business.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    optional("mlflow", "export")
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    for noisy in ("mlflow", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    client = MlflowClient(tracking_uri=f"sqlite:///{file.absolute()}")
    experiments: dict[str, str] = {}
    for record in records:
        spec = record["spec"]
        data = spec["data"]["name"]
        if data not in experiments:
            # No artifact is ever logged; without a place MLflow would name a folder of this one.
            experiments[data] = client.create_experiment(data, artifact_location="mlflow-artifacts:/")
        run = client.create_run(experiments[data], run_name=f"{spec['algorithm']['name']} {record['run'][:8]}")
        tags = {"silobench.run": record["run"], "silobench.version": __version__, "synthetic": record["synthetic"]}
        client.log_batch(
            run.info.run_id,
            metrics=[Metric(_key(tag), value, 0, len(record["aggregated"])) for tag, value in results(record).items()],
            params=[Param(_key(name), str(value)) for name, value in names(record).items() if value is not None],
            tags=[RunTag(key, str(value)) for key, value in tags.items()],
        )
        metrics = (Metric(_key(tag), value, 0, step) for tag, step, value in scalars(record))
        while batch := list(islice(metrics, BATCH)):
            client.log_batch(run.info.run_id, metrics=batch)
        client.set_terminated(run.info.run_id, "FAILED" if record["status"] == "diverged" else "FINISHED")


def _key(name: str) -> str:
    """A name in the letters that MLflow knows."""
    return re.sub(r"[^/\w.\- ]", "_", name)
