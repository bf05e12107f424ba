"""Methods with their names looked up in the registry, and their settings checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from bench import registry, settings
from bench.registry import Kind, catalogue
from bench.spec.method import BY_SEED, PARTS, Method, with_lengths
from bench.spec.sections.faults import StudyError, shown
from bench.spec.sections.keys import Choice
from bench.spec.sections.study import BUDGET_KEYS, MethodSection, RangeSection, StudySection
from bench.types import Budget, SpecError, nearest

MAX_SETTINGS = 1_000_000  # of one grid
OF_EVERY_DATA_SET = ("label", "subsample")
WORD: dict[Kind, str] = {"algorithms": "algorithm", "datasets": "data set", "models": "model"}
Where = tuple[str | int, ...]


def method_of(name: str, key: str, section: MethodSection, study: StudySection, data: Choice) -> Method:
    """Return the method of ``section`` on ``data``; raises :class:`StudyError` with the key and what was expected."""
    where: Where = ("methods", key)
    algorithm = section.algorithm or Choice(key, {})
    options = {option: value for option, value in data.options.items() if option != "label"} | section.data
    data = Choice(data.name, options)
    check_choice("datasets", data, (*where, "data") if section.data else ("data",))
    check_choice("algorithms", algorithm, where if algorithm.name == key else (*where, "algorithm"))
    check_choice("models", section.model, (*where, "model"), of=algorithm.name)
    axes: dict[str, tuple[Any, ...] | RangeSection] = {k: tuple(values) for k, values in section.grid.items()}
    method = Method(
        name=name,
        algorithm=algorithm,
        model=section.model,
        data=data,
        budget=_budget((*where, "budget"), section.budget),
        fixed=section.fixed,
        axes=axes | section.range,
        search=section.search or study.search,
        label=section.label or key,
    )
    _check_names(where, section, method)
    _check_values(where, section, method)
    if method.tried > 1 and not method.budget.validation and "budget.validation" not in {**method.axes, **method.fixed}:
        raise StudyError(
            (*where, "budget", "validation"), f"0 leaves no samples to select one of {method.tried} settings by"
        )
    return method


def check_choice(kind: Kind, choice: Choice, where: Where, *, of: str = "") -> None:
    """Refuse an unknown name, and an option that its definition does not take.

    ``of`` is the algorithm of a model: some need the parallel form of the model's family.
    """
    if kind == "datasets" and ":" in choice.name:
        return  # "flamby:<task>": only that package knows its tasks and options
    word, entries, name = WORD[kind], catalogue(kind), choice.name
    if name not in entries:
        raise StudyError(where, f"unknown {word} {name!r}: {nearest(name, entries)}")
    if of and (name := settings.fitting(of, choice.name)) not in entries:
        families = [each.removeprefix("parallel_") for each in entries if each.startswith("parallel_")]
        what = f"{of} needs a model with two extractors, and the family {choice.name!r} has none ({name!r})"
        raise StudyError(where, f"{what}; families that have: {', '.join(families)}")
    known = registry.options(kind, name)
    for option, value in choice.options.items():
        if option not in known and not (kind == "datasets" and option in OF_EVERY_DATA_SET):
            hint = nearest(option, known) if known else "it has none"
            raise StudyError((*where, option), f"{word} {name} has no option {option!r}: {hint}")
        if isinstance(value, dict) and value != BY_SEED:
            raise StudyError((*where, option), f'expected a value, or {{ from = "seed" }}, got {shown(value)}')
        if value == BY_SEED and kind != "datasets":
            raise StudyError((*where, option), "only options of data sets can be the run's seed")


def _budget(where: Where, keys: Mapping[str, Any]) -> Budget:
    if "rounds" not in keys:
        raise StudyError((*where, "rounds"), "missing; this key is needed")
    try:
        return Budget(**keys)
    except SpecError as error:
        raise _of_budget(where, str(error)) from None


def _of_budget(where: Where, message: str) -> StudyError:
    """Return the fault for a message of :class:`Budget`, which may begin with "key = value: "."""
    given, _, rest = message.partition(": ")
    key, _, value = given.partition(" = ")
    return StudyError((*where, key), f"{rest}, got {value}") if key in BUDGET_KEYS else StudyError(where, message)


def _check_names(where: Where, section: MethodSection, method: Method) -> None:
    """Refuse hyper-parameters and options that the method does not have, and names that are given twice."""
    numbers = settings.known(method.algorithm.name, method.budget.optimizer)
    model = settings.fitting(method.algorithm.name, method.model.name)
    parts: dict[str, Iterable[str] | None] = {
        "algorithm": registry.options("algorithms", method.algorithm.name),
        "model": registry.options("models", model),
        "data": registry.options("datasets", method.data.name) if ":" not in method.data.name else None,
        "budget": BUDGET_KEYS,
    }
    seen: dict[str, str] = {}
    for place in ("grid", "range", "fixed"):
        for name in getattr(section, place):
            _check_name((*where, place, name), name, method, numbers, parts)
            if name in seen:
                raise StudyError((*where, place, name), f"also given in {seen[name]}; remove one")
            seen[name] = place


def _check_name(
    where: Where, name: str, method: Method, numbers: list[str], parts: Mapping[str, Iterable[str] | None]
) -> None:
    part, dot, option = name.partition(".")
    if not dot:
        if name not in numbers:
            what = f"{method.algorithm.name} with {method.budget.optimizer} has no hyper-parameter {name!r}"
            raise StudyError(where, f"{what}: {nearest(name, numbers)}")
        return
    if part not in PARTS:
        raise StudyError(where, f"unknown part {part!r}: {nearest(part, PARTS)}")
    known = parts[part]
    if known is not None and option not in (known := list(known)):
        hint = nearest(option, known) if known else "it has none"
        raise StudyError(where, f"{part} has no option {option!r}: {hint}")


def _check_values(where: Where, section: MethodSection, method: Method) -> None:
    """Refuse values that no run can have, and searches that cannot be made."""
    search = method.search
    for name in section.range:
        if search.kind == "grid":
            raise StudyError(
                (*where, "range", name), f'a grid needs values; give grid.{name}, or search.kind = "random"'
            )
    combinations = math.prod(map(len, section.grid.values()))
    if search.kind == "grid" and combinations > MAX_SETTINGS:
        raise StudyError((*where, "grid"), f"{combinations:,} combinations are more than {MAX_SETTINGS:,}; give fewer")
    if search.first is not None and search.first >= method.budget.rounds and method.axes:
        raise StudyError(
            (*where, "search", "first"), f"expected fewer than the {method.budget.rounds} rounds of the budget"
        )
    for name, values in section.grid.items():
        for i, value in enumerate(values):
            if value in values[:i]:
                raise StudyError((*where, "grid", name), f"{value!r} is given twice")
            _check_value((*where, "grid", name), name, value, method)
    for name, value in section.fixed.items():
        _check_value((*where, "fixed", name), name, value, method)


def _check_value(where: Where, name: str, value: Any, method: Method) -> None:
    if "." not in name:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise StudyError(where, f"expected a number, got {shown(value)}")
    elif name.startswith("budget."):
        try:
            with_lengths(method.budget, {name.removeprefix("budget."): value})
        except SpecError as error:
            raise StudyError(where, str(error)) from None
