"""What is heard of a sweep: a live view on a terminal, plain lines elsewhere, JSON lines for programs, or nothing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

Event = dict[str, Any]
Listener = Callable[[Event], None]


class View(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    LIVE = "live"
    LINES = "lines"
    JSON = "json"
    QUIET = "quiet"


@contextmanager
def listening(view: View) -> Iterator[Listener]:
    """A listener for the runner's events (see bench.sweep.runner), shown on standard error until the block ends."""
    if view is View.AUTO:
        view = View.LIVE if sys.stderr.isatty() else View.LINES
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
    """How far a sweep has come: runs of all and finished, run batches in work, the time that is left."""

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
                self.running[name] = dict(event)
            case "round" if name in self.running:
                self.running[name] |= event
            case "finished":
                self.finished += event["runs"]
                self.diverged += event["diverged"]
                self.running.pop(name, None)
            case "failed" | "split":
                self.failed += event["event"] == "failed"
                self.running.pop(name, None)

    @property
    def done(self) -> float:
        """Finished runs, those in work counted by the share of their rounds."""
        shares = (each["runs"] * each.get("round", 0) / each.get("rounds", 1) for each in self.running.values())
        return self.finished + sum(shares)

    @property
    def left(self) -> float | None:
        """Seconds that the rest takes if it goes on as so far; None before anything is done."""
        return (time.monotonic() - self.begun) * (self.runs - self.done) / self.done if self.done else None


class _Lines:
    """A line for every run batch that ends."""

    def __init__(self) -> None:
        self.count = Count()

    def __call__(self, event: Event) -> None:
        self.count(event)
        if line := sentence(event):
            head = f"[{self.count.finished}/{self.count.runs}]"
            left = f", {duration(self.count.left)} left" if self.count.left and event["event"] == "finished" else ""
            print(f"{head} {line}{left}", file=sys.stderr, flush=True)


def sentence(event: Event) -> str:
    """An event in words; empty for one that is not worth a line."""
    match event["event"]:
        case "planned" if event["runs"]:
            return f"{event['runs']} runs to train, in {event['run_batches']} run batches"
        case "finished":
            diverged = f", {event['diverged']} diverged" if event["diverged"] else ""
            return f"{event['text']}: {event['runs']} runs in {event['seconds']:.1f} s{diverged}"
        case "split":
            return f"{event['text']}: {event['error']}; trying halves of it"
        case "failed":
            return f"{event['text']}: failed, {event['error']}"
    return ""


def duration(seconds: float | None) -> str:
    """Seconds as a person says them."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s" if whole < 600 else f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


@contextmanager
def _live() -> Iterator[Listener]:
    """A table of what is in work below a bar of what is done, gone afterwards; failures stay."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    console, count, lock = Console(stderr=True), Count(), threading.Lock()

    def view() -> Group:
        with lock:
            running = list(count.running.values())
            extra = (f", {count.diverged} diverged" if count.diverged else "") + (
                f", {count.failed} run batches failed" if count.failed else "")  # fmt: skip
            head = f"{count.finished} of {count.runs} runs{extra}, {duration(count.left)} left"
            table = Table.grid(padding=(0, 2))
            for each in running[:20]:
                loss = each.get("loss")
                rounds = f"round {each.get('round', 0)} of {each['rounds']}" if "rounds" in each else "beginning"
                table.add_row(each["text"], rounds, "" if loss is None else f"best validation loss {loss:.4g}")
            return Group(Text(head), ProgressBar(max(count.runs, 1), count.done, width=60), table)

    with Live(console=console, get_renderable=view, refresh_per_second=4, transient=True):

        def listener(event: Event) -> None:
            with lock:
                count(event)
            if event["event"] in ("failed", "split"):
                console.print(sentence(event), highlight=False, markup=False)

        yield listener
