"""Text on the terminal: no control characters, no change of direction, and rich's own output as it is."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.live import Live
from rich.text import Text

from bench.cli.terminal import PrintableStream, console, printable_output, printable_streams


def test_a_stream_writes_printable_text_and_passes_on_the_rest():
    raw = io.StringIO()
    stream = PrintableStream(raw)
    print("a", "\x1b]0;", file=stream)
    stream.writelines(["b\x1b", "c\n"])
    assert raw.getvalue() == "a \\u001b]0;\nb\\u001bc\n"
    assert not stream.isatty()


def test_tracebacks_are_printable_and_streams_are_restored(capsys):
    before = sys.stdout, sys.stderr
    with pytest.raises(SystemExit) as end, printable_output():
        raise RuntimeError("\x1b[2J")
    assert (end.value.code, sys.stdout, sys.stderr) == (1, *before)
    assert "RuntimeError: \\u001b[2J\n" in capsys.readouterr().err


def test_text_printed_beside_a_live_display_is_no_escape_sequence(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    raw = io.StringIO()
    monkeypatch.setattr(sys, "stderr", raw)
    with Live("bar", console=console(stderr=True)), printable_streams():
        print("\x1b]8;;http://example.org\x1b\\link \x1b[31mred", file=sys.stderr)
    assert "\\u001b]8;;http://example.org\\u001b\\link \\u001b[31mred" in raw.getvalue()
    assert sys.stderr is raw


def test_a_console_keeps_its_own_colours_and_shows_hostile_text_escaped(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    raw = io.StringIO()
    monkeypatch.setattr(sys, "stderr", PrintableStream(raw))
    console(stderr=True).print(Text("a\x1b[2J\u202e", style="bold"))
    assert raw.getvalue() == "\x1b[1ma\\u001b[2J\\u202e\x1b[0m\n"
    # A console that another library makes, for example typer for help texts, writes as before.
    Console(stderr=True).print(Text("help", style="bold"))
    assert raw.getvalue().endswith("\x1b[1mhelp\x1b[0m\n")
