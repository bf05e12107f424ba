"""Small images: resizing, normalisation, and augmentation as a function of keys."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from bench.data.readers.images import AugmentImages, Normalise, _jittered, resize

HALF = Normalise((0.5,), (0.5,))
COLOUR = Normalise((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
SHAPES = AugmentImages(HALF, rotation=10, translation=0.1, scaling=0.1, perspective=0.2)
PHOTOGRAPHS = AugmentImages(COLOUR, crop=4, flip=True, rotation=15, translation=0.1, scaling=0.1, jitter=0.2)


def noise(count: int, channels: int, size: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8, generator=generator)


def keys(count: int) -> Tensor:
    return torch.arange(count) * 7919 + 5


def spot(row: int, column: int, size: int = 29) -> Tensor:
    """A black image (1, 1, size, size) in [0, 1] with a soft bright spot at a position relative to the middle."""
    down, right = torch.meshgrid(*[torch.arange(size) - size // 2] * 2, indexing="ij")
    return torch.exp(-((down - row) ** 2 + (right - column) ** 2) / 8.0)[None, None]


def places(x: Tensor) -> tuple[Tensor, Tensor]:
    """Position of each image's centre of mass relative to the middle: down, right."""
    axis = torch.arange(x.shape[-1]) - x.shape[-1] // 2
    mass = x.sum((1, 2, 3))
    return (x.sum((1, 3)) * axis).sum(1) / mass, (x.sum((1, 2)) * axis).sum(1) / mass


def bright(pixels: Normalise, x: Tensor) -> Tensor:
    """Normalised images back in [0, 1]."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (pixels.mean, pixels.std))
    return x * std + mean


def changed(augment: AugmentImages, image: Tensor, count: int = 200) -> Tensor:
    """``count`` augmented copies, in [0, 1]."""
    return bright(HALF, augment((image * 255).expand(count, -1, -1, -1), keys(count)))


@pytest.mark.parametrize(("size", "smaller"), [(32, 28), (10, 3)])
def test_resize_equals_pillow_image_by_image(size: int, smaller: int):
    x = noise(20, 3, size).numpy()
    one_by_one = [
        np.asarray(Image.fromarray(image.transpose(1, 2, 0)).resize((smaller, smaller), Image.Resampling.BILINEAR))
        for image in x
    ]
    np.testing.assert_array_equal(resize(x, smaller), np.stack(one_by_one).transpose(0, 3, 1, 2))


def test_normalise_by_hand():
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    made = Normalise((0.5, 0.1, 0.0), (0.5, 0.1, 2.0))(x)
    torch.testing.assert_close(made.flatten(), torch.tensor([-1.0, 1.0, 0.5]))


def test_equal_options_make_equal_transforms():
    assert Normalise((0.5,), (0.5,)) == HALF
    assert AugmentImages(Normalise((0.5,), (0.5,)), rotation=10) == AugmentImages(HALF, rotation=10)


@pytest.mark.parametrize(("augment", "channels", "size"), [(SHAPES, 1, 28), (PHOTOGRAPHS, 3, 32)])
def test_an_image_and_its_key_decide_all(augment: AugmentImages, channels: int, size: int):
    x = noise(40, channels, size)
    made = augment(x, keys(40))
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    assert torch.equal(augment(x[order], keys(40)[order]), made[order])
    assert torch.equal(augment(x[7:8], keys(40)[7:8]), made[7:8])
    state = torch.get_rng_state()
    assert torch.equal(augment(x, keys(40)), made)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("augment", "channels", "size"), [(SHAPES, 1, 28), (PHOTOGRAPHS, 3, 32)])
def test_every_key_makes_another_image_in_range(augment: AugmentImages, channels: int, size: int):
    x = noise(1, channels, size).expand(50, -1, -1, -1)
    made = augment(x, keys(50))
    assert made.shape == x.shape
    assert made.dtype == torch.float32
    assert len({image.numpy().tobytes() for image in made}) == 50
    seen = bright(augment.pixels, made)
    assert -1e-5 <= seen.min() <= seen.max() <= 1 + 1e-5


def test_nothing_asked_changes_nothing():
    x = noise(10, 3, 32)
    torch.testing.assert_close(AugmentImages(COLOUR)(x, keys(10)), COLOUR(x), rtol=0, atol=1e-4)


def test_rotation_stays_within_its_angle_and_keeps_the_distance():
    down, right = places(changed(AugmentImages(HALF, rotation=10), spot(0, 8)))
    angles = torch.rad2deg(torch.atan2(down, right))
    assert 9 < angles.max() <= 10.1
    assert -10.1 <= angles.min() < -9
    torch.testing.assert_close(torch.hypot(down, right), torch.full((200,), 8.0), rtol=0, atol=0.1)


def test_translation_is_by_whole_pixels_up_to_its_share():
    for moved in places(changed(AugmentImages(HALF, translation=0.1), spot(0, 0))):
        assert sorted(set(moved.round(decimals=3).abs().tolist())) == [0, 1, 2, 3]
        assert {-3, 3} <= set(moved.round().tolist())


def test_scaling_moves_away_from_the_middle_or_towards_it():
    down, right = places(changed(AugmentImages(HALF, scaling=0.1), spot(6, -6)))
    torch.testing.assert_close(down, -right, rtol=0, atol=0.05)
    assert 6.5 < down.max() <= 6.65
    assert 5.35 <= down.min() < 5.5


@pytest.mark.parametrize("corner", [(0, 0), (0, 28), (28, 28), (28, 0)])
def test_perspective_moves_a_corner_of_half_the_images_inwards(corner: tuple[int, int]):
    image = torch.zeros(1, 1, 29, 29)
    image[0, 0, corner[0], corner[1]] = 1.0
    made = changed(AugmentImages(HALF, perspective=0.2), image, 400)
    # Corners move to whole pixels, which therefore are copies of the bright one.
    torch.testing.assert_close(made.amax((1, 2, 3)), torch.ones(400), rtol=0, atol=1e-3)
    peaks = made.flatten(1).argmax(1).tolist()
    moves = Counter((abs(peak // 29 - corner[0]), abs(peak % 29 - corner[1])) for peak in peaks)
    assert set(moves) == {(down, right) for down in range(3) for right in range(3)}
    # Half of the images are left alone, and one in nine of the others draws no move for this corner.
    assert 185 < moves[0, 0] < 260


def test_crop_shows_a_reflection_behind_the_border():
    ramp = torch.arange(16.0).div(16).expand(1, 1, 16, 16)
    made = changed(AugmentImages(HALF, crop=4), ramp)
    rows = {tuple((row * 16).round().int().tolist()) for row in made[:, 0, 8]}
    assert rows == {
        tuple(abs(place + shift) if place + shift < 16 else 30 - place - shift for place in range(16))
        for shift in range(-4, 5)
    }
    assert torch.allclose(made[:, 0, 0], made[:, 0, 8], atol=1e-5)


def test_flip_mirrors_half_of_the_images():
    image = spot(0, 5)
    _, right = places(changed(AugmentImages(HALF, flip=True), image))
    assert set(right.round().tolist()) == {-5, 5}
    assert 70 < (right > 0).sum() < 130


def test_what_comes_in_is_black():
    white = torch.ones(1, 1, 28, 28)
    made = changed(AugmentImages(HALF, translation=0.1), white)
    assert set(made.round(decimals=3).unique().abs().tolist()) == {0.0, 1.0}
    assert (made.mean((1, 2, 3)) < 0.99).sum() > 100


def test_jitter_by_hand():
    """On a uniform grey image only the change of brightness has an effect."""
    grey = torch.full((200, 3, 4, 4), 102.0)
    made = bright(COLOUR, AugmentImages(COLOUR, jitter=0.2)(grey, keys(200)))
    torch.testing.assert_close(made.amax((1, 2, 3)), made.amin((1, 2, 3)), rtol=0, atol=1e-5)
    factors = made[:, 0, 0, 0] / 0.4
    assert 0.8 <= factors.min() < 0.82
    assert 1.18 < factors.max() <= 1.2


@pytest.mark.parametrize("factors", [(1.2, 1.0, 1.0), (1.0, 0.8, 1.0), (1.0, 1.0, 1.2), (0.85, 1.15, 0.9)])
def test_jitter_equals_pillows_but_for_its_rounding(factors: tuple[float, float, float]):
    image = resize(noise(1, 3, 6).numpy(), 32)
    expected = Image.fromarray(image[0].transpose(1, 2, 0))
    for enhance, factor in zip(
        (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), factors, strict=True
    ):
        expected = enhance(expected).enhance(factor)
    made = _jittered(torch.tensor(image) / 255, torch.tensor([factors]))[0].permute(1, 2, 0) * 255
    assert np.abs(made.numpy() - np.asarray(expected, dtype=np.float32)).max() < 3
    assert np.abs(made.numpy() - image[0].transpose(1, 2, 0)).max() > 5
