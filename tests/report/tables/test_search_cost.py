from __future__ import annotations

from bench.report.tables.search_cost import described
from bench.spec import Choice, Method, RangeSection, SearchSection
from bench.types import Budget


def method(name, axes=None, **search):
    nothing = Choice("x", {})
    return Method(name, nothing, nothing, nothing, Budget(1, local_steps=1), {}, axes or {}, SearchSection(**search))


RANGE = {"lr": RangeSection(low=1e-3, high=1.0, log=True)}


def test_kinds_budgets_and_costs_are_said():
    methods = {
        "fedavg": method("fedavg", {"lr": (1, 2, 3)}),
        "fedprox": method("fedprox", {"lr": (1, 2), "mu": (1, 2, 3)}),
        "ditto": method("ditto", RANGE, kind="tpe", trials=20),
        "local": method("local"),
    }
    names = {"fedavg": "FedAvg", "fedprox": "FedProx", "ditto": "Ditto", "local": "Silo"}
    (line,) = described(methods, names, 5)
    assert line == (
        "Search: all settings of a grid (FedAvg 3, FedProx 6); settings proposed by TPE (Ditto 20); unequal budgets, "
        "3 to 20 settings. Not searched: Silo. Cost: 150 runs over 5 seeds, including settings that were not chosen."
    )


def test_an_equal_budget_is_said():
    methods = {name: method(name, RANGE, kind="random", trials=8) for name in "ab"}
    (line,) = described(methods, {"a": "A", "b": "B"}, 1)
    assert line == (
        "Search: settings drawn at random (A 8, B 8); equal budgets. Cost: 16 runs over 1 seed, including settings "
        "that were not chosen."
    )


def test_given_settings_are_no_search():
    (line,) = described({"a": method("a")}, {"a": "A"}, 3)
    assert line == "Search: none, all settings are given. Cost: 3 runs over 3 seeds."
    (line,) = described({"a": method("a")}, {"a": "A"}, 1)
    assert line == "Search: none, all settings are given. Cost: 1 run over 1 seed."


def test_tpe_that_never_leaves_its_startup_draws_at_random():
    (line,) = described({"a": method("a", RANGE, kind="tpe", trials=10)}, {"a": "A"}, 1)
    assert line.startswith("Search: settings drawn at random (A 10);")


def test_settings_without_records_are_counted():
    methods = {"a": method("a", {"lr": (1, 2, 3)}), "b": method("b", {"lr": (1, 2)}), "c": method("c")}
    recorded = {"b": 1, "a": 1, "c": 1}  # in no certain order: the names decide it
    _, line = described(methods, {"a": "A", "b": "B", "c": "C"}, 5, recorded)
    assert line == "Not all settings are recorded (A 1 of 3, B 1 of 2); the best of the recorded ones is chosen."
