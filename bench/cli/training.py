"""Options and the runner of the commands that train: workers, executor, progress, snapshots, and stopping."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bench.cli.options import INCOMPLETE
from bench.cli.progress import View, listening
from bench.types import SpecError

if TYPE_CHECKING:
    from bench.reproduce import Folders, Training
    from bench.sweep.executors.base import Executor, Progress
    from bench.sweep.runner import Runner

PANEL = "Training"


class ExecutorName(StrEnum):
    """Places where run batches are trained."""

    LOCAL = "local"
    RAY = "ray"


def _option(text: str, *names: str, **limits: Any) -> dict[str, Any]:
    """Return the metadata of a field: its option on the command line."""
    return {"option": typer.Option(*names, help=text, rich_help_panel=PANEL, **limits)}


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a command that trains, one per field."""

    workers: int = field(
        default=0, metadata=_option("Train in this number of worker processes; 0 uses none.", "--workers", "-w", min=0)
    )
    executor: ExecutorName = field(
        default=ExecutorName.LOCAL, metadata=_option("Train on this machine or on a Ray cluster.")
    )
    address: str | None = field(
        default=None, metadata=_option("Connect to the Ray cluster at this address, e.g. auto.", show_default=False)
    )
    progress: View = field(default=View.AUTO, metadata=_option("Set how progress is shown."))
    quiet: bool = field(default=False, metadata=_option("Show no progress.", "--quiet", "-q"))
    json: bool = field(default=False, metadata=_option("Show progress as JSON lines on standard error.", "--json"))
    snapshot_rounds: int | None = field(
        default=None, metadata=_option("Save the state of running batches every N rounds.", min=1, show_default=False)
    )
    snapshot_minutes: float = field(
        default=5.0, metadata=_option("Save the state of running batches every N minutes.", min=0)
    )
    steal: bool = field(
        default=False, metadata=_option("Train the run batches that stalled processes hold.", "--steal")
    )

    def __post_init__(self) -> None:
        if self.address is not None and self.executor is not ExecutorName.RAY:
            raise SpecError("--address: only used with a Ray cluster; add --executor ray")

    @property
    def view(self) -> View:
        return View.QUIET if self.quiet else View.JSON if self.json else self.progress

    def runners(self, folders: Folders) -> Training:
        """Return a function that opens a runner with these options."""
        return partial(_runner, self, folders.store, folders.data)


def with_training_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``training`` of a command by an option for each field of :class:`TrainingOptions`."""
    hints = get_type_hints(TrainingOptions)
    own_hints = get_type_hints(command, include_extras=True)
    own_hints.pop("training")
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own_hints[p.name])
           for p in inspect.signature(command).parameters.values() if p.name != "training"]  # fmt: skip
    added = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default,
                          annotation=Annotated[hints[each.name], each.metadata["option"]])
        for each in fields(TrainingOptions)
    ]  # fmt: skip

    @wraps(command)
    def with_options(**given: Any) -> None:
        options = TrainingOptions(**{parameter.name: given.pop(parameter.name) for parameter in added})
        command(**given, training=options)

    with_options.__signature__ = inspect.Signature(own + added)  # type: ignore[attr-defined]
    with_options.__annotations__ = own_hints | {p.name: p.annotation for p in added}
    return with_options


def finish(complete: bool, store: Path) -> None:
    """End a command whose results are written: raise an error if records in the store are damaged, or exit with 3.

    ``complete`` tells whether every cell has a number.
    """
    from bench.sweep.store import Store

    Store(store).records()
    if not complete:
        raise typer.Exit(INCOMPLETE)


@contextmanager
def _runner(options: TrainingOptions, store: Path, data: Path | None) -> Iterator[Runner]:
    """Yield a runner that shows its progress.

    After Ctrl-C or SIGTERM the running batches are finished and recorded; a second signal stops immediately.
    """
    from bench.sweep.runner import Runner

    stop = threading.Event()
    make = partial(_executor, options, store, data)
    with listening(options.view) as listener, _signals(stop), Runner(make, listener, stop, options.steal) as runner:
        yield runner


def _executor(options: TrainingOptions, store: Path, data: Path | None, progress: Progress) -> Executor:
    from bench.sweep.executors.local import InProcessExecutor, ProcessExecutor
    from bench.sweep.training import WorkerSettings

    site = WorkerSettings(data, store / "snapshots", options.snapshot_rounds, 60 * options.snapshot_minutes)
    if options.executor is ExecutorName.RAY:
        from bench.sweep.executors.on_ray import RayExecutor

        return RayExecutor(options.address, site, progress, options.workers)
    return ProcessExecutor(options.workers, site, progress) if options.workers else InProcessExecutor(site, progress)


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return

    def handle(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        text = "Finishing the current run batches. Press Ctrl-C again to stop immediately."
        print(text, file=sys.stderr, flush=True)

    before: dict[int, Callable[..., Any] | int | None] = {
        number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
