"""The command `silobench`: assembles the commands and turns errors into one line and an exit status.

Modules that are slow to import are imported inside the commands that use them.
"""

from __future__ import annotations

import sys

import typer

from bench.cli import data, records, report, reproduce, study
from bench.cli.audit import audit
from bench.cli.catalogue import list_
from bench.cli.options import INTERRUPTED
from bench.types import SilobenchError

app = typer.Typer(
    help="Reproducible benchmarks of personalised cross-silo federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("list")(list_)
app.add_typer(data.app, name="data")
for command in (
    *(study.plan, study.sweep),
    *(reproduce.reproduce_table, reproduce.reproduce_figure, reproduce.reproduce_paper),
    *(report.report, audit),
    *(records.status, records.runs, records.show, records.export),
):
    app.command()(command)


def main() -> None:
    """Run the command; a fault of the request or the data is one line and exit status 2."""
    try:
        app()
    except SilobenchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
