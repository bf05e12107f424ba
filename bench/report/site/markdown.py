"""Markdown of a findings file as HTML that fits into a page: no markup of its own, nothing loaded, no broken link."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.token import Token

BOX = '<div class="wide" role="region" aria-label="Table" tabindex="0">'
WEB = ("https://", "http://")


def html(text: str) -> str:
    """``text`` as HTML whose topmost heading is an h2; tables scroll in a box of their own.

    Only links to the web stay links: files that lie beside the text do not lie beside the page. Of an image its words
    are left.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    reader.add_render_rule("table_open", lambda *_: f"{BOX}<table>")
    reader.add_render_rule("table_close", lambda *_: "</table></div>\n")
    tokens = reader.parse(text)
    for token in tokens:
        _fit(token)
    return str(reader.renderer.render(tokens, reader.options, {}))


def _fit(token: Token) -> None:
    if token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
    if token.type in ("th_open", "td_open"):
        # Pages forbid style attributes, so that nobody can smuggle one in.
        alignment = str(token.attrs.pop("style", "")).removeprefix("text-align:")
        if alignment:
            token.attrSet("class", alignment)
    if token.type == "th_open":
        token.attrSet("scope", "col")
    if token.children:
        token.children = _linked(token.children)


def _linked(tokens: list[Token]) -> list[Token]:
    """``tokens`` without images and the links that would lead nowhere; their words stay."""
    kept, web = [], True
    for token in tokens:
        if token.type == "link_open":
            web = str(token.attrGet("href")).startswith(WEB)
        if web or token.type not in ("link_open", "link_close"):
            kept.append(Token("text", "", 0, content=token.content) if token.type == "image" else token)
    return kept
