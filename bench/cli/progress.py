"""Progress of training on standard error: a live view, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from bench.cli.format import batches, count, duration, holder, stalled
from bench.cli.terminal import console, printable_streams

Event = dict[str, Any]
Listener = Callable[[Event], None]
SHOWN = 20  # run batches in the live view


class View(StrEnum):
    """Forms of progress output."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    JSON = "json"
    QUIET = "quiet"


def controls_cursor() -> bool:
    """Return whether standard error is a terminal that can redraw lines; a notebook's output cell cannot."""
    notebook = "JPY_PARENT_PID" in os.environ or "matplotlib_inline" in os.environ.get("MPLBACKEND", "")
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown") and not notebook


@contextmanager
def listening(view: View) -> Iterator[Listener]:
    """Yield a listener for the events of a runner (see bench.sweep.runner) that shows them on standard error."""
    if view is View.AUTO:
        view = View.LIVE if controls_cursor() else View.LINES
    match view:
        case View.QUIET:
            yield lambda event: None
        case View.JSON:
            yield lambda event: print(json.dumps(event), file=sys.stderr, flush=True)
        case View.LINES:
            yield _Lines()
        case _:
            with _live() as listener:
                yield listener


class Count:
    """Counts of planned, finished, diverged and failed runs, running batches, and the estimated remaining time."""

    def __init__(self) -> None:
        self.runs = self.finished = self.diverged = self.failed = 0
        self.begun = time.monotonic()
        self.running: dict[str, Event] = {}

    def __call__(self, event: Event) -> None:
        name = event.get("run_batch", "")
        match event["event"]:
            case "planned":
                self.runs += event["runs"]
            case "begun":
                self.running[name] = {**event, "since": time.monotonic()}
            case "round" if name in self.running:
                self.running[name] |= {**event, "since": time.monotonic(), "stopped": None}
            case "stopped" if name in self.running:
                self.running[name] |= {"stopped": event["worker"]}
            case "finished":
                self.finished += event["runs"]
                self.diverged += event["diverged"]
                self.running.pop(name, None)
            case "failed" | "split":
                self.failed += event["runs"] if event["event"] == "failed" else 0
                self.running.pop(name, None)

    @property
    def done(self) -> float:
        """Finished runs; running ones count by the share of their rounds."""
        shares = (each["runs"] * each.get("round", 0) / each.get("rounds", 1) for each in self.running.values())
        return self.finished + sum(shares)

    @property
    def left(self) -> float | None:
        """Estimated remaining seconds at the average speed so far; None at the start."""
        return (time.monotonic() - self.begun) * (self.runs - self.done) / self.done if self.done else None


class _Lines:
    """Prints a line when a run batch ends."""

    def __init__(self) -> None:
        self.count = Count()

    def __call__(self, event: Event) -> None:
        self.count(event)
        if line := sentence(event):
            head = f"[{self.count.finished}/{self.count.runs}]"
            left = f", {duration(self.count.left)} left" if self.count.left and event["event"] == "finished" else ""
            print(f"{head} {line}{left}", file=sys.stderr, flush=True)


def sentence(event: Event) -> str:
    """Return an event as one line; empty for events that are not printed."""
    match event["event"]:
        case "planned" if event["runs"]:
            return f"{count(event['runs'], 'run')} to train in {batches(event['run_batches'])}"
        case "finished":
            diverged = f", {event['diverged']} diverged" if event["diverged"] else ""
            return f"{event['text']}: {count(event['runs'], 'run')} in {event['seconds']:.1f} s{diverged}"
        case "split":
            return f"{event['text']}: {event['error']}; retrying as two smaller batches"
        case "failed":
            return f"{event['text']}: failed, {event['error']}"
        case "quiet":
            return f"{event['text']}: no progress for {duration(event['seconds'])}"
        case "stopped":
            return f"{event['text']}: stalled, process {event['worker']} is stopped; continue or end it"
        case "waiting":
            return f"{event['text']}: waiting for {_process(event)}"
        case "taken over":
            return f"{event['text']}: taken over from {_process(event)}"
        case "note":
            return f"note: {event['text']}"
    return ""


def _process(event: Event) -> str:
    """Return the other process that an event names, and what to do if it is stalled."""
    process = holder(event)
    if not event["stalled"]:
        return process
    advice = "; continue or end it, or repeat the command with --steal" if event["event"] == "waiting" else ""
    return f"{process}, which is stalled: {stalled(event)}{advice}"


@contextmanager
def _live() -> Iterator[Listener]:
    """Show a bar and a table of running batches, removed at the end; failures are printed above it and stay."""
    from rich.console import Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from bench.sweep.lease import QUIET_AFTER

    shown, counts, lock = console(stderr=True), Count(), threading.Lock()

    def view() -> Group:
        with lock:
            running = list(counts.running.values())
            extra = (f", {counts.diverged} diverged" if counts.diverged else "") + (
                f", {counts.failed} failed" if counts.failed else "")  # fmt: skip
            left = "" if counts.left is None else f", {duration(counts.left)} left"
            head = f"{counts.finished} of {count(counts.runs, 'run')}{extra}{left}" if counts.runs else "preparing"
            table = Table.grid(padding=(0, 2))
            for each in running[:SHOWN]:
                loss = each.get("loss")
                rounds = f"round {each.get('round', 0)} of {each['rounds']}" if "rounds" in each else "starting"
                note = "" if loss is None else f"best validation loss {loss:.4g}"
                if each.get("stopped") is not None:
                    note = f"stalled: process {each['stopped']} is stopped"
                elif (quiet := time.monotonic() - each["since"]) >= QUIET_AFTER:
                    note = f"no progress for {duration(quiet)}"
                table.add_row(Text(each["text"]), rounds, note)
            bar = Table.grid()  # a bar alone does not end its line
            bar.add_row(ProgressBar(max(counts.runs, 1), counts.done, width=60))
            return Group(Text(head), bar, table)

    with Live(console=shown, get_renderable=view, refresh_per_second=4, transient=True), printable_streams():

        def listener(event: Event) -> None:
            with lock:
                counts(event)
            if event["event"] not in ("planned", "finished") and sentence(event):
                shown.print(sentence(event), highlight=False, markup=False)

        yield listener
