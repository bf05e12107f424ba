"""Results that the files of an earlier report show, so that damaged records never replace a better file.

A result is a number of a table or a figure. An existing file is better than a new one if it shows a result that the new
one lacks. Tables and figures with a missing run do not count as results of the new file: without the run another
setting may have been chosen, and its number would replace the right one.
"""

from __future__ import annotations

import csv
import io
from base64 import b64decode
from collections.abc import Collection, Mapping
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from bench.report.site.document import OVERVIEW

Result = tuple[str, ...]  # table, method, checkpoint and client; of a figure its id
TABLE, FIGURE = "data:text/csv", "figure-"


def in_table(text: str) -> set[Result]:
    """Return the numbers of a table's csv file by place; none if the file is damaged."""
    keys = ("table", "method", "checkpoint", "client")
    try:
        rows = list(csv.DictReader(io.StringIO(text)))
    except csv.Error:
        return set()
    return {tuple(row.get(key) or "" for key in keys) for row in rows if row.get("mean")}


def in_page(text: str) -> set[Result]:
    """Return the numbers of the tables that a page of the report embeds, and its figures."""
    page = _Page()
    page.feed(text)
    return page.results


def better_table(file: Path, new: str) -> bool:
    """Tell whether the existing csv ``file`` shows a result that the ``new`` content lacks."""
    return file.exists() and bool(in_table(_text(file)) - in_table(new))


def better_pages(site: Path, new: Mapping[str, str], incomplete: Collection[str]) -> list[str]:
    """Return the names of existing pages in the folder ``site`` that show a result that the new pages lack.

    ``new`` holds the new pages by file name, ``incomplete`` the ids of their tables and figures with a missing run. The
    overview is better if any page is.
    """
    better = [
        file.name
        for file in sorted(site.glob("*.html"))
        if in_page(_text(file)) - {each for each in in_page(new.get(file.name, "")) if each[0] not in incomplete}
    ]
    return [*better, OVERVIEW] if better else []


class _Page(HTMLParser):
    """Collects the results of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.results: set[Result] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Read an embedded csv file, or the id of a figure."""
        found = {name: value or "" for name, value in attributes}
        if found.get("href", "").startswith(TABLE):
            with suppress(ValueError):  # a damaged page
                content = b64decode(found["href"].partition(",")[2])
                self.results |= in_table(content.decode(errors="replace"))
        elif tag == "figure" and found.get("id", "").startswith(FIGURE):
            self.results.add((unquote(found["id"].removeprefix(FIGURE)),))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
