"""Export to a database of MLflow, which ``mlflow ui --backend-store-uri sqlite:///FILE`` shows."""

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
from bench.sweep.summaries import Record, environment, names

BATCH = 1000  # the most metrics that MLflow accepts at once


def write(records: Sequence[Record], file: Path) -> None:
    """Write an experiment per data set and a run per record to the new SQLite database ``file``.

    Parameters are all settings of the run. Metrics are those of the export to TensorBoard; a step is a finished round.
    A diverged run has the status "FAILED". The tag ``silobench.run`` is the hash of the run.
    """
    # By default MLflow reports its use over the network.
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
            # No artifacts are logged; without a location MLflow would use the current folder.
            experiments[data] = client.create_experiment(data, artifact_location="mlflow-artifacts:/")
        run = client.create_run(experiments[data], run_name=f"{spec['algorithm']['name']} {record['run'][:8]}")
        tags = {
            "silobench.run": record["run"],
            "silobench.version": __version__,
            "synthetic": record["synthetic"],
            "environment": environment(record),
        }
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
    """Return a name with characters that MLflow accepts."""
    return re.sub(r"[^/\w.\- ]", "_", name)
