"""Downloads of raw files: https only, resumable, limited in size and time, and checked before they are used.

A planted link at the place of a file is refused. A folder on the way to it may be a link: the user chose the folder.
"""

from __future__ import annotations

import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin

from filelock import FileLock

from bench.data.files.raw_file import RawFile
from bench.types import DataError

TIMEOUT = 30  # seconds without a byte from the server
PACE = (60, 1 << 20)  # seconds, and the bytes that a server must send in them; this limits the total time
CHUNK = 1 << 16  # bytes
MAX_UNKNOWN_SIZE = 1 << 30  # bytes of a file whose size is not published
Watcher = Callable[[str, int, int | None], None]  # takes the path, the bytes received, the size in bytes if known
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` after every chunk of a download until the block ends."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def download(file: RawFile, target: Path) -> None:
    """Download ``file`` to ``target`` from the first mirror that sends the published bytes.

    Only one process downloads at a time. After a broken connection the next mirror, or the next call, resumes. Raises
    :class:`DataError` if no mirror sends the file or a link is in the way, OSError if ``target`` cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{file.digest[:16]}.part")
    lock = target.with_name(f"{target.name}.lock")
    failures = []
    _refuse_link(lock)
    with FileLock(lock):
        if target.is_file() and not file.deviation(target):
            return
        _refuse_link(target)
        _refuse_link(part)
        for url in file.urls:
            resumed = part.exists()
            failure = _attempt(file, url, part)
            if failure and resumed and not part.exists():  # the part was not a part of this file: start again
                failure = _attempt(file, url, part)
            if not failure:
                part.replace(target)
                return
            failures.append(f"{url}: {failure}")
    raise DataError(f"{file.path}: cannot be downloaded ({'; '.join(failures)}); {file.remedy(target)}")


def _refuse_link(place: Path) -> None:
    """Raise :class:`DataError` if ``place`` is a link, or anything else but a regular file with a single name."""
    if os.path.lexists(place):
        found = place.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise DataError(
                f"{place}: is a link or no regular file; delete it, or set BENCH_CACHE to a folder that only you can "
                "write to"
            )


def _attempt(file: RawFile, url: str, part: Path) -> str:
    """Complete ``part`` from ``url``; return why it failed, or an empty text.

    The part is kept if another attempt can resume it.
    """
    compressed = file.is_decompressed_from(url)
    try:
        with _opened(part, from_start=compressed) as stream:
            sink = _SizeLimit(stream, file)
            _keeping_pace(sink, lambda: _transfer(url, sink, _Decompressor(sink) if compressed else sink))
            os.fsync(stream.fileno())
        if deviation := file.deviation(part):
            raise WrongFileError(deviation)
    except OSError as error:
        # A compressed download cannot resume: the part holds decompressed bytes.
        if compressed or isinstance(error, WrongFileError) or not part.stat().st_size:
            part.unlink()
        return str(error)
    return ""


def _opened(part: Path, *, from_start: bool) -> BinaryIO:
    """Open ``part`` for writing, from its start or at its end; raise OSError for a link."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(part, flags | (os.O_TRUNC if from_start else os.O_APPEND), 0o666)
    return os.fdopen(descriptor, "wb" if from_start else "ab")


def _keeping_pace(sink: _SizeLimit, transfer: Callable[[], None]) -> None:
    """Run ``transfer``; raise OSError as soon as it writes fewer bytes to ``sink`` than ``PACE`` asks for.

    It runs in a thread of its own, because a server that sends a byte now and then blocks every call that reads a
    header or a chunk. A thread that is too slow is left behind and fails at its next write, when the file is closed.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            transfer()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
    thread.start()
    seconds, expected = PACE
    while thread.is_alive():
        written = sink.written
        thread.join(seconds)
        if thread.is_alive() and sink.written - written < expected:
            raise OSError(f"the server sent fewer than {expected} bytes in {seconds} seconds")
    if failed:
        raise failed[0]


class WrongFileError(OSError):
    """The server sends something else than the published file."""


class _SizeLimit:
    """A writable stream that refuses more bytes than the published size, so that no server can fill the disk."""

    def __init__(self, stream: BinaryIO, file: RawFile) -> None:
        self.stream = stream
        self.file = file
        self.limit = MAX_UNKNOWN_SIZE if file.size is None else file.size
        self.received = stream.tell()
        self.written = 0  # bytes, also those of an attempt from the beginning

    def check_response(self, response: Any, **_: Any) -> None:
        """Check the headers of a response; requests calls this before it follows a redirect or reads the body."""
        target = urljoin(response.url, response.headers.get("location", ""))
        if not target.startswith("https://"):
            raise OSError(f"redirected to {target}, which is not https")
        if response.status_code == 200:  # the whole file, even if a range was requested
            self.stream.truncate(0)
            self.received = 0
        elif response.status_code == 416 or (
            response.status_code == 206
            and not response.headers.get("content-range", "").startswith(f"bytes {self.received}-")
        ):
            raise WrongFileError(f"the server cannot resume after {self.received} bytes")

    def write(self, chunk: bytes) -> None:
        self.received += len(chunk)
        if self.received > self.limit:
            raise WrongFileError(f"the server sends more than the expected {self.limit} bytes")
        self.stream.write(chunk)
        self.written += len(chunk)
        if watcher := _watcher.get():
            watcher(self.file.path, self.received, self.file.size)

    def flush(self) -> None:
        self.stream.flush()


class _Decompressor:
    """A writable stream that decompresses gzip data and passes them on to ``sink``."""

    def __init__(self, sink: _SizeLimit) -> None:
        self.sink = sink
        self.gzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    def write(self, chunk: bytes) -> None:
        try:
            self.sink.write(self.gzip.decompress(chunk))
        except zlib.error as error:
            raise WrongFileError(f"the server does not send a gzip file ({error})") from error

    def flush(self) -> None:
        self.sink.flush()


def _transfer(url: str, sink: _SizeLimit, stream: _SizeLimit | _Decompressor) -> None:
    """Stream ``url`` into ``stream``; raise OSError on failure (all errors of requests are OSErrors)."""
    from pooch import HTTPDownloader  # imported here because the import takes longer than loading most data sets

    headers = {"Accept-Encoding": "identity"}  # ranges must count bytes of the file, not of a compressed transfer
    if sink.received:
        headers["Range"] = f"bytes={sink.received}-"
    downloader = HTTPDownloader(
        chunk_size=CHUNK, timeout=TIMEOUT, headers=headers, hooks={"response": sink.check_response}
    )
    downloader(url, stream, None)
