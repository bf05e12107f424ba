"""Images and files embedded in a page as data URLs."""

from __future__ import annotations

import mimetypes
from base64 import b64encode
from collections.abc import Iterable
from typing import NamedTuple

from bench.report.site.content import Picture
from bench.report.tables import render
from bench.report.tables.table import Table


class EmbeddedImage(NamedTuple):
    """The data URL of an image, and its size in CSS pixels where the image states its resolution."""

    address: str
    width: int | None
    height: int | None


def image(picture: Picture) -> EmbeddedImage:
    """Return a picture's file as a data URL."""
    from PIL import Image

    kind = mimetypes.guess_type(picture.file.name)[0]
    content = picture.file.read_bytes()
    size: Iterable[int | None] = (None, None)
    if kind == "image/png":
        with Image.open(picture.file) as opened:
            # Figures are sized in inches for print; letters on a screen must be a third larger.
            size = (round(pixels / opened.info.get("dpi", (96, 96))[0] * 96 * 4 / 3) for pixels in opened.size)
    return EmbeddedImage(_address(kind or "", content), *size)


def table_file(table: Table, form: str) -> str:
    """Return a table's "csv" or "tex" file as a data URL."""
    kinds = {"csv": "text/csv;charset=utf-8", "tex": "text/plain;charset=utf-8"}
    return _address(kinds[form], render.content(table, form))


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"
