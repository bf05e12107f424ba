"""Input shapes that a network needs."""

from __future__ import annotations

from bench.types import SpecError


def image(model: str, inputs: tuple[int, ...], smallest: int = 1) -> tuple[int, int, int]:
    """Return channels, height and width of images.

    Raises :class:`SpecError` for inputs of another kind, and for sides below ``smallest`` pixels.
    """
    if len(inputs) != 3:
        raise SpecError(
            f"{model} takes images (channels, height, width), not inputs of shape {inputs}; choose another model"
        )
    if min(inputs[1:]) < smallest:
        pixels = " x ".join(map(str, inputs[1:]))
        raise SpecError(f"{model} takes images of at least {smallest} x {smallest} pixels, not {pixels}")
    return inputs[0], inputs[1], inputs[2]
