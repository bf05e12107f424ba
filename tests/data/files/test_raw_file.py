"""Descriptions of raw files: what is refused, and identity and deviation of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.data.files.raw_file import RawFile
from bench.types import DataError

SHA256 = hashlib.sha256(b"1,2").hexdigest()
URL = "https://one.example/file.data"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"size": 3}, r"^there is no path; give the file's place"),
        ({"path": "/etc/passwd", "obtain": "x"}, r"'/etc/passwd': expected a path below a data folder"),
        ({"path": "a", "alternatives": ["../b"], "obtain": "x"}, r"'\.\./b': expected a path below"),
        ({"path": 3, "obtain": "x"}, "raw file 3: expected a path"),
        ({"path": "a", "urls": ["http://one.example/a"], "sha256": SHA256}, "expected addresses that start with https"),
        ({"path": "a", "urls": [URL]}, "^a: has urls but no checksum; give its sha256$"),
        ({"path": "a", "urls": [URL], "sha256": SHA256, "md5": "0" * 32}, "has a sha256 and an md5; give one"),
        ({"path": "a", "urls": [URL], "sha256": SHA256[1:]}, "sha256 = .*: expected 64 hexadecimal digits"),
        ({"path": "a", "urls": [URL], "md5": "x" * 32}, "md5 = .*: expected 32 hexadecimal digits"),
        ({"path": "a", "sha256": SHA256, "size": "3", "obtain": "x"}, "size = '3': expected a number of bytes"),
        ({"path": "a"}, "^a: has no urls; say under obtain how to get the file$"),
        ({"path": "a", "url": URL}, "unknown key 'url': did you mean 'urls'"),
    ],
)
def test_wrong_descriptions_are_refused(table: dict[str, object], message: str):
    with pytest.raises(DataError, match=message):
        RawFile.from_toml(table)


def test_a_toml_table_gives_every_field():
    file = RawFile.from_toml(
        {"path": "a", "md5": "0" * 32, "urls": [URL], "alternatives": ["b"], "only_with": {"source": "files"}}
    )
    assert file == RawFile("a", md5="0" * 32, urls=(URL,), alternatives=("b",), only_with=(("source", "files"),))
    assert (file.names, file.digest) == (("a", "b"), "0" * 32)


@pytest.mark.parametrize(
    ("size", "content", "expected"),
    [
        (3, b"1,2", ""),
        (None, b"1,2", ""),
        (4, b"1,2", f"expected 4 bytes, sha256 {SHA256}, found 3 bytes, sha256 {SHA256}"),
        (None, b"1,3", f"expected sha256 {SHA256}, found 3 bytes, sha256 {hashlib.sha256(b'1,3').hexdigest()}"),
    ],
)
def test_a_deviation_names_what_was_expected_and_found(tmp_path: Path, size: int | None, content: bytes, expected: str):
    (tmp_path / "a").write_bytes(content)
    assert RawFile("a", SHA256, size, (URL,)).deviation(tmp_path / "a") == expected
