"""Federations of own arrays: accepted forms, and one clear line for every other form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from bench import DataError, Federation, SpecError

X = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def of(x: object = X, y: object = (0, 1, 0), **options: object) -> Federation:
    return Federation.from_arrays({"a": {"x": x, "y": y}}, **{"test_share": 0} | options)


@pytest.mark.parametrize("x", [X, np.array(X), np.array(X, dtype=object), torch.tensor(X).double(), pd.DataFrame(X)])
@pytest.mark.parametrize("y", [[0, 1, 0], np.array([[0.0], [1.0], [0.0]]), torch.tensor([False, True, False])])
def test_binary_targets_become_a_column_of_floats(x: object, y: object):
    federation = of(x, y)
    train = federation.clients[0].train
    assert (federation.task, federation.classes) == ("binary", 2)
    assert torch.equal(train.x, torch.tensor(X))
    assert torch.equal(train.y, torch.tensor([[0.0], [1.0], [0.0]]))
    assert train.x.dtype == train.y.dtype == torch.float32


def test_gradients_and_half_precision_are_left_behind():
    x = torch.tensor(X, dtype=torch.bfloat16, requires_grad=True)
    assert torch.equal(of(x).clients[0].train.x, torch.tensor(X))


def test_arrays_are_copied():
    x = np.array(X, dtype=np.float32)
    federation = of(x)
    x[:] = 0
    assert torch.equal(federation.clients[0].train.x, torch.tensor(X))


def test_classes_are_counted_over_all_clients_and_parts():
    federation = Federation.from_arrays(
        {
            "a": {"x": X, "y": [0, 1, 0]},
            "b": {"train": (X, np.array([1.0, 2.0, 1.0])), "test": (X, [0, 3, 4])},
        },
        test_share=0,
    )
    assert (federation.task, federation.classes) == ("multiclass", 5)
    assert federation.clients[0].train.y.dtype == torch.int64
    assert federation.clients[0].test is None
    assert federation.clients[1].test.y.tolist() == [0, 3, 4]


def test_a_sequence_numbers_the_clients():
    federation = Federation.from_arrays([{"x": X, "y": [0, 1, 0]}, {"train": (X, [1, 1, 1])}])
    assert [client.name for client in federation.clients] == ["0", "1"]


def test_a_client_with_one_class_is_legal():
    assert of(y=[1, 1, 1]).task == "binary"


def test_two_classes_may_be_multiclass_when_asked():
    federation = of(task="multiclass")
    assert (federation.task, federation.classes) == ("multiclass", 2)
    assert federation.clients[0].train.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("test", [None, ([], []), (np.empty((0, 2)), np.empty(0))])
def test_no_test_samples_is_no_test_part(test: object):
    federation = Federation.from_arrays({"a": {"train": (X, [0, 1, 0]), "test": test}})
    assert federation.clients[0].test is None


def test_pictures_keep_their_shape():
    assert of(np.zeros((3, 1, 8, 8))).clients[0].train.x.shape == (3, 1, 8, 8)


def test_labels_and_notes_are_passed_on():
    federation = of(name="mine", metrics=["auroc"], synthetic=True)
    assert (federation.name, federation.metrics, federation.synthetic) == ("mine", ("auroc",), True)


NAN = float("nan")


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ({}, "^own_data: a federation needs at least one client"),
        ([], "^own_data: a federation needs at least one client"),
        (None, "^own_data: clients is a NoneType, expected a mapping or a sequence of mappings"),
        ([(X, [0, 1, 0])], "^own_data: client '0' is a tuple, expected"),
        ({"a": {}}, "client 'a' holds nothing, expected"),
        ({"a": {"x": X}}, "client 'a' holds 'x', expected"),
        ({"a": {"x": X, "y": [0, 1, 0], "test": (X, [0, 1, 0])}}, "client 'a' holds 'x', 'y', 'test', expected"),
        ({"a": {"x": X, "yy": [0, 1, 0]}}, "client 'a': unknown key 'yy': did you mean 'y'"),
        ({"a": {"tain": (X, [0, 1, 0])}}, "client 'a': unknown key 'tain': did you mean 'train'"),
        ({"a": {"train": X}}, r"client 'a': train must be a pair \(x, y\)"),
        ({"a": {"train": None}}, "client 'a' holds 'train', expected"),
        (
            {"a": {"x": [[1, 2], [3], [4, 5]], "y": [0, 1, 0]}},
            "'a': x is ragged: row 1 has 1 values, row 0 has 2",
        ),
        ({"a": {"x": [[1, 2], [3, "?"]], "y": [0, 1]}}, "'a': x is '\\?' in row 1, column 1, expected a number"),
        ({"a": {"x": [[1, 2], [None, 4]], "y": [0, 1]}}, "'a': x is None in row 1, column 0, expected a number"),
        ({"a": {"x": None, "y": [0, 1]}}, "'a': x is a NoneType, expected an array of numbers"),
        ({"a": {"x": X, "y": 1}}, r"'a': y has shape \(\), expected"),
        ({"a": {"x": X, "y": ["no", "yes", "no"]}}, "'a': y is 'no' in row 0, expected a number"),
        ({"a": {"x": [[1, 2], [3, NAN]], "y": [0, 1]}}, "'a': x is nan in row 1, column 1; drop or impute"),
        (
            {"a": {"train": (X, [0, 1, 0]), "test": ([[[1.0], [2.0]]], [0])}},
            "client 'a', test: x has samples of shape",
        ),
        ({"a": {"train": (X, [0, 1, 0]), "test": ([[1, 1e300]], [0])}}, "'a', test: x is inf in row 0, column 1"),
        ({"a": {"x": X, "y": [0, NAN, 1]}}, "'a': y is nan in row 1, expected class numbers 0, 1"),
        ({"a": {"x": X, "y": [0, 1, -1]}}, "'a': y is -1 in row 2, expected class numbers 0, 1"),
        ({"a": {"x": X, "y": [0, 0.5, 1]}}, "'a': y is 0.5 in row 1, expected class numbers 0, 1"),
        ({"a": {"x": X, "y": [[0, 1], [1, 0], [0, 1]]}}, r"'a': y has shape \(3, 2\), expected \(samples,\)"),
        ({"a": {"x": X, "y": [0, 1]}}, "'a': 3 inputs but 2 targets; give one target per input"),
        ({"a": {"x": [1, 2, 3], "y": [0, 1, 0]}}, r"'a': x has shape \(3,\), expected \(samples, features\)"),
        ({"a": {"x": [], "y": []}}, "client 'a' has no training samples"),
        ({1: {"x": X, "y": [0, 1, 0]}, "1": {"x": X, "y": [0, 1, 0]}}, "client names must differ, 1 occurs more than"),
        (
            {"a": {"x": X, "y": [0, 1, 0]}, "b": {"x": [[1], [2]], "y": [0, 1]}},
            r"client 'b': x has samples of shape \(1,\), those of client 'a' have \(2,\)",
        ),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(clients: object, message: str):
    with pytest.raises(DataError, match=message) as caught:
        Federation.from_arrays(clients)
    assert "\n" not in str(caught.value)


def test_more_classes_than_a_binary_task_has():
    with pytest.raises(DataError, match=r"targets of a binary task must be .* found .* with values 0 to 2"):
        of(y=[0, 1, 2], task="binary")


def test_unknown_task_names_the_nearest():
    with pytest.raises(SpecError, match="task = 'multi-class': did you mean 'multiclass'"):
        of(task="multi-class")


def test_a_share_of_samples_without_a_split_is_held_out():
    x = np.arange(20.0)[:, None]
    federation, again = (Federation.from_arrays({"a": {"x": x, "y": x[:, 0] > 9}}) for _ in range(2))
    [client] = federation.clients
    assert (len(client.train), len(client.test)) == (16, 4)
    both = torch.cat([client.train.x, client.test.x]).flatten()
    assert sorted(both.tolist()) == x.flatten().tolist()
    assert federation.fingerprint == again.fingerprint


@pytest.mark.parametrize(
    ("n", "share", "tested"), [(2, 0.2, 1), (1, 0.2, 0), (10, 0, 0), (10, 0.29, 2), (100, 0.29, 29)]
)
def test_the_share_is_rounded_down_but_not_to_zero(n: int, share: float, tested: int):
    x = np.zeros((n, 1))
    [client] = Federation.from_arrays([{"x": x, "y": x[:, 0]}], test_share=share).clients
    assert (len(client.train), len(client.test or ())) == (n - tested, tested)


def test_labels_that_skip_a_class_are_refused_unless_the_number_of_classes_is_given():
    clients = {"a": {"x": X, "y": [1, 2, 1]}, "b": {"x": X, "y": [2, 2, 1]}}
    message = "^own_data: no sample has class 0, the highest class number is 2; number .* or give classes = 3$"
    with pytest.raises(DataError, match=message):
        Federation.from_arrays(clients)
    assert Federation.from_arrays(clients, classes=4).classes == 4
    with pytest.raises(DataError, match=r"class numbers 0 to 1, found .* 2"):
        Federation.from_arrays(clients, classes=2, task="multiclass")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["acuracy"]}, "unknown metric 'acuracy': did you mean 'accuracy'"),
        ({"test_share": "0.2"}, "test_share = '0.2': expected a share of at least 0 and below 1"),
        ({"classes": 1.5}, "classes = 1.5: expected a whole number of at least 2"),
        ({"task": "binary", "classes": 3}, "classes = 3: a binary task has 2 classes; leave classes out"),
    ],
)
def test_other_arguments_are_checked_at_once(options: dict[str, object], message: str):
    with pytest.raises(SpecError, match=message):
        of(**options)
