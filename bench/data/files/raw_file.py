"""Description of one raw file of a data set: path, size, checksum and origin."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

from bench.types import DataError, nearest


@dataclass(frozen=True)
class RawFile:
    """One file that a data set is read from, as its card declares it.

    ``path`` is its place below a data folder, ``size`` its size in bytes. A file with ``urls`` (mirrors, https only)
    is downloaded and must have a ``sha256``, or an ``md5`` if the publisher gives no other checksum. If a URL ends in
    .gz and ``path`` does not, the file is decompressed during the download; size and checksum are those of the
    decompressed file. A file without ``urls`` comes from the user; ``obtain`` is a sentence that says how.

    ``alternatives`` are other files or folders with the same content; only the data set can check them. ``only_with``
    are options of the data set, with the values for which the file is needed; without any it is always needed.
    Raises :class:`DataError` for a description that cannot be used.
    """

    path: str
    sha256: str | None = None
    size: int | None = None
    urls: tuple[str, ...] = ()
    licence: str = ""
    md5: str | None = None
    alternatives: tuple[str, ...] = ()
    obtain: str = ""
    only_with: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            if not isinstance(name, str) or not name or PurePosixPath(name).is_absolute() or ".." in Path(name).parts:
                raise DataError(f"raw file {name!r}: expected a path below a data folder")
        if self.urls and not all(isinstance(url, str) and url.startswith("https://") for url in self.urls):
            raise DataError(f"{self.path}: urls = {list(self.urls)}: expected addresses that start with https://")
        if self.sha256 and self.md5:
            raise DataError(f"{self.path}: has a sha256 and an md5; give one of them")
        for key, digits in (("sha256", 64), ("md5", 32)):
            digest = getattr(self, key)
            if digest is not None and (len(digest) != digits or set(digest) - set("0123456789abcdef")):
                raise DataError(f"{self.path}: {key} = {digest!r}: expected {digits} hexadecimal digits in lower case")
        if self.size is not None and (type(self.size) is not int or self.size < 1):
            raise DataError(f"{self.path}: size = {self.size!r}: expected a number of bytes")
        if self.urls and not self.digest:
            raise DataError(f"{self.path}: has urls but no checksum; give its sha256")
        if not self.urls and not self.obtain:
            raise DataError(f"{self.path}: has no urls; say under obtain how to get the file")

    @classmethod
    def from_toml(cls, table: dict[str, Any]) -> RawFile:
        """Return the file that a TOML table describes; raise :class:`DataError` for an unknown or missing key."""
        known = [each.name for each in fields(cls)]
        for key in table:
            if key not in known:
                raise DataError(f"unknown key {key!r}: {nearest(key, known)}")
        if "path" not in table:
            raise DataError("there is no path; give the file's place below a data folder")
        lists: dict[str, Any] = {key: tuple(table[key]) for key in ("urls", "alternatives") if key in table}
        only_with = tuple(table.get("only_with", {}).items())
        return cls(**{**table, **lists, "only_with": only_with})

    @property
    def names(self) -> tuple[str, ...]:
        """The path, then the alternatives."""
        return (self.path, *self.alternatives)

    @property
    def digest(self) -> str:
        """The SHA-256 or MD5 checksum; empty if the publisher gives none."""
        return self.sha256 or self.md5 or ""

    @property
    def identity(self) -> str:
        """Size and checksum in words, as far as they are known."""
        size = "" if self.size is None else f"{self.size} bytes, "
        return size + (f"sha256 {self.sha256}" if self.sha256 else f"md5 {self.md5}")

    def deviation(self, file: Path) -> str:
        """Say how ``file`` differs from the published one; return an empty text if it does not."""
        algorithm = "sha256" if self.sha256 else "md5"
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, algorithm).hexdigest()
        size = file.stat().st_size
        if digest == self.digest and self.size in (None, size):
            return ""
        return f"expected {self.identity}, found {size} bytes, {algorithm} {digest}"

    def is_decompressed_from(self, url: str) -> bool:
        """Return whether ``url`` leads to a compressed version of the file."""
        return url.endswith(".gz") and not self.path.endswith(".gz")

    def remedy(self, place: Path) -> str:
        """Say how to get the file to ``place`` by hand."""
        if not self.urls:
            return self.obtain
        unpacked = ", decompress it" if self.is_decompressed_from(self.urls[0]) else ""
        facts = "; ".join(filter(None, (self.licence, self.identity)))
        return f"download {self.urls[0]}{unpacked} ({facts}) and save it as {place}"
