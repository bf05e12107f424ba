"""The command `silobench`: assembles the commands and turns errors into one line and an exit status.

Modules that are slow to import are imported inside the commands that use them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from bench import __version__
from bench.cli import data, records, report, reproduce, study
from bench.cli.audit import audit
from bench.cli.catalogue import list_
from bench.cli.options import INTERRUPTED, WRONG_USAGE
from bench.cli.terminal import printable_output
from bench.cli.verify import verify
from bench.types import SilobenchError

# The base class of errors in arguments; typer takes it from click or includes it, depending on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
EXAMPLES = """Examples:

silobench reproduce-table                  re-run the quickstart table

silobench list tables --ready              list tables that can run now

silobench plan my-study.toml               estimate the time of your study

silobench sweep my-study.toml --workers 4  run it

silobench status my-study.toml             show how much is finished"""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# By panel of the help text: name, command, example.
COMMANDS: dict[str, list[tuple[str, Callable[..., None], str]]] = {
    "Explore": [
        ("list", list_, "silobench list tables --paper fenda --ready"),
    ],
    "Run your own study": [
        ("plan", study.plan, "silobench plan my-study.toml --workers 4"),
        ("sweep", study.sweep, "silobench sweep my-study.toml --workers 4"),
        ("status", records.status, "silobench status my-study.toml"),
        ("runs", records.runs, "silobench runs --algorithm fedprox --where mu=0.1"),
        ("show", records.show, "silobench show 4f2a91c0"),
        ("export", records.export, "silobench export --to csv tables/"),
    ],
    "Reproduce published results": [
        ("reproduce-table", reproduce.reproduce_table, "silobench reproduce-table fenda/2-heart"),
        ("reproduce-figure", reproduce.reproduce_figure, "silobench reproduce-figure fenda/3-heart"),
        ("reproduce-paper", reproduce.reproduce_paper, "silobench reproduce-paper fenda --workers 4"),
        ("report", report.report, "silobench report --site my-report"),
        ("verify", verify, "silobench verify fenda/2-heart"),
        ("audit", audit, "silobench audit fenda"),
    ],
}
for panel, commands in COMMANDS.items():
    for name, command, example in commands:
        app.command(name, rich_help_panel=panel, epilog=f"Example: {example}")(command)
app.add_typer(data.app, name="data", rich_help_panel="Explore")


def _print_version(asked: bool) -> None:
    if asked:
        print(f"silobench {__version__}")
        raise typer.Exit


@app.callback(
    help="Benchmark personalised cross-silo federated learning and reproduce published tables.", epilog=EXAMPLES
)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Accept the options of `silobench` itself."""


def main() -> None:
    """Run the command line; report an error as one line on standard error and exit with its status."""
    with printable_output():
        _run()


def _run() -> None:
    try:
        sys.exit(app(prog_name="silobench", standalone_mode=False))
    except SilobenchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.status)
    except UsageError as error:
        if message := usage_message(error):
            print(f"error: {message}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(SilobenchError.status)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)


def usage_message(error: Any) -> str:
    """Return one line for a wrong command, argument or option; empty if the help text was printed instead."""
    message = " ".join(error.format_message().split()).replace(": Value error, ", ": ")
    if not message:
        return ""
    command = error.ctx.command_path if error.ctx is not None else "silobench"
    end = "" if message.endswith((".", "?", ")")) else "."
    return f"{command}: {message}{end} See `{command} --help`."
