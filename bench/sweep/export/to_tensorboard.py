"""Export to TensorBoard event files: validation losses and learning curves by round, and hyper-parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.optional import optional
from bench.sweep.search.selection import best_validation
from bench.sweep.summaries import Record, means, names, own_metric


def write(records: Sequence[Record], folder: Path) -> None:
    """Write event files for each run to ``folder``/data set/algorithm/hash; steps are finished rounds."""
    optional("tensorboard", "export")
    from torch.utils.tensorboard import SummaryWriter

    folder.mkdir()
    for record in records:
        spec = record["spec"]
        place = folder / spec["data"]["name"].replace(":", "-") / spec["algorithm"]["name"] / record["run"]
        with SummaryWriter(str(place)) as events:
            for tag, step, value in scalars(record):
                events.add_scalar(tag, value, step)
            settings = {name: _shown(value) for name, value in names(record).items()}
            events.add_hparams(settings, results(record), run_name=".")


def scalars(record: Record) -> Iterator[tuple[str, int, float]]:
    """Yield tag, finished rounds and value of all quantities by round, without undefined and diverged values."""
    clients = [f"{number}-{name}" for number, name in enumerate(record["clients"])]
    for step, (losses, mean) in enumerate(zip(record["validation"], record["aggregated"], strict=True), 1):
        for name, loss in [("all", mean), *zip(clients, losses, strict=False)]:
            if loss is not None:
                yield f"validation_loss/{name}", step, loss
    for metric, points in record["curves"].get("scores", {}).items():
        for step, values in zip(record["curves"]["rounds"], points, strict=True):
            for name, value in zip(clients, values, strict=False):
                if value is not None:
                    yield f"test_{metric}/{name}", step, value


def results(record: Record) -> dict[str, float]:
    """Return the best validation loss and the mean test scores of the default metric; nothing for a diverged run."""
    if record["status"] == "diverged":
        return {}
    metric = own_metric(record)
    scores = {f"{metric}/{rule}": value for rule, value in means(record, metric).items() if value is not None}
    return {"best_validation_loss": best_validation(record), **scores}


def _shown(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)
