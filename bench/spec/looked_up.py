"""Methods with their names looked up in the registry, and their settings checked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import registry, settings
from bench.limits import MAX_COUNT, MAX_SETTINGS
from bench.registry import FLAMBY, SINGULAR, Allowed, Kind, catalogue
from bench.spec.method import BY_SEED, PARTS, Method, with_lengths
from bench.spec.sections.faults import StudyError, shown
from bench.spec.sections.keys import Choice
from bench.spec.sections.study import BUDGET_KEYS, MethodSection, RangeSection, StudySection
from bench.types import Budget, SpecError, nearest

OF_EVERY_DATA_SET = ("label", "subsample")
KINDS: dict[str, Kind] = {"algorithm": "algorithms", "model": "models", "data": "datasets"}
Where = tuple[str | int, ...]


def method_of(name: str, key: str, section: MethodSection, study: StudySection, data: Choice) -> Method:
    """Return the method of ``section`` on ``data``; raises :class:`StudyError` with the key and what was expected."""
    where: Where = ("methods", key)
    algorithm = section.algorithm or Choice(key, {})
    options = {option: value for option, value in data.options.items() if option != "label"} | section.data
    data = Choice(data.name, options)
    check_choice("datasets", data, (*where, "data") if section.data else ("data",))
    check_choice("algorithms", algorithm, (*where, "algorithm") if section.algorithm else where)
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
    _check_search(where, section, method)
    _check_values(where, section, method)
    return method


def check_choice(kind: Kind, choice: Choice, where: Where, *, of: str = "") -> None:
    """Refuse an unknown name, and an option that its definition does not take.

    ``of`` is the algorithm of a model: some need the parallel form of the model's family.
    """
    if kind == "datasets" and choice.name.startswith(FLAMBY):
        return  # only that package knows its tasks and options
    entries, name = catalogue(kind), choice.name
    if name not in entries:
        raise StudyError(where, f"unknown {SINGULAR[kind]} {name!r}: {nearest(name, entries)}")
    if of:
        try:
            name = settings.fitting(of, choice.name)
        except SpecError as error:
            raise StudyError(where, str(error)) from None
    for option, value in choice.options.items():
        if kind == "datasets" and option in OF_EVERY_DATA_SET:
            continue
        if isinstance(value, dict) and value != BY_SEED:
            raise StudyError((*where, option), f'expected a value, or {{ from = "seed" }}, got {shown(value)}')
        if value == BY_SEED and kind != "datasets":
            raise StudyError((*where, option), "only options of data sets can be the run's seed")
        _check_option((*where, option), kind, name, option, 0 if value == BY_SEED else value)


def _check_option(where: Where, kind: Kind, name: str, option: str, value: Any) -> None:
    """Refuse an option that the definition of ``name`` does not take, and a value that it does not allow."""
    if kind == "datasets" and name.startswith(FLAMBY):
        return
    known = registry.declaration(kind, name).options
    if option not in known:
        names = registry.options(kind, name)
        hint = nearest(option, names) if names else "it has none"
        raise StudyError(where, f"{SINGULAR[kind]} {name} has no option {option!r}: {hint}")
    if known[option].searchable:
        raise StudyError(where, f"{option} is a hyper-parameter of {name}, not an option; give it in grid or fixed")
    _check_allowed(where, known[option].allowed, value)
    sizes = value if isinstance(value, list) else [value]
    if kind == "models" and any(isinstance(size, int) and size > MAX_COUNT for size in sizes):
        raise StudyError(where, f"expected at most {MAX_COUNT:,}, got {shown(value)}")


def _check_allowed(where: Where, allowed: Allowed, value: Any) -> None:
    try:
        allowed.check("value", value)
    except SpecError as error:
        raise StudyError(where, _with_value(str(error).partition(": ")[2], shown(value))) from None


def _with_value(text: str, value: str) -> str:
    """Return what was expected, or the nearest known value, with the value that was given."""
    hint = text.startswith(("did you mean", "known: "))
    return f"unknown value {value}: {text}" if hint else f"{text}, got {value}"


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
    return StudyError((*where, key), _with_value(rest, value)) if key in BUDGET_KEYS else StudyError(where, message)


def _check_values(where: Where, section: MethodSection, method: Method) -> None:
    """Refuse names that the method does not have or that are given twice, and values that no run can have."""
    numbers = settings.known(method.algorithm.name, method.budget.optimizer, method.budget.schedule)
    seen: dict[str, str] = {}
    for place, name, values in _given(section):
        at = (*where, place, name)
        for value in values:
            _check_value(at, name, value, method, numbers)
        if name in seen:
            raise StudyError(at, f"also given in {seen[name]}; remove one")
        seen[name] = place
    for name, values in section.grid.items():
        given = set()
        for value in values:
            if (plain := _hashable(value)) in given:
                raise StudyError((*where, "grid", name), f"{value!r} is given twice")
            given.add(plain)


def _hashable(value: Any) -> Any:
    """Return a value of a study with tuples in place of lists and tables."""
    if isinstance(value, dict):
        return tuple((key, _hashable(each)) for key, each in sorted(value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _given(section: MethodSection) -> Iterator[tuple[str, str, Sequence[Any]]]:
    """Yield place, name and values of everything that the method gives; of a range, both ends."""
    yield from (("grid", name, values) for name, values in section.grid.items())
    for name, ends in section.range.items():
        yield "range", name, [int(end) if ends.whole else end for end in (ends.low, ends.high)]
    yield from (("fixed", name, [value]) for name, value in section.fixed.items())


def _check_value(where: Where, name: str, value: Any, method: Method, numbers: Mapping[str, Allowed]) -> None:
    """Refuse an unknown hyper-parameter or option ("model.hidden"), and a value that it cannot have."""
    part, dot, option = name.partition(".")
    if not dot:
        if name not in numbers:
            budget = method.budget
            raise StudyError(where, settings.unknown(method.algorithm.name, budget.optimizer, budget.schedule, name))
        _check_allowed(where, numbers[name], value)
    elif part not in PARTS:
        raise StudyError(where, f"unknown part {part!r}: {nearest(part, PARTS)}")
    elif part == "budget":
        if option not in BUDGET_KEYS:
            raise StudyError(where, f"budget has no key {option!r}: {nearest(option, BUDGET_KEYS)}")
        try:
            with_lengths(method.budget, {option: value})
        except SpecError as error:
            fault = _of_budget((), str(error))
            raise StudyError(where, fault.text) from None
    else:
        chosen = getattr(method, part).name
        called = settings.fitting(method.algorithm.name, chosen) if part == "model" else chosen
        _check_option(where, KINDS[part], called, option, value)


def _check_search(where: Where, section: MethodSection, method: Method) -> None:
    """Refuse a search that cannot be made."""
    search = method.search
    for name in section.range:
        if search.kind == "grid":
            what = f'a grid needs values; give grid.{name}, or search.kind = "random"'
            raise StudyError((*where, "range", name), what)
    combinations = math.prod(map(len, section.grid.values()))
    if search.kind == "grid" and combinations > MAX_SETTINGS:
        raise StudyError((*where, "grid"), f"{combinations:,} combinations are more than {MAX_SETTINGS:,}; give fewer")
    if search.first is not None and search.first >= method.budget.rounds and method.axes:
        what = f"expected fewer than the {method.budget.rounds} rounds of the budget, got {search.first}"
        raise StudyError((*where, "search", "first"), what)
    if search.kind == "halving" and method.axes and method.budget.patience:
        raise StudyError((*where, "budget", "patience"), "halving drops settings itself; leave patience out")
    if search.kind == "halving" and method.axes and method.budget.schedule == "cosine":
        what = "the cosine schedule depends on the number of rounds, which halving shortens; use another schedule"
        raise StudyError((*where, "budget", "schedule"), what)
    if method.tried > 1 and not method.budget.validation and "budget.validation" not in {**method.axes, **method.fixed}:
        what = f"0 leaves no samples to select one of {method.tried} settings by"
        raise StudyError((*where, "budget", "validation"), what)
