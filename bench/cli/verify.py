"""Command `silobench verify`: own records compared with published ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.format import as_json
from bench.cli.options import STORE, DataOption, JsonOption, StoreOption
from bench.cli.report import PUBLISHED

# About the largest difference of a cell between settings of one processor (results/benchmarks/processors.md).
TOLERANCE = 0.01
DIFFERENT = 1  # exit status: a cell differs by more than the tolerance


def verify(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Compare only these tables, e.g. fenda/2.", show_default=False)
    ] = None,
    store: StoreOption = STORE,
    published: Annotated[
        Path, typer.Option("--published", help="Compare with the published records in this folder.")
    ] = PUBLISHED,
    tolerance: Annotated[
        float,
        typer.Option(
            help="Let two means differ by this much; the default is measured, see results/benchmarks/processors.md.",
            min=0,
        ),
    ] = TOLERANCE,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Compare your finished runs with the published ones; exit with 1 if a table differs."""
    from bench.rebuild.record_sets import own_records, published_records
    from bench.rebuild.verification import verify as compare
    from bench.report.verify import render

    (ours,) = own_records(store, store)
    found = compare(ours, published_records(published), tolerance, data, tables or ())
    print(as_json(asdict(found) | {"passed": found.passed}) if json else render(found))
    if not found.passed:
        raise typer.Exit(DIFFERENT)
