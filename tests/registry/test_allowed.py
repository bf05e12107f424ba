"""Allowed values, from annotations and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest

from bench.registry import Allowed
from bench.registry.allowed import of_annotation
from bench.types import SpecError

CASES: list[tuple[Any, list[Any], list[Any], str]] = [
    (Annotated[int, Allowed(ge=1)], [1, 7], [0, 1.0, True, "1", None], "a whole number of at least 1"),
    (Annotated[float, Allowed(gt=0, le=1)], [1, 0.5], [0.0, 1.1, float("nan"), "1"],
     "a finite number above 0 and at most 1"),
    (Annotated[float, Allowed(ge=0, lt=1)], [0, 0.9], [1, -0.1], "a finite number of at least 0 and below 1"),
    (Annotated[int | None, Allowed(ge=1)], [None, 2], [0, 2.5], "a whole number of at least 1, or none"),
    (bool, [True, False], [0, 1, "true", None], "true or false"),
    (str, ["", "a"], [1, None], "a text"),
    (tuple[str, ...], [(), ["a"]], ["a", [1]], "a list of texts"),
    (Annotated[int | Sequence[int], Allowed(ge=1)], [1, [2, 3]], [0, [2, 0], [1.5]],
     "a whole number or a list of whole numbers of at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "good", "bad", "expected"), CASES)
def test_values_are_checked_by_annotation(annotation: Any, good: list[Any], bad: list[Any], expected: str) -> None:
    allowed = of_annotation(annotation)
    for value in good:
        allowed.check("x", value)
    for value in bad:
        with pytest.raises(SpecError) as error:
            allowed.check("here.x", value)
        assert str(error.value) == f"here.x = {value!r}: expected {expected}"


def test_a_choice_suggests_the_nearest_value() -> None:
    allowed = of_annotation(Literal["cosine", "exponential", 1])
    allowed.check("x", "cosine")
    with pytest.raises(SpecError, match="x = 'cosin': did you mean 'cosine'"):
        allowed.check("x", "cosin")
    with pytest.raises(SpecError, match="x = True: expected one of "):
        allowed.check("x", True)


def test_what_a_study_file_cannot_hold_is_not_checked() -> None:
    for annotation in (Any, None, dict[str, int], int | dict[str, int]):
        of_annotation(annotation).check("x", {"a": 1})
