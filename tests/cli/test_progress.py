"""Progress output: the view for each place, and one line per event."""

from __future__ import annotations

import io
import json
import sys
import time

import pytest

from bench.cli.progress import View, controls_cursor, listening

PLANNED = {"event": "planned", "run_batches": 1, "runs": 2}
BEGUN = {"event": "begun", "run_batch": "a", "text": "fedavg on digits", "runs": 2}
FINISHED = {**BEGUN, "event": "finished", "diverged": 1, "seconds": 1.25}


class Terminal(io.StringIO):
    """Standard error as a terminal, or as the pseudo-terminal of a notebook."""

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace standard error by a terminal."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.delenv("MPLBACKEND", raising=False)
    return stream


def test_a_terminal_has_a_live_view(monkeypatch):
    stream = terminal(monkeypatch)
    assert controls_cursor()
    with listening(View.AUTO) as listener:
        listener(PLANNED)
    assert "\x1b[" in stream.getvalue()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("JPY_PARENT_PID", "17"), ("MPLBACKEND", "module://matplotlib_inline.backend_inline"), ("TERM", "dumb")],
)
def test_a_notebook_and_a_dumb_terminal_have_plain_lines(monkeypatch, variable, value):
    stream = terminal(monkeypatch)
    monkeypatch.setenv(variable, value)
    with listening(View.AUTO) as listener:
        for event in (PLANNED, BEGUN, FINISHED):
            listener(event)
            time.sleep(0.3)  # longer than a frame of the live view
    assert stream.getvalue().splitlines() == [
        "[0/2] 2 runs to train in 1 run batch",
        "[2/2] fedavg on digits: 2 runs in 1.2 s, 1 diverged",
    ]


def test_json_has_every_event_and_quiet_none(capsys):
    for view, expected in ((View.JSON, [PLANNED, BEGUN]), (View.QUIET, [])):
        with listening(view) as listener:
            for event in (PLANNED, BEGUN):
                listener(event)
        assert [json.loads(line) for line in capsys.readouterr().err.splitlines()] == expected


def test_failures_splits_and_notices_are_lines(capsys):
    with listening(View.LINES) as listener:
        listener({**BEGUN, "event": "split", "error": "out of memory"})
        listener({**BEGUN, "event": "failed", "runs": 2, "error": "ValueError"})
        listener({"event": "note", "text": "fedavg with Model cannot be stacked"})
    assert capsys.readouterr().err.splitlines() == [
        "[0/0] fedavg on digits: out of memory; retrying as two smaller batches",
        "[0/0] fedavg on digits: failed, ValueError",
        "[0/0] note: fedavg with Model cannot be stacked",
    ]
