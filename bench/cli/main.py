"""The command `silobench`: assembles the commands and turns errors into one line and an exit status.

Modules that are slow to import are imported inside the commands that use them.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from bench import __version__
from bench.cli import data, records, report, reproduce, study
from bench.cli.audit import audit
from bench.cli.catalogue import list_
from bench.cli.options import INTERRUPTED, PIPE_CLOSED, WRONG_USAGE
from bench.cli.terminal import printable_output
from bench.cli.verify import verify
from bench.limits import MAX_MESSAGE
from bench.safe_text import printable_line
from bench.types import SilobenchError, nearest

PACKAGE = Path(__file__).parents[1]
REMEDIES = {
    errno.EMFILE: "allow more open files with `ulimit -n 1024`",
    errno.ENOSPC: "free some space, or name a folder on another disk",
    errno.ENAMETOOLONG: "give a shorter name",
}
# The base class of errors in arguments; typer takes it from click or includes it, depending on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
EXAMPLES = """Examples:

silobench reproduce-table                  re-run the quickstart table

silobench list tables --ready              list tables that can run now

silobench plan my-study.toml               estimate the time of your study

silobench sweep my-study.toml --workers 4  run it

silobench status my-study.toml             show how much is finished"""


class PipeClosedError(Exception):
    """The reader of the output has gone, for example `head`."""


class Commands(TyperGroup):
    """The commands, of which a closed pipe reaches :func:`main`; typer would exit with status 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosedError from error


app = typer.Typer(
    cls=Commands,
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
    """Run the command line; report an error as one line on standard error and exit with its status.

    Other exceptions than those below are bugs and keep their traceback.
    """
    with printable_output():
        _run()


def _run() -> None:
    try:
        status = app(prog_name="silobench", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status)
    except SilobenchError as error:
        _exit(str(error), error.status)
    except UsageError as error:
        _exit(usage_message(error), WRONG_USAGE)
    except (BrokenPipeError, PipeClosedError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at exit
        sys.exit(PIPE_CLOSED)
    except (OSError, RecursionError, OverflowError, MemoryError) as error:
        _exit(machine_message(error), SilobenchError.status)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)


def _exit(message: str, status: int) -> NoReturn:
    if message:
        print(f"error: {shortened(message)}", file=sys.stderr)
    sys.exit(status)


def shortened(message: str) -> str:
    """Return a message as one line, shortened in the middle if it is long."""
    line, half = printable_line(message), MAX_MESSAGE // 2
    return line if len(line) <= MAX_MESSAGE else f"{line[: half - 5]} ... {line[5 - half :]}"


def machine_message(error: BaseException) -> str:
    """Return one line for an error of the machine: of its files, its memory, or the depth of Python's stack."""
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    else:
        frames = [(Path(each.filename), each.lineno) for each in traceback.extract_tb(error.__traceback__)]
        own = [
            f" (bench/{file.relative_to(PACKAGE)}, line {line})"
            for file, line in frames
            if file.is_relative_to(PACKAGE)
        ]
        place = own[-1] if own else ""
        text = f"{type(error).__name__}: {error}{place}"
    return f"{text}; {REMEDIES[error.errno]}" if isinstance(error, OSError) and error.errno in REMEDIES else text


def usage_message(error: Any) -> str:
    """Return one line for a wrong command, argument or option; empty if the help text was printed instead."""
    message = " ".join(error.format_message().split()).replace(": Value error, ", ": ")
    if not message:
        return ""
    command = error.ctx.command_path if error.ctx is not None else "silobench"
    if wrong := re.search(r": '(.*)' is not one of '(.*)'\.$", message):
        hint = nearest(wrong[1], choices := wrong[2].split("', '"))
        message += "" if hint == nearest("", choices) else f" {hint[0].upper()}{hint[1:]}"
    end = "" if message.endswith((".", "?", ")")) else "."
    return f"{command}: {message}{end} See `{command} --help`."
