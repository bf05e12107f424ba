"""Photographs: colour constancy, crops, and augmentation as a function of keys."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from bench.data.readers import photographs
from bench.data.readers.images import Normalise
from bench.data.readers.photographs import (
    AugmentPhotographs,
    CentreCrop,
    centre_square,
    read_jpeg,
    shades_of_grey,
    standardised,
)
from bench.types import DataError

PIXELS = Normalise(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
PLAIN = AugmentPhotographs(PIXELS, size=20, scaling=0.0, rotation=0.0, brightness=0.0, contrast=0.0, hole=0)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def stored(number: int, side: int = 30) -> torch.Tensor:
    return torch.from_numpy(noise(number, 3, side, side))


def bright(x: torch.Tensor) -> torch.Tensor:
    """Normalised photographs back in [0, 1]."""
    return x * torch.tensor(PIXELS.std)[:, None, None] + torch.tensor(PIXELS.mean)[:, None, None]


def test_the_light_by_hand():
    """A uniform light (100, 100, 200): unit vector (1, 1, 2) / sqrt 6, so gains sqrt 2, sqrt 2 and sqrt 2 / 2."""
    pixels = np.full((4, 5, 3), (100, 100, 200), dtype=np.uint8)
    assert shades_of_grey(pixels)[0, 0].tolist() == [141, 141, 141]


def test_too_bright_values_wrap_around():
    """Half of the pixels: light (a, a, 2a), gains as above, and 250 * sqrt 2 = 353.55 becomes 97."""
    pixels = np.zeros((2, 1, 3), dtype=np.uint8)
    pixels[0] = 125, 125, 250
    pixels[1] = 125, 250, 250
    light = np.power((np.power(pixels.astype(np.float64), 6)).mean(axis=(0, 1)), 1 / 6)
    gain = np.linalg.norm(light) / light / np.sqrt(3)
    assert (pixels[0] * gain).max() > 177
    np.testing.assert_array_equal(shades_of_grey(pixels), np.floor(pixels * gain) % 256)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 255))
def test_the_light_does_not_depend_on_the_order_of_pixels(seed: int, brightest: int):
    pixels = np.random.default_rng(seed).integers(0, brightest + 1, (6, 7, 3), dtype=np.uint8)
    made = shades_of_grey(pixels).astype(int)
    turned = shades_of_grey(pixels[::-1, ::-1]).astype(int)[::-1, ::-1]
    assert (np.abs(made - turned) % 255 <= 1).all()


def test_a_black_photograph_stays_black():
    assert not shades_of_grey(np.zeros((3, 3, 3), dtype=np.uint8)).any()


@pytest.mark.parametrize(
    ("size", "expected"), [((600, 450), (298, 224)), ((1024, 1024), (224, 224)), ((300, 500), (224, 373))]
)
def test_the_shorter_side_rules(size: tuple[int, int], expected: tuple[int, int]):
    image = Image.fromarray(noise(size[1], size[0], 3))
    made = standardised(image, 224)
    assert made.size == expected
    assert made.format == "JPEG"


def test_rounding_down_may_cost_a_pixel():
    assert standardised(Image.fromarray(noise(277, 400, 3)), 224).size[1] == 223


def test_centre_square_by_hand():
    pixels = noise(5, 8, 3)
    np.testing.assert_array_equal(centre_square(pixels, 4), pixels[0:4, 2:6])
    np.testing.assert_array_equal(centre_square(pixels[:3], 4), np.concatenate([pixels[:1], pixels[:3]])[:, 2:6])


@settings(max_examples=60, deadline=None)
@given(st.integers(223, 400), st.integers(223, 400))
def test_the_middle_of_a_square_is_the_middle_of_the_photograph(height: int, width: int):
    """The centre crop of 200 pixels of the photograph equals the centre crop of the square."""
    pixels = np.arange(height * width * 3).reshape(height, width, 3)
    top, left = (height - 200) // 2, (width - 200) // 2
    np.testing.assert_array_equal(
        centre_square(pixels, 224)[12:212, 12:212], pixels[top : top + 200, left : left + 200]
    )


def test_without_changes_the_middle_is_seen():
    x = stored(2, side=24)
    torch.testing.assert_close(CentreCrop(PIXELS, 20)(x), PIXELS(x[:, :, 2:22, 2:22]), rtol=0, atol=0)
    assert CentreCrop(PIXELS, 20) == CentreCrop(PIXELS, 20)


def test_augmentation_depends_on_the_key_alone():
    x, keys = stored(6), torch.arange(6) * 7919
    augment = AugmentPhotographs(PIXELS, size=20, hole=4)
    made = augment(x, keys)
    assert made.shape == (6, 3, 20, 20)
    torch.testing.assert_close(augment(x[[4, 1]], keys[[4, 1]]), made[[4, 1]], rtol=0, atol=0)
    assert not torch.allclose(augment(x, keys + 1), made)


def crops(x: torch.Tensor) -> dict[tuple[int, int, int], torch.Tensor]:
    """All mirrored crops (3, 20, 20) of a photograph (3, 24, 24) by way, top and left."""
    ways = {0: [], 1: [2], 2: [1], 3: [1, 2]}
    return {
        (way, top, left): x[:, top : top + 20, left : left + 20].flip(axes)
        for way, axes in ways.items()
        for top in range(5)
        for left in range(5)
    }


def test_without_other_changes_it_is_a_mirrored_crop_of_whole_pixels():
    x = stored(1, side=24)
    choices = crops(PIXELS(x)[0])
    every = torch.stack(list(choices.values()))
    made = PLAIN(x.expand(200, -1, -1, -1), torch.arange(200))
    nearest = [int((every[:, 0] - one[0]).abs().amax(dim=(1, 2)).argmin()) for one in made]
    torch.testing.assert_close(made, every[nearest], rtol=0, atol=1e-4)
    ways = np.bincount([list(choices)[index][0] for index in nearest], minlength=4)
    assert 70 < ways[0] < 130
    assert (ways[1:] > 15).all()
    assert {list(choices)[index][1] for index in nearest} == set(range(5))


def test_brightness_and_contrast_stay_within_their_limits():
    augment = AugmentPhotographs(PIXELS, size=20, scaling=0.0, rotation=0.0, hole=0)
    grey = torch.full((300, 3, 30, 30), 102.0)  # 0.4
    values = bright(augment(grey, torch.arange(300)))[:, 0, 0, 0]
    assert values.min() >= 0.4 * 0.9 - 0.15 - 1e-5
    assert values.max() <= 0.4 * 1.1 + 0.15 + 1e-5
    unchanged = ((values - 0.4).abs() < 1e-5).sum()
    assert 110 < unchanged < 190
    assert values.std() > 0.03


def test_white_stays_white_at_most():
    augment = AugmentPhotographs(PIXELS, size=20, hole=0)
    assert bright(augment(torch.full((50, 3, 30, 30), 255.0), torch.arange(50))).max() <= 1 + 1e-5


def test_holes_are_black_squares():
    augment = AugmentPhotographs(PIXELS, size=20, scaling=0.0, rotation=0.0, brightness=0.0, contrast=0.0, hole=3)
    made = bright(augment(torch.full((300, 3, 30, 30), 255.0), torch.arange(300)))
    black = (made < 1e-5).all(dim=1)
    torch.testing.assert_close((~black).float()[:, None].expand_as(made), made, rtol=0, atol=1e-5)
    size = black.sum(dim=(1, 2))
    assert 110 < (size == 0).sum() < 190
    assert size.max() <= 8 * 9
    assert size[size > 0].min() == 9
    lone = black[int((size == 9).nonzero()[0])].nonzero()
    assert (lone.max(dim=0).values - lone.min(dim=0).values).tolist() == [2, 2]


def test_rotation_turns_about_the_middle():
    x = torch.zeros(100, 3, 31, 31)
    x[:, :, 15, 15] = 255
    augment = AugmentPhotographs(PIXELS, size=31, scaling=0.0, rotation=50.0, brightness=0.0, contrast=0.0, hole=0)
    made = bright(augment(x, torch.arange(100)))
    torch.testing.assert_close(made[:, :, 15, 15], torch.ones(100, 3), rtol=0, atol=1e-4)


def jpeg(pixels: np.ndarray, mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, "JPEG")
    return buffer.getvalue()


def test_other_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "photo.jpg"
    file.write_bytes(jpeg(noise(4, 5, 3), "L"))
    with pytest.raises(DataError, match=r"photo\.jpg: 5 x 4 pixels of mode L, expected RGB"):
        read_jpeg(file)
    Image.fromarray(noise(4, 5, 3)).save(file, "PNG")
    with pytest.raises(DataError, match=r"photo\.jpg: is not a readable JPEG"):
        read_jpeg(file)
    file.write_bytes(jpeg(noise(40, 50, 3)))
    monkeypatch.setattr(photographs, "MAX_PIXELS", 1999)
    with pytest.raises(DataError, match="50 x 40 pixels of mode RGB, expected RGB and at most 1999 pixels"):
        read_jpeg(file)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_photographs_are_refused_in_one_line_or_decoded(tmp_path: Path, data: st.DataObject):
    raw = bytearray(jpeg(noise(24, 24, 3)))
    place = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw[place] ^= data.draw(st.integers(1, 255))
    else:
        del raw[place:]
    file = tmp_path / "photo.jpg"
    file.write_bytes(raw)
    try:
        message = read_jpeg(file).mode
    except DataError as error:
        message = str(error)
    assert message == "RGB" or (message.startswith(str(file)) and "\n" not in message)
