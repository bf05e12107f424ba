"""HTML files of the report: an overview and a page for each paper.

Each page is one file that loads nothing. Data sets, clients and methods may have hostile names: the templates escape
them, and the page's content security policy allows only the script and the style of this package.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import markupsafe

from bench import __version__
from bench.files import write_whole
from bench.report.provenance import MethodProvenance, sources
from bench.report.site import embed, markdown
from bench.report.site.cells import caption, cells_by_client, shown_cells
from bench.report.site.content import Exhibit, Page
from bench.report.site.interval_plot import IntervalPlot
from bench.report.site.totals import VERDICTS, counted, tally, totals
from bench.report.tables import render
from bench.report.tables.cell_text import summary
from bench.report.tables.verdicts import reach
from bench.types import SpecError

OVERVIEW = "index.html"
CLAIMS = ("does not follow", "cannot be checked", "follows")


def documents(pages: Sequence[Page], kept: Collection[str] = ()) -> dict[str, str]:
    """Return the overview and a page for each of ``pages`` as HTML by file name.

    The navigation also links to the existing files ``kept`` of an earlier report, which have no page here. Raise
    :class:`SpecError` for two pages with the same file name.
    """
    names = [OVERVIEW, *(page.file for page in pages)]
    for name in names:
        if names.count(name) > 1:
            owners = [page.paper for page in pages if page.file == name]
            raise SpecError(f"report: {' and '.join(map(repr, owners))} would both be written to {name}; rename one")
    texts = [_document("site_overview.html.j2", pages, kept=kept)]
    texts += [_document("site_paper.html.j2", pages, page=page, kept=kept) for page in pages]
    return dict(zip(names, texts, strict=True))


def write(made: Mapping[str, str], folder: Path) -> list[Path]:
    """Write :func:`documents` into ``folder``, each whole or not at all; return the paths."""
    return [write_whole(folder / name, text.encode()) for name, text in made.items()]


def _document(template: str, pages: Sequence[Page], **more: Any) -> str:
    place = Path(__file__).parent
    style, script = ((place / name).read_text(encoding="utf-8") for name in ("site.css", "site.js"))
    return (
        render.templates()
        .get_template(template)
        .render(
            pages=pages,
            version=__version__,
            style=markupsafe.Markup(style),
            script=markupsafe.Markup(script),
            policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
            "base-uri 'none'; form-action 'none'",
            anchor=_anchor,
            tally=tally,
            totals=totals,
            counted_exhibits=counted,
            lines=shown_cells,
            summary=summary,
            caption=caption,
            by_client=cells_by_client,
            interval_plot=IntervalPlot.of,
            reach=reach,
            sources=_sources,
            prose=lambda text: markupsafe.Markup(markdown.html(text)),
            headings=markdown.headings,
            picture=embed.image,
            file=embed.table_file,
            duration=_duration,
            verdicts=VERDICTS,
            claims=CLAIMS,
            **({"page": None} | more),
        )
    )


def _hash(text: str) -> str:
    """Return the source expression of a content security policy that allows only ``text``."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _anchor(kind: str, name: str) -> str:
    """Return a unique id for a part of a page that is valid in a URL."""
    return quote(f"{kind}-{name}", safe="")


def _sources(exhibit: Exhibit) -> list[MethodProvenance]:
    return sources(exhibit.table, exhibit.chosen)


def _duration(seconds: float) -> str:
    """Return a time in the largest unit of which it is at least one, with one decimal."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"
