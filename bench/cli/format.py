"""Numbers, durations and aligned columns as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.safe_text import printable_line


def aligned(rows: Iterable[Sequence[str]], numbers_from: int | None = None) -> list[str]:
    """Return rows as printable lines with aligned columns; columns from ``numbers_from`` on are right-aligned."""
    rows = [[printable_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=False)]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if numbers_from is None or index < numbers_from else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(row) for row in rows]


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 run", "2 runs", "2 run batches"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def batches(number: int) -> str:
    """Return a number of run batches as text."""
    return count(number, "run batch", "run batches")


def number(value: float | None) -> str:
    """Return a number with at most four digits, "-" for None."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def exact(value: Any) -> str:
    """Return a value as in a study file, with all digits."""
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else json.dumps(value, ensure_ascii=False)


def brief(value: Any) -> str:
    """Return a value without quotation marks, numbers with at most six digits."""
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else exact(value)


def duration(seconds: float | None) -> str:
    """Return seconds as hours, minutes and seconds, as precise as useful; "?" for None."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s" if whole < 600 else f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def holder(lease: Mapping[str, Any]) -> str:
    """Return the process that holds a lease, and its worker if it has one."""
    worker = "" if lease["worker"] is None else f"worker {lease['worker']} of "
    return f"{worker}process {lease['pid']} on {lease['host']}"


def stalled(lease: Mapping[str, Any]) -> str:
    """Return the reason why the holder of a lease is stalled."""
    if lease["stopped"] is not None:
        return f"process {lease['stopped']} is stopped"
    return f"no heartbeat for {duration(lease['age'])}"


def as_json(content: object) -> str:
    """Return indented JSON."""
    return json.dumps(content, indent=2, ensure_ascii=False)
