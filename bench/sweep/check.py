"""Check of a run's model and budget against its data, before anything is trained."""

from __future__ import annotations

from bench.types import Federation, RunSpec


def check_run(run: RunSpec, federation: Federation) -> None:
    """Build the run's model for its data; raise :class:`SpecError` if the model or the budget does not fit the data."""
    from bench.train import engine

    engine.prepare(
        federation,
        algorithm=run.algorithm["name"],
        algorithm_options=run.algorithm["options"],
        model=run.model["name"],
        model_options=run.model["options"],
        settings=[run.hyperparameters],
        seeds=[run.seed],
        budget=run.budget,
    )
