"""Markdown of a findings file as HTML that fits into a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

BOX = '<div class="wide" role="region" aria-label="Table" tabindex="0">'
WEB = ("https://", "http://")


def html(text: str) -> str:
    """Return ``text`` as HTML whose topmost heading is an h2; raw HTML is escaped, and tables scroll on their own.

    Links to the web are kept. Other links and images are replaced by their text, because the files that they name do
    not lie beside the page. Headings have the ids of :func:`headings`.
    """
    reader = _reader()
    reader.add_render_rule("table_open", lambda *_: f"{BOX}<table>")
    reader.add_render_rule("table_close", lambda *_: "</table></div>\n")
    tokens = reader.parse(text)
    for opening, name, _ in _headings(tokens):
        opening.attrSet("id", name)
    for token in tokens:
        _fit(token)
    return str(reader.renderer.render(tokens, reader.options, {}))


def headings(text: str) -> list[tuple[str, str]]:
    """Return the id and the text of each heading but the title."""
    return [(name, heading) for opening, name, heading in _headings(_reader().parse(text)) if opening.tag != "h1"]


def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _headings(tokens: list[Token]) -> Iterator[tuple[Token, str, str]]:
    """Yield the opening token, a unique id and the text of each heading."""
    for number, (opening, inline) in enumerate(pairwise(tokens)):
        if opening.type == "heading_open":
            heading = "".join(child.content for child in inline.children or ())
            yield opening, f"findings-{number}-{re.sub(r'[^a-z0-9]+', '-', heading.lower()).strip('-')}", heading


def _fit(token: Token) -> None:
    if token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
    if token.type in ("th_open", "td_open"):
        # The pages' policy forbids style attributes.
        alignment = str(token.attrs.pop("style", "")).removeprefix("text-align:")
        if alignment:
            token.attrSet("class", alignment)
    if token.type == "th_open":
        token.attrSet("scope", "col")
    if token.children:
        token.children = _linked(token.children)


def _linked(tokens: list[Token]) -> list[Token]:
    """Return ``tokens`` without images and without links to files; their texts stay."""
    kept, web = [], True
    for token in tokens:
        if token.type == "link_open":
            web = str(token.attrGet("href")).startswith(WEB)
        if web or token.type not in ("link_open", "link_close"):
            kept.append(Token("text", "", 0, content=token.content) if token.type == "image" else token)
    return kept
