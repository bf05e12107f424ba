"""Checked raw files and downloads: order of folders, refused content, resumed transfers. No test opens a connection."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import os
import re
import socket
import threading
import zipfile
from pathlib import Path

import pytest
from requests import ConnectionError as NoConnection
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from bench.data.files.download import watched
from bench.data.files.locate import find, locate, locate_unpacked
from bench.data.files.manifest import MANIFEST
from bench.data.files.raw_file import RawFile
from bench.types import DataError

CONTENT = b"1,2,3\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = "https://one.example/file.data"
MIRROR = "https://two.example/file.data"
FILE = RawFile("folder/file.data", SHA256, len(CONTENT), (URL, MIRROR), "CC0")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no data folder."""
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.delenv("BENCH_OFFLINE", raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Broken(io.BytesIO):
    """A connection that breaks after its last byte."""

    def read(self, size: int = -1) -> bytes:
        if chunk := super().read(size):
            return chunk
        raise NoConnection("connection broken")


class Server:
    """Answers instead of the network: ``pages`` maps an address to (status, headers, body).

    A page in ``continuing`` is sent from the requested byte; a page in ``breaking`` stops after that number of bytes.
    """

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.continuing: set[str] = set()
        self.breaking: dict[str, int] = {}
        self.asked: list[str] = []
        self.ranges: list[str | None] = []

    def send(self, request: PreparedRequest) -> Response:
        self.asked.append(str(request.url))
        self.ranges.append(request.headers.get("Range"))
        if request.url not in self.pages:
            raise NoConnection("no route to host")
        response = Response()
        response.status_code, headers, body = self.pages[request.url]
        response.headers.update(headers)
        if (asked := self.ranges[-1]) and request.url in self.continuing:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            response.status_code = 206 if begin < len(body) else 416
            response.headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
            body = body[begin:]
        breaks = self.breaking.get(str(request.url))
        response.raw = io.BytesIO(body) if breaks is None else Broken(body[:breaks])
        response.url, response.request = str(request.url), request
        return response


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(HTTPAdapter, "send", lambda self, request, **options: server.send(request))
    return server


def put(folder: Path, content: bytes = CONTENT, path: str = FILE.path) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def left_in(cache: Path) -> list[str]:
    return sorted(file.name for file in cache.rglob("*") if file.is_file() and file.suffix != ".lock")


def test_root_goes_before_data_folder_before_cache(
    tmp_path: Path, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    in_cache = put(cache)
    assert locate(FILE) == in_cache
    in_data = put(tmp_path / "data", path="file.data")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "data"))
    assert locate(FILE) == in_data
    in_root = put(tmp_path / "root")
    assert locate(FILE, tmp_path / "root") == in_root
    assert server.asked == []


@pytest.mark.parametrize("path", ["folder/file.data", "file.data"])
@pytest.mark.parametrize("origin", ["root", "BENCH_DATA"])
def test_a_wrong_file_of_the_user_is_named_and_never_replaced(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, path: str, origin: str
):
    server.pages[URL] = (200, {}, CONTENT)
    wrong = put(tmp_path / "own", b"1,2,4\n", path)
    if origin == "BENCH_DATA":
        monkeypatch.setenv("BENCH_DATA", str(tmp_path / "own"))
    with pytest.raises(DataError) as caught:
        locate(FILE, tmp_path / "own" if origin == "root" else None)
    found = hashlib.sha256(b"1,2,4\n").hexdigest()
    assert all(word in str(caught.value) for word in (str(wrong), SHA256, found, URL))
    assert wrong.read_bytes() == b"1,2,4\n"
    assert server.asked == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(DataError, match=r"root = .*nowhere: there is no such folder"):
        locate(FILE, tmp_path / "nowhere")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"BENCH_DATA = .*elsewhere: there is no such folder"):
        locate(FILE)


@pytest.mark.parametrize("damaged", [False, True])
def test_offline_opens_no_socket_and_says_what_to_put_where(
    cache: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    if damaged:
        put(cache, b"damaged")
    with pytest.raises(DataError) as caught:
        locate(FILE)
    expected = ("folder/file.data: not found in", "BENCH_OFFLINE", URL, "CC0", SHA256, str(cache / FILE.path))
    assert all(word in str(caught.value) for word in expected)
    assert "\n" not in str(caught.value)


def test_a_download_is_kept(cache: Path, server: Server):
    server.pages[URL] = (200, {}, CONTENT)
    assert locate(FILE) == locate(FILE) == cache / "folder" / "file.data"
    assert (cache / "folder" / "file.data").read_bytes() == CONTENT
    assert server.asked == [URL]
    assert left_in(cache) == ["file.data"]


def test_a_damaged_cache_is_mended(cache: Path, server: Server):
    server.pages[URL] = (200, {}, CONTENT)
    put(cache, b"damaged")
    assert locate(FILE).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "page",
    [
        None,
        (404, {}, b"gone"),
        (200, {}, b"<html>"),
        (200, {}, b"<html>please log in</html>"),
        (200, {}, CONTENT[:-1]),
        (302, {"location": "http://one.example/plain"}, b""),
    ],
    ids=["unreachable", "missing", "page of the right size", "long page", "cut off", "plain http"],
)
def test_the_next_mirror_is_tried(cache: Path, server: Server, page: tuple[int, dict[str, str], bytes] | None):
    if page:
        server.pages[URL] = page
    server.pages["http://one.example/plain"] = (200, {}, CONTENT)
    server.pages[MIRROR] = (200, {}, CONTENT)
    assert locate(FILE).read_bytes() == CONTENT
    assert server.asked == [URL, MIRROR]
    assert left_in(cache) == ["file.data"]


def test_a_redirect_to_https_is_followed(server: Server):
    server.pages[URL] = (302, {"location": "/moved"}, b"")
    server.pages["https://one.example/moved"] = (200, {}, CONTENT)
    assert locate(FILE).read_bytes() == CONTENT


def test_without_a_good_mirror_everything_tried_is_told_and_nothing_left(cache: Path, server: Server):
    server.pages[URL] = (200, {}, b"<html>please log in</html>")
    with pytest.raises(DataError) as caught:
        locate(FILE)
    expected = (
        f"folder/file.data: cannot be downloaded ({URL}: the server sends more than the expected 6 bytes; "
        f"{MIRROR}: no route to host); download {URL} (CC0; 6 bytes, sha256 {SHA256}) "
        f"and save it as {cache / FILE.path}"
    )
    assert str(caught.value) == expected
    assert left_in(cache) == []


def test_the_next_mirror_continues_where_a_connection_broke(cache: Path, server: Server):
    server.pages = {URL: (200, {}, CONTENT), MIRROR: (200, {}, CONTENT)}
    server.breaking, server.continuing = {URL: 4}, {MIRROR}
    assert locate(FILE).read_bytes() == CONTENT
    assert (server.asked, server.ranges) == ([URL, MIRROR], [None, "bytes=4-"])
    assert left_in(cache) == ["file.data"]


def test_the_next_call_continues_where_all_connections_broke(server: Server):
    server.pages, server.breaking = {URL: (200, {}, CONTENT)}, {URL: 4}
    with pytest.raises(DataError, match="connection broken"):
        locate(FILE)
    server.breaking, server.continuing = {}, {URL}
    assert locate(FILE).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=4-"


def test_a_server_that_cannot_continue_sends_all_again(server: Server):
    server.pages = {URL: (200, {}, CONTENT), MIRROR: (200, {}, CONTENT)}
    server.breaking = {URL: 4}
    assert locate(FILE).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=4-"]


@pytest.mark.parametrize("begun", [b"<htm", CONTENT + b"more"], ids=["of another file", "too long"])
def test_a_wrong_beginning_is_not_continued_twice(cache: Path, server: Server, begun: bytes):
    put(cache, begun, f"{FILE.path}.{SHA256[:16]}.part")
    server.pages, server.continuing = {URL: (200, {}, CONTENT)}, {URL}
    assert locate(FILE).read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(begun)}-", None]
    assert left_in(cache) == ["file.data"]


def test_a_watcher_is_told_how_far_a_download_is(server: Server):
    told: list[tuple[str, int, int | None]] = []
    server.pages = {URL: (200, {}, CONTENT), MIRROR: (200, {}, CONTENT)}
    server.breaking, server.continuing = {URL: 4}, {MIRROR}
    with watched(lambda *news: told.append(news)):
        locate(FILE)
    assert told == [(FILE.path, 4, 6), (FILE.path, 6, 6)]


class Dripping(io.BytesIO):
    """A connection that sends a byte now and then until the test ends."""

    ended = threading.Event()

    def read(self, size: int = -1) -> bytes:
        self.ended.wait(0.01)
        return b"" if self.ended.is_set() else b"1"


def test_15_7_a_server_that_drips_is_left_for_the_next_mirror(
    cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bench.data.files.download.PACE", (0.2, 1000))
    big = dataclasses.replace(FILE, size=1 << 20)
    server.pages = {URL: (200, {}, b"")}
    sent = server.send
    monkeypatch.setattr(HTTPAdapter, "send", lambda self, request, **_: dripping(sent(request)))

    def dripping(response: Response) -> Response:
        response.raw = Dripping()
        return response

    with pytest.raises(DataError, match=r"sent fewer than 1000 bytes in 0.2 seconds.*two.example.*no route to host"):
        locate(big)
    assert server.asked == [URL, MIRROR]
    # The headers can drip, too.
    monkeypatch.setattr(HTTPAdapter, "send", lambda self, request, **_: Dripping.ended.wait(20))
    with pytest.raises(DataError, match=r"one.example.*sent fewer.*two.example.*sent fewer"):
        locate(big)
    Dripping.ended.set()


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "folder", "pipe"])
@pytest.mark.parametrize("suffix", ["", f".{SHA256[:16]}.part", ".lock"])
def test_15_7_a_planted_link_is_refused_and_its_aim_kept(cache: Path, server: Server, kind: str, suffix: str):
    server.pages[URL] = (200, {}, CONTENT)
    aim = put(cache.parent, b"precious", "precious")
    planted = cache / f"{FILE.path}{suffix}"
    planted.parent.mkdir(parents=True)
    plant = {"symlink": planted.symlink_to, "hardlink": planted.hardlink_to}
    if kind in plant:
        plant[kind](aim)
    elif kind == "folder":
        planted.mkdir()
    else:
        os.mkfifo(planted)
    with pytest.raises(DataError, match=rf"{re.escape(planted.name)}: is a link or no regular file; delete it"):
        locate(FILE)
    assert (aim.read_bytes(), server.asked) == (b"precious", [])


def test_a_link_to_the_published_file_and_a_linked_folder_are_the_users_choice(cache: Path, server: Server):
    aim = put(cache.parent / "big disk")
    cache.mkdir()
    (cache / "folder").symlink_to(aim.parent)
    assert locate(FILE) == cache / FILE.path
    aim.unlink()
    server.pages[URL] = (200, {}, CONTENT)
    assert locate(FILE).read_bytes() == aim.read_bytes() == CONTENT


def test_callers_at_the_same_time_download_once(cache: Path, server: Server):
    server.pages[URL] = (200, {}, CONTENT)
    barrier = threading.Barrier(4)
    found: list[Path] = []

    def ask() -> None:
        barrier.wait()
        found.append(locate(FILE))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cache / FILE.path] * 4
    assert server.asked == [URL]


def test_a_cache_that_cannot_be_written_is_named(cache: Path, server: Server):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"cannot be written .* set BENCH_CACHE to a folder of yours"):
        locate(FILE)
    assert server.asked == []


PACKED_URLS = ("https://one.example/file.gz", "https://two.example/file.gz")
PACKED = RawFile("folder/file", SHA256, len(CONTENT), PACKED_URLS, "MIT")


def test_a_packed_file_is_unpacked_on_the_way(cache: Path, server: Server):
    server.pages[PACKED_URLS[0]] = (200, {}, gzip.compress(CONTENT))
    assert locate(PACKED).read_bytes() == CONTENT
    assert left_in(cache) == ["file"]


@pytest.mark.parametrize(
    "body",
    [CONTENT, gzip.compress(b"other\n"), gzip.compress(bytes(10**6)), gzip.compress(CONTENT)[:-12]],
    ids=["not packed", "other content", "bomb", "cut off"],
)
def test_a_wrong_packed_file_is_passed_over(cache: Path, server: Server, body: bytes):
    server.pages[PACKED_URLS[0]] = (200, {}, body)
    server.pages[PACKED_URLS[1]] = (200, {}, gzip.compress(CONTENT))
    assert locate(PACKED).read_bytes() == CONTENT
    assert server.asked == list(PACKED_URLS)
    assert left_in(cache) == ["file"]


def test_the_remedy_says_to_decompress():
    with pytest.raises(DataError, match=r"download https://one\.example/file\.gz, decompress it \(MIT; 6 bytes"):
        locate(PACKED)


def test_an_md5_stands_in_for_a_sha256(cache: Path, server: Server):
    file = dataclasses.replace(FILE, sha256=None, size=None, md5=hashlib.md5(CONTENT).hexdigest())
    server.pages[URL] = (200, {}, b"1,2,4\n")
    server.pages[MIRROR] = (200, {}, CONTENT)
    assert locate(file).read_bytes() == CONTENT
    assert server.asked == [URL, MIRROR]


def test_a_file_without_a_published_size_is_capped_too(cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bench.data.files.download.MAX_UNKNOWN_SIZE", 5)
    server.pages[URL] = (200, {}, CONTENT)
    with pytest.raises(DataError, match="the server sends more than the expected 5 bytes"):
        locate(dataclasses.replace(FILE, sha256=None, size=None, md5=hashlib.md5(CONTENT).hexdigest()))


def test_an_unpinned_file_is_found_in_the_users_folders_only(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    put(cache)
    assert find(FILE.path) is None
    in_data = put(tmp_path / "data", path="file.data")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "data"))
    assert find(FILE.path) == in_data


def test_members_of_an_archive_are_unpacked_once(tmp_path: Path, cache: Path, server: Server):
    packed = tmp_path / "made.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner/wanted", b"1")
        archive.writestr("inner/other", b"2")
    body = packed.read_bytes()
    file = RawFile("made.zip", hashlib.sha256(body).hexdigest(), len(body), (URL,), "CC0")
    server.pages[URL] = (200, {}, body)
    folder = locate_unpacked(file, ["inner/wanted"])
    assert sorted(file.name for file in folder.rglob("*") if file.is_file()) == [MANIFEST, "wanted"]
    (cache / "made.zip").unlink()
    assert locate_unpacked(file, ["inner/wanted"]) == folder
    assert server.asked == [URL]
    (folder / "inner" / "wanted").write_bytes(b"2")
    with pytest.raises(DataError, match=r"wanted: is damaged: expected sha256 .*; delete the folder"):
        locate_unpacked(file, ["inner/wanted"])
