"""The report: an overview and a page for each paper, every page one file that needs no other and asks nobody.

A page says where each table stands with the printed numbers, and leads from every number down to its records.
Whatever a page shows may have a hostile name (data sets, clients and methods can be anyone's): templates escape it,
and the page's own policy runs no script and takes no style but those written here.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import markupsafe

from bench import __version__
from bench.files import write_whole
from bench.report.audit.findings import Audit
from bench.report.provenance import MethodProvenance, behind, sources, versions
from bench.report.scores import HEADINGS, Record
from bench.report.site import markdown
from bench.report.site.interval_plot import IntervalPlot
from bench.report.tables import render
from bench.report.tables.compare import Agreement, agreement, reach
from bench.report.tables.table import Cell, Table
from bench.spec import PAPER
from bench.types import Chosen, SpecError

OVERVIEW = "index.html"
# Best first; a column of verdicts is sorted in this order.
VERDICTS = ("agrees", "same side", "off", "undefined", "not scored", "diverged", "missing", "")
CLAIMS = ("does not follow", "cannot be checked", "follows")


@dataclass(frozen=True)
class Exhibit:
    """A table and the runs behind it: ``chosen`` settings by the key that the table's rows are ``of``.

    A joint table has none: its numbers are those of other tables.
    """

    table: Table
    chosen: Mapping[str, Chosen] = field(default_factory=dict)

    @property
    def records(self) -> list[Record]:
        """The records of all runs behind the table that there are."""
        used = [self.chosen[of] for of in behind(self.table) if of in self.chosen]
        return [record for choice in used for record in choice.records if record is not None]

    @property
    def marks(self) -> list[str]:
        """What a reader has to know before any number of the table."""
        spec, table = self.table.spec, self.table
        found = {
            "synthetic data": table.synthetic,
            f"{spec.profile} profile": spec.profile != PAPER,
            "partial": table.partial,
            "incomplete": bool(table.incomplete),
        }
        return [mark for mark, holds in found.items() if holds]


@dataclass(frozen=True)
class Picture:
    """A figure: a png or svg ``file``, and in ``alt`` what it shows, for readers who do not see it."""

    id: str
    title: str
    file: Path
    alt: str


@dataclass(frozen=True)
class TrainingTime:
    """``runs`` that were trained together took ``seconds`` on ``machine``."""

    machine: str
    runs: int
    seconds: float


@dataclass(frozen=True)
class Page:
    """All there is to show of one paper, or of one study of your own.

    ``paper`` is its short name, ``absent`` the titles of tables and figures that no records were found for, ``notes``
    the findings as markdown.
    """

    paper: str
    title: str
    exhibits: tuple[Exhibit, ...] = ()
    pictures: tuple[Picture, ...] = ()
    absent: tuple[str, ...] = ()
    notes: str = ""
    audit: Audit | None = None
    costs: tuple[TrainingTime, ...] = ()

    @property
    def file(self) -> str:
        """The page's file name, made of letters, digits, points and hyphens."""
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', self.paper)}.html"

    @property
    def versions(self) -> list[str]:
        """What the runs behind the page's tables were made with."""
        return versions(record for exhibit in self.exhibits for record in exhibit.records)

    @property
    def machines(self) -> list[TrainingTime]:
        """The costs added up for each machine."""
        names = dict.fromkeys(cost.machine for cost in self.costs)
        own = [[cost for cost in self.costs if cost.machine == name] for name in names]
        return [
            TrainingTime(costs[0].machine, sum(cost.runs for cost in costs), sum(cost.seconds for cost in costs))
            for costs in own
        ]


class ShownCell(NamedTuple):
    """A cell as it is shown: over all clients, or of one of them."""

    cell: Cell
    checkpoint: str
    shown: render.Shown


class Tally(NamedTuple):
    """How many cells with a printed number have which verdict, and which conclusions hold."""

    counts: Mapping[str, int]
    held: Agreement

    @property
    def cells(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    @property
    def numberless(self) -> int:
        """How many have no number of ours."""
        return self.cells - sum(self.counts.get(word, 0) for word in ("agrees", "same side", "off"))


def write(pages: Sequence[Page], folder: Path) -> list[Path]:
    """Write the overview and a page for each of ``pages`` into ``folder``, each whole or not at all; returns the paths.

    Raises :class:`SpecError` for two pages with the same file name, before anything is written.
    """
    names = [OVERVIEW, *(page.file for page in pages)]
    for name in names:
        if names.count(name) > 1:
            owners = [page.paper for page in pages if page.file == name]
            raise SpecError(f"report: {name} would be made twice, of {' and '.join(map(repr, owners))}; rename one")
    texts = [_document("site_overview.html.j2", pages)]
    texts += [_document("site_paper.html.j2", pages, page=page) for page in pages]
    return [write_whole(folder / name, text.encode()) for name, text in zip(names, texts, strict=True)]


def tally(table: Table) -> Tally | None:
    """Where the table stands with the printed numbers; None where nothing is printed."""
    held = agreement(table)
    if held is None:
        return None
    found = [cell.verdict for cell in table.judged if cell.printed is not None]
    counts = {verdict: found.count(verdict) for verdict in VERDICTS if verdict in found}
    return Tally(counts, held)


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
            policy=f"default-src 'none'; img-src data:; style-src {_sealed(style)}; script-src {_sealed(script)}; "
            "base-uri 'none'; form-action 'none'",
            anchor=_anchor,
            tally=tally,
            lines=_lines,
            summary=render.summary,
            caption=_caption,
            by_client=_by_client,
            forest=IntervalPlot.of,
            reach=reach,
            sources=_sources,
            prose=lambda text: markupsafe.Markup(markdown.html(text)),
            picture=_inlined,
            file=_file,
            duration=_duration,
            verdicts=VERDICTS,
            claims=CLAIMS,
            **({"page": None} | more),
        )
    )


def _sealed(text: str) -> str:
    """The source expression of a content security policy that allows ``text`` alone."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _anchor(kind: str, name: str) -> str:
    """The id of a part of a page, which no other part has and an address can hold."""
    return quote(f"{kind}-{name}", safe="")


def _lines(table: Table) -> list[ShownCell]:
    return [_line(table, cell) for cell in table.overall]


def _line(table: Table, cell: Cell) -> ShownCell:
    return ShownCell(cell, HEADINGS[cell.checkpoint], render.shown(cell, render.digits(table, cell)))


def _by_client(table: Table) -> list[tuple[ShownCell, list[ShownCell]]]:
    """Each cell over all clients with those of the single clients; empty where a score has no single clients."""
    own: dict[tuple[str, str], list[ShownCell]] = {}
    for cell in table.cells:
        if cell.client != "all":
            own.setdefault((cell.method, cell.checkpoint), []).append(_line(table, cell))
    return [(line, own[line.cell.method, line.cell.checkpoint]) for line in _lines(table)] if own else []


def _caption(table: Table, of: Literal["all", "clients"] = "all") -> str:
    """What the numbers of a table are, or those of its single "clients" in a table of their own, in a sentence."""
    spec = table.spec
    metric = " or ".join(dict.fromkeys(spec.metric_of(row) for row in spec.rows))
    what = {
        "mean": metric,
        "fairness": f"variance of {metric} over clients, lower is fairer,",
        "participation": f"share of clients who gain {metric} by taking part",
        "parameters": "trained numbers of a model",
        "floats_up": "floats that a client sends each round",
        "floats_down": "floats that a client receives each round",
    }
    text = f"Shown: {what[spec.value]} on {spec.dataset}"
    text += ", on each client's test samples" * (of == "clients")
    if any(cell.ci95 is not None for cell in table.shown):
        text += f", {spec.center} ± radius of its 95 % interval"
    if of == "clients":
        return f"{text}."
    if any(cell.above_silo or cell.printed_above_silo for cell in table.shown):
        text += f"; * above {spec.silo} by more than both radii"
    if tally(table) and spec.one_run:
        text += "; a printed number, of one run, agrees where one further run of ours may fall"
    elif tally(table) and {cell.n_seeds for cell in table.judged if cell.mean is not None} == {1}:
        text += "; ours is one run without an interval, so that it agrees within the printed one only"
    return f"{text}."


def _sources(exhibit: Exhibit) -> list[MethodProvenance]:
    return sources(exhibit.table, exhibit.chosen)


class Image(NamedTuple):
    """An image as the address of its own content, with the CSS pixels it should take, where its drawn size is known."""

    address: str
    width: int | None
    height: int | None


def _inlined(picture: Picture) -> Image:
    from PIL import Image as Raster

    kind = mimetypes.guess_type(picture.file.name)[0]
    content = picture.file.read_bytes()
    size: Iterable[int | None] = (None, None)
    if kind == "image/png":
        with Raster.open(picture.file) as image:
            # Figures are drawn in inches for print; a screen's letters want a third more.
            size = (round(pixels / image.info.get("dpi", (96, 96))[0] * 96 * 4 / 3) for pixels in image.size)
    return Image(_address(kind or "", content), *size)


def _file(table: Table, form: str) -> str:
    """One of the table's files, as the address of its own content."""
    kinds = {"csv": "text/csv;charset=utf-8", "tex": "text/plain;charset=utf-8"}
    return _address(kinds[form], render.content(table, form))


def _duration(seconds: float) -> str:
    """A time as people say it: the largest unit that is at least one, with a digit more."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"
