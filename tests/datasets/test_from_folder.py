"""Users' pictures: resized, numbered and split; hostile files are refused by name."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from bench import registry
from bench.data import load_dataset
from bench.types import DataError, Federation, SilobenchError, SpecError


def encoded(
    colour: tuple[int, int, int] | int, kind: str = "PNG", size: tuple[int, int] = (5, 4), **save: int
) -> bytes:
    stream = io.BytesIO()
    mode = "L" if isinstance(colour, int) else "RGB"
    Image.new(mode, size, colour).save(stream, kind, **save)
    return stream.getvalue()


def put(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


@pytest.fixture
def hospitals(tmp_path: Path) -> Path:
    """Two sites, four pictures each of two classes: red is healthy, blue is ill."""
    place = tmp_path / "hospitals"
    for site in ("north", "south"):
        for number in range(4):
            put(place / site / "healthy" / f"{number}.png", encoded((255, 0, 0)))
            put(place / site / "ill" / f"{number}.JPG", encoded((0, 0, 255), "JPEG", quality=100, subsampling=0))
    return place


def load(place: Path, **options: object) -> Federation:
    return load_dataset("from_folder", path=str(place), **{"size": 8} | options)


def test_pictures_are_scaled_and_numbered_by_class(hospitals: Path):
    federation = load(hospitals)
    assert (federation.name, federation.task, federation.classes) == ("hospitals", "binary", 2)
    assert [client.name for client in federation.clients] == ["north", "south"]
    for client in federation.clients:
        assert client.train.x.shape == (6, 3, 8, 8)
        assert client.test.x.shape == (2, 3, 8, 8)
        assert client.train.x.dtype == torch.uint8
        for part in (client.train, client.test):
            healthy = part.y[:, 0] == 0
            assert healthy.float().mean() == 0.5
            assert (part.x[healthy] == torch.tensor([255, 0, 0])[:, None, None]).all()
            assert (part.x[~healthy].int() - torch.tensor([0, 0, 255])[:, None, None]).abs().max() <= 2


def test_models_see_numbers_from_minus_one_to_one(hospitals: Path):
    federation = load(hospitals)
    seen = federation.prepare(torch.tensor([[0, 51], [255, 102]], dtype=torch.uint8))
    torch.testing.assert_close(seen, torch.tensor([[-1, -0.6], [1, -0.2]]))


def test_rows_and_columns_stay_what_they_are(hospitals: Path):
    picture = np.zeros((4, 4, 3), dtype=np.uint8)
    picture[0, 3] = 10, 20, 30
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG")
    for file in (hospitals / "north" / "ill").iterdir():
        file.unlink()
    put(hospitals / "north" / "ill" / "x.png", stream.getvalue())
    part = load(hospitals, size=4, split_seed=2).clients[0]
    x = torch.cat([part.train.x[part.train.y[:, 0] == 1], part.test.x[part.test.y[:, 0] == 1]])
    assert x[0, :, 0, 3].tolist() == [10, 20, 30]
    assert x.sum() == 60


def test_grey_has_one_channel(hospitals: Path):
    x = load(hospitals, channels=1).clients[0].train.x
    assert x.shape == (6, 1, 8, 8)
    assert torch.unique(x).tolist() == [29, 76]  # blue and red as luma


def test_more_classes_are_a_multi_class_task_and_a_site_may_lack_one(hospitals: Path):
    for number in range(2):
        put(hospitals / "south" / "unsure" / f"{number}.jpeg", encoded((0, 255, 0), "JPEG"))
    federation = load(hospitals)
    assert (federation.task, federation.classes) == ("multiclass", 3)
    assert [sorted(set(client.train.y.tolist())) for client in federation.clients] == [[0, 1], [0, 1, 2]]


def test_hidden_files_are_passed_over(hospitals: Path):
    same = load(hospitals).fingerprint
    put(hospitals / ".DS_Store", b"...")
    put(hospitals / "north" / "ill" / "._0.png", b"...")
    assert load(hospitals).fingerprint == same


def test_split_seed_decides_what_is_tested_on(hospitals: Path):
    for number in range(4):
        put(hospitals / "north" / "ill" / f"{number}.JPG", encoded((0, 0, 60 * number), "PNG"))
    seen = [load(hospitals, split_seed=seed).fingerprint for seed in (0, 0, 1, 2, 3)]
    assert seen[0] == seen[1]
    assert len(set(seen)) > 1


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def bomb(width: int, height: int) -> bytes:
    """A PNG header that states width x height pixels, with few bytes of data."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    lines = zlib.compress(bytes(1000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def deep() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((4, 4), 40000, dtype=np.uint16)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", r"is not an intact PNG or JPEG picture \("),
        (b"<html>", r"is not an intact PNG or JPEG picture \("),
        (encoded((9, 9, 9), size=(300, 300))[:-40], r"is not an intact PNG or JPEG picture \("),
        (encoded((9, 9, 9), "JPEG", size=(300, 300))[:-400], r"is not an intact PNG or JPEG picture \("),
        (encoded((9, 9, 9), "GIF"), r"is not an intact PNG or JPEG picture \("),
        (bomb(10_000, 10_000), "has 10000 x 10000 pixels, expected at most 67108864"),
        (bomb(60_000, 60_000), r"is not an intact PNG or JPEG picture \(.*decompression bomb"),
        (bomb(2**31 - 1, 1), r"is not an intact PNG or JPEG picture \(|has 2147483647 x 1 pixels"),
        (bomb(5_000, 5_000), r"is not an intact PNG or JPEG picture \("),
        (deep(), r"has more than 8 bits per channel \(mode I;16\); save it with 8"),
    ],
    ids=["empty", "page", "cut png", "cut jpeg", "gif", "large", "bomb", "long", "short of pixels", "16 bit"],
)
def test_hostile_pictures_are_refused_by_name(hospitals: Path, content: bytes, reason: str):
    put(hospitals / "south" / "ill" / "2.JPG", content)
    with pytest.raises(DataError, match=rf"south/ill/2\.JPG: ({reason})") as caught:
        load(hospitals)
    assert "\n" not in str(caught.value)


def test_links_are_refused(hospitals: Path, tmp_path: Path):
    put(tmp_path / "secret.png", encoded(7))
    (tmp_path / "elsewhere").mkdir()
    for link, target in (
        (hospitals / "north" / "ill" / "9.png", tmp_path / "secret.png"),
        (hospitals / "north" / "odd", tmp_path / "elsewhere"),
        (hospitals / "west", tmp_path / "elsewhere"),
        (hospitals / "north" / "ill" / "loop.png", hospitals / "north" / "ill" / "loop.png"),
    ):
        link.symlink_to(target)
        with pytest.raises(DataError, match=rf"{link.name}: is a link, expected a folder or a file"):
            load(hospitals)
        link.unlink()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("north/ill/notes.txt", r"notes\.txt: is not a picture, expected \.png, \.jpg, \.jpeg; move the file"),
        ("north/labels.csv", r"labels\.csv: is a file, expected a folder"),
        ("readme.md", r"readme\.md: is a file, expected a folder"),
        ("north/ill/deep/x.png", r"deep: is not a picture"),
    ],
)
def test_other_files_are_refused_by_name(hospitals: Path, place: str, message: str):
    put(hospitals / place, b"...")
    with pytest.raises(DataError, match=message):
        load(hospitals)


def test_pipes_are_refused_and_not_waited_for(hospitals: Path):
    os.mkfifo(hospitals / "north" / "ill" / "x.png")
    with pytest.raises(DataError, match=r"x\.png: is not a picture"):
        load(hospitals)


def test_missing_folders_and_pictures_are_named(tmp_path: Path, hospitals: Path):
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"none: there is no folder in it; expected one for each site"):
        load(tmp_path / "none")
    put(tmp_path / "one" / "north" / "ill" / "0.png", encoded(1))
    with pytest.raises(DataError, match="one: all samples are of class 'ill', expected at least 2 classes"):
        load(tmp_path / "one")
    put(hospitals / "west" / "ill" / "0.png", encoded(1))
    with pytest.raises(DataError, match=r"hospitals: site 'west' has 1 sample\(s\), expected at least 2; remove"):
        load(hospitals)


def test_more_than_the_memory_holds_is_not_read(hospitals: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.load("datasets", "from_folder").__globals__, "MAX_PICTURES_BYTES", 3000)
    with pytest.raises(DataError, match=r"hospitals: its pictures need .* give a smaller size"):
        load(hospitals)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "path = '': expected the path of your data"),
        ({"size": 0}, "size = 0: expected a whole number of pixels from 1 to 1024"),
        ({"size": 32.0}, "size = 32.0: expected a whole number of pixels"),
        ({"channels": 2}, r"channels = 2: expected 1 \(grey\) or 3 \(colour\)"),
        ({"channels": True}, "channels = True: expected 1"),
        ({"test_fraction": 0.0}, "test_fraction = 0.0: expected a share between 0 and 1"),
        ({"split_seed": "0"}, "split_seed = '0': expected a whole number from 0"),
    ],
)
def test_bad_options_are_refused(hospitals: Path, options: dict[str, object], message: str):
    with pytest.raises(SpecError, match=message):
        load_dataset("from_folder", **{"path": str(hospitals)} | options)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["PNG", "JPEG"]), place=st.integers(0, 600), bytes_=st.binary(min_size=1, max_size=8))
def test_any_damage_gives_a_picture_or_one_line(hospitals: Path, kind: str, place: int, bytes_: bytes):
    content = encoded((90, 60, 30), kind)
    put(hospitals / "north" / "ill" / "0.JPG", content[:place] + bytes_ + content[place + len(bytes_) :])
    try:
        load(hospitals)
    except SilobenchError as error:
        message = str(error)
        assert "\n" not in message
