"""What the commands that train have in common: where, with how many workers, how it is shown, and how it is stopped."""

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

from bench.cli.progress import View, listening
from bench.types import SpecError

if TYPE_CHECKING:
    from bench.sweep.executors import Executor, Progress
    from bench.sweep.runner import Runner


class Where(StrEnum):
    """Where run batches are trained."""

    LOCAL = "local"
    RAY = "ray"


def _option(text: str, *names: str, **limits: Any) -> dict[str, Any]:
    """What a field is on the command line."""
    return {"option": typer.Option(*names, help=text, **limits)}


@dataclass(frozen=True)
class How:
    """The options of a command that trains, one for each field."""

    workers: int = field(
        default=0, metadata=_option("Worker processes; 0 trains in this one.", "--workers", "-w", min=0)
    )
    executor: Where = field(default=Where.LOCAL, metadata=_option("Train on this machine, or on a Ray cluster."))
    address: str | None = field(default=None, metadata=_option("Address of the Ray cluster, e.g. auto."))
    progress: View = field(default=View.AUTO, metadata=_option("How progress is shown."))
    quiet: bool = field(default=False, metadata=_option("Show no progress.", "--quiet", "-q"))
    json: bool = field(default=False, metadata=_option("Progress as JSON lines on standard error.", "--json"))
    snapshot_rounds: int | None = field(
        default=None, metadata=_option("Keep the state of what runs every so many rounds.", min=1)
    )
    snapshot_minutes: float = field(
        default=5.0, metadata=_option("Keep the state of what runs every so many minutes.", min=0)
    )

    def __post_init__(self) -> None:
        if self.address is not None and self.executor is not Where.RAY:
            raise SpecError("--address names a Ray cluster: add --executor ray, or leave it out")

    @property
    def view(self) -> View:
        return View.QUIET if self.quiet else View.JSON if self.json else self.progress


def trains(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of :class:`How` in place of its parameter ``how``."""
    hints = get_type_hints(How)
    own_hints = {name: hint for name, hint in get_type_hints(command, include_extras=True).items() if name != "how"}
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own_hints[p.name])
           for p in inspect.signature(command).parameters.values() if p.name != "how"]  # fmt: skip
    added = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default,
                          annotation=Annotated[hints[each.name], each.metadata["option"]])
        for each in fields(How)
    ]  # fmt: skip

    @wraps(command)
    def with_options(**given: Any) -> None:
        how = How(**{parameter.name: given.pop(parameter.name) for parameter in added})
        command(**given, how=how)

    with_options.__signature__ = inspect.Signature(own + added)  # type: ignore[attr-defined]
    with_options.__annotations__ = own_hints | {p.name: p.annotation for p in added}
    return with_options


@contextmanager
def training(how: How, store: Path, data: Path | None) -> Iterator[Runner]:
    """A runner that shows its progress; Ctrl-C or SIGTERM once lets it finish what it trains, twice ends it now."""
    from bench.sweep.runner import Runner

    stop = threading.Event()
    make = partial(_executor, how, store, data)
    with listening(how.view) as listener, _signals(stop), Runner(make, listener, stop) as runner:
        yield runner


def _executor(how: How, store: Path, data: Path | None, progress: Progress) -> Executor:
    from bench.sweep.executors import InProcess, Processes
    from bench.sweep.work import Site

    site = Site(data, store / "snapshots", how.snapshot_rounds, 60 * how.snapshot_minutes)
    if how.executor is Where.RAY:
        from bench.sweep.ray_executor import OnRay

        return OnRay(how.address, site, progress, how.workers)
    return Processes(how.workers, site, progress) if how.workers else InProcess(site, progress)


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread's program
        return

    def asked(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print("stopping when what is being trained is on record; again to stop now", file=sys.stderr, flush=True)

    before: dict[int, Callable[..., Any] | int | None] = {
        number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
