"""Standard output and error without characters that control a terminal.

Names in studies, data files, records and file systems may contain escape sequences or characters that reorder text.
Everything that a command prints is shown with such characters as JSON escapes, for example ``\\u001b``. JSON output
therefore keeps its meaning.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from bench.safe_text import printable

if TYPE_CHECKING:
    from rich.console import Console


class PrintableStream:
    """A text stream that writes printable text to ``stream``.

    Consoles of rich write escape sequences of their own and therefore use ``rich_proxied_file``.
    :func:`console` makes one that prints only printable text.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write ``text``; return its length."""
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all ``lines``."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def printable_streams() -> Iterator[None]:
    """Write only printable text to standard output and error until the block ends.

    Live displays of rich redirect both streams. Use this function inside them, too: rich would interpret escape
    sequences in the text.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = PrintableStream(before[0]), PrintableStream(before[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def printable_output() -> Iterator[None]:
    """Print only printable text until the block ends; an unexpected error ends the program with its traceback."""
    with printable_streams():
        try:
            yield
        except Exception:
            traceback.print_exc()  # Python would print it after the block
            sys.exit(1)


def console(*, stderr: bool = False) -> Console:
    """Return a console of rich that shows only printable text, with rich's own colours and cursor movements."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PrintableConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    stream = sys.stderr if stderr else sys.stdout
    return PrintableConsole(file=getattr(stream, "rich_proxied_file", stream))
