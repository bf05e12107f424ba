"""Laying one table of keys over another."""

from __future__ import annotations

import pytest

from bench.spec.files.merge import merged


@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}}, {"a": 1, "b": {"c": 4, "d": 3}}),
        ({"grid": {"lr": [1], "mu": [2]}}, {"fixed": {"lr": 3}}, {"grid": {"mu": [2]}, "fixed": {"lr": 3}}),
        ({"fixed": {"lr": 1}}, {"range": {"lr": {}}}, {"fixed": {}, "range": {"lr": {}}}),
        ({"local_steps": 5, "rounds": 1}, {"local_epochs": 2}, {"rounds": 1, "local_epochs": 2}),
        ({"search": {"kind": "random", "trials": 3}}, {"search": {"kind": "grid"}}, {"search": {"kind": "grid"}}),
        ({"model": "mlp"}, {"model": {"hidden": 5}}, {"model": {"name": "mlp", "hidden": 5}}),
        ({"model": {"name": "mlp", "hidden": 5}}, {"model": "cnn"}, {"model": "cnn"}),
        (
            {"model": {"name": "mlp", "hidden": 5}},
            {"model": {"name": "mlp", "dropout": 0.1}},
            {"model": {"name": "mlp", "hidden": 5, "dropout": 0.1}},
        ),
        (
            {"data": [{"name": "a"}, "b"]},
            {"data": {"subsample": 0.1}},
            {"data": [{"name": "a", "subsample": 0.1}, {"name": "b", "subsample": 0.1}]},
        ),
        (
            {"tables": [{"id": "t", "digits": 3}, {"id": "u"}]},
            {"tables": [{"id": "v"}, {"id": "t", "digits": 4}]},
            {"tables": [{"id": "t", "digits": 4}, {"id": "u"}, {"id": "v"}]},
        ),
        ({"seeds": [1, 2]}, {"seeds": [3]}, {"seeds": [3]}),
    ],
)
def test_what_lies_over_wins(below, above, expected):
    before = repr((below, above))
    assert merged(below, above) == expected
    assert repr((below, above)) == before
