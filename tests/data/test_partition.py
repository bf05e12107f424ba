"""Partitions: disjoint, complete except for reported samples, repeatable, finite; published ones exact."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench._datasets.medmnist import merged_and_split
from bench.data import legacy
from bench.data.partition import Partition, dirichlet, label_dirichlet, pathological, practical
from bench.types import SpecError


def check(parts: list[np.ndarray], samples: int, clients: int, minimum: int) -> None:
    assert len(parts) == clients
    assert sorted(np.concatenate(parts)) == list(range(samples))
    assert all(len(part) >= minimum and (np.diff(part) > 0).all() for part in parts)


@given(
    labels=st.lists(st.integers(0, 9), min_size=1, max_size=200),
    clients=st.integers(1, 8),
    alpha=st.floats(1e-300, 1e6, exclude_max=True),
    seed=st.integers(0, 2**32),
)
def test_every_sample_goes_to_one_client(labels: list[int], clients: int, alpha: float, seed: int):
    check(dirichlet(np.array(labels), clients, alpha, seed, minimum=0), len(labels), clients, 0)


@given(samples=st.integers(60, 200), alpha=st.floats(0.3, 1e3), seed=st.integers(0, 2**32), minimum=st.integers(1, 5))
def test_every_client_gets_its_minimum(samples: int, alpha: float, seed: int, minimum: int):
    check(dirichlet(np.arange(samples) % 5, 4, alpha, seed, minimum), samples, 4, minimum)


@given(seed=st.integers(0, 2**32))
def test_the_seed_decides_all(seed: int):
    labels = np.arange(100) % 7
    first, second = (dirichlet(labels, 4, 0.5, seed) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_seeds_differ():
    labels = np.arange(100) % 7
    assert {len(dirichlet(labels, 2, 0.5, seed)[0]) for seed in range(5)} != {50}


def test_a_large_alpha_gives_every_client_the_same_mixture():
    labels = np.repeat(np.arange(5), 200)
    for part in dirichlet(labels, 4, 1e5, seed=0):
        assert np.abs(np.bincount(labels[part]) - 50).max() <= 2


def test_a_small_alpha_gives_every_class_to_one_client():
    labels = np.repeat(np.arange(20), 10)
    parts = dirichlet(labels, 3, 1e-6, seed=0)
    assert sum(len(np.unique(labels[part])) for part in parts) == 20


@pytest.mark.parametrize(
    ("clients", "alpha", "minimum", "message"),
    [
        (0, 0.5, 1, "expected at least 1 client"),
        (3, 0.0, 1, "expected an alpha above 0"),
        (3, float("nan"), 1, "expected an alpha above 0"),
        (3, float("inf"), 1, "expected an alpha above 0"),
        (3, 0.5, 7, "20 samples cannot give each client 7"),
        (5, 1e-6, 1, "none of 1000 draws gave every client 1 samples; raise alpha"),
    ],
)
def test_impossible_requests_are_refused(clients: int, alpha: float, minimum: int, message: str):
    with pytest.raises(SpecError, match=message):
        dirichlet(np.arange(20) % 2, clients, alpha, seed=0, minimum=minimum)


PUBLISHED: dict[str, Callable[[list[np.ndarray], int, int], list[Partition]]] = {
    "pathological": pathological,
    "practical": practical,
    "dirichlet": lambda parts, clients, seed: label_dirichlet(parts, clients, 0.5, seed),
}
MNIST = (
    [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
)
CIFAR = ([5000] * 10, [1000] * 10)
# Training samples (85 %) and test samples of APPLE's twelve clients at seed 42.
APPLE_SIZES = {
    ("pathological", "mnist"): (
        [5459, 5486, 3524, 1791, 5538, 5976, 1695, 6873, 5515, 2870, 4145, 2111],
        [1073, 1063, 689, 354, 1061, 1175, 330, 1345, 1082, 570, 836, 408],
    ),
    ("practical", "mnist"): (
        [9276, 5614, 4662, 961, 506, 4908, 962, 8600, 953, 506, 4970, 9034],
        [1792, 1081, 902, 185, 95, 963, 188, 1668, 184, 95, 983, 1807],
    ),
    ("pathological", "cifar10"): (
        [4456, 4965, 2849, 1527, 4623, 4646, 1471, 5748, 4522, 2414, 3480, 1782],
        [1048, 1168, 669, 358, 1087, 1093, 345, 1352, 1063, 568, 819, 419],
    ),
    ("practical", "cifar10"): (
        [7905, 4547, 4165, 807, 425, 4165, 807, 7140, 807, 425, 4165, 7140],
        [1860, 1070, 980, 190, 100, 980, 190, 1680, 190, 100, 980, 1680],
    ),
    ("pathological", "organamnist"): (
        [3904, 5213, 473, 3823, 4877, 1035, 6766, 3223, 1892, 1994, 3087, 3703],
        [1148, 1532, 138, 1124, 1434, 304, 1989, 947, 556, 586, 907, 1088],
    ),
    ("practical", "organamnist"): (
        [10249, 5049, 7191, 713, 396, 4348, 541, 3964, 799, 396, 3342, 2964],
        [3010, 1481, 2111, 204, 111, 1274, 154, 1162, 229, 111, 977, 867],
    ),
    ("pathological", "pathmnist"): (
        [5934, 6492, 2253, 4934, 4253, 5615, 10107, 8794, 3303, 7507, 7911, 5765],
        [1745, 1909, 662, 1450, 1250, 1651, 2972, 2586, 971, 2208, 2326, 1695],
    ),
    ("practical", "pathmnist"): (
        [15767, 8097, 9012, 725, 725, 6726, 1450, 13583, 1332, 725, 1471, 13222],
        [4633, 2378, 2648, 210, 210, 1975, 424, 3992, 389, 210, 429, 3887],
    ),
}
MERGED = {
    "organamnist": [3313, 2407, 2375, 2651, 6595, 6419, 10482, 6699, 6751, 5182, 5956],
    "pathmnist": [11745, 11413, 11851, 12191, 9931, 14128, 9504, 10867, 15550],
}
# The classes of APPLE's twelve clients in the pathological setting at seed 42.
PAIRS = {
    10: ["18", "05", "27", "49", "36", "01", "58", "34", "79", "26", "29", "06"],
    9: ["17", "05", "28", "34", "06", "15", "34", "78", "26", "28", "06", "57"],
}


def labels_of(counts: list[int]) -> np.ndarray:
    return np.repeat(np.arange(len(counts)), counts)


def sizes(partition: Partition) -> list[int]:
    return [len(indices) for indices in partition.clients]


@pytest.mark.parametrize(("kind", "data"), [key for key in APPLE_SIZES if key[1] not in MERGED])
def test_sizes_are_those_of_apple(kind: str, data: str):
    train, test = PUBLISHED[kind]([labels_of(counts) for counts in (MNIST if data == "mnist" else CIFAR)], 12, 42)
    assert ([math.floor(0.85 * size) for size in sizes(train)], sizes(test)) == APPLE_SIZES[kind, data]


@pytest.mark.parametrize(("kind", "data"), [key for key in APPLE_SIZES if key[1] in MERGED])
def test_sizes_of_the_medical_images_are_those_of_apple_but_for_rounding(kind: str, data: str):
    labels = labels_of(MERGED[data])
    (_, for_train), (_, for_test) = merged_and_split(labels, labels)
    train, test = PUBLISHED[kind]([for_train, for_test], 12, 42)
    expected_train, expected_test = APPLE_SIZES[kind, data]
    assert np.abs(np.array([math.floor(0.85 * size) for size in sizes(train)]) - expected_train).max() <= 1
    assert np.abs(np.array(sizes(test)) - expected_test).max() <= 1


@pytest.mark.parametrize("classes", PAIRS)
def test_pathological_clients_hold_the_classes_of_apple(classes: int):
    labels = np.arange(classes * 2000) % classes
    (partition,) = pathological([labels], 12, 42)
    assert ["".join(map(str, np.unique(labels[indices]))) for indices in partition.clients] == PAIRS[classes]


def test_first_fractions_are_those_of_apple():
    fractions = legacy.pathological(legacy.stream(42), 11, 12)
    assert fractions[[0, 5], 0].round(6).tolist() == [0.567548, 0.601613]
    assert fractions[[2, 6], 11].round(6).tolist() == [0.656625, 0.370888]


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (1, [11775, 11817, 11835, 9444, 5129]),
        (2, [11420, 7739, 10063, 9175, 11603]),
        (3, [8479, 12613, 13325, 2767, 12816]),
        (4, [14854, 9894, 8139, 6763, 10350]),
        (5, [4424, 9758, 6454, 12856, 16508]),
    ],
)
def test_sizes_are_those_of_player(seed: int, expected: list[int]):
    (partition,) = label_dirichlet([labels_of(CIFAR[0])], 5, 0.5, seed)
    assert sizes(partition) == expected


def test_label_dirichlet_deals_slices_in_the_given_order_and_the_rest_to_the_last_client():
    labels = np.tile([0, 1], 50)
    (partition,) = label_dirichlet([labels], 3, 0.5, seed=1)
    shares = legacy.dirichlet(legacy.stream(1), 2, 3, 0.5)
    for label in (0, 1):
        held = [indices[labels[indices] == label] for indices in partition.clients]
        assert np.concatenate(held).tolist() == np.flatnonzero(labels == label).tolist()
        first, second = (math.floor(share * 50) for share in shares[label, :2])
        assert [len(indices) for indices in held] == [first, second, 50 - first - second]


@pytest.mark.parametrize("kind", PUBLISHED)
@given(
    labels=st.lists(st.lists(st.integers(0, 9), max_size=300), min_size=1, max_size=3),
    clients=st.integers(5, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_published_partitions_are_total_but_for_what_they_report(
    kind: str, labels: list[list[int]], clients: int, seed: int
):
    parts = [np.array(part, dtype=np.int64) for part in labels]
    cut = PUBLISHED[kind](parts, clients, seed)
    again = PUBLISHED[kind](parts, clients, seed)
    for part, partition, repeated in zip(parts, cut, again, strict=True):
        assert len(partition.clients) == clients
        everything = np.concatenate([*partition.clients, partition.left_out])
        assert sorted(everything) == list(range(len(part)))
        assert everything.tolist() == np.concatenate([*repeated.clients, repeated.left_out]).tolist()
        most = 0 if kind == "dirichlet" else clients - 1
        assert np.bincount(part[partition.left_out], minlength=1).max() <= most


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_client_has_the_same_share_of_a_class_in_every_part(kind: str):
    large, small = labels_of([4000] * 10), labels_of([400] * 10)
    for_large, for_small = PUBLISHED[kind]([large, small], 12, 7)
    for first, second in zip(for_large.clients, for_small.clients, strict=True):
        counts = [np.bincount(labels[indices], minlength=10) for labels, indices in ((large, first), (small, second))]
        assert np.abs(counts[0] / 10 - counts[1]).max() <= (1 if kind != "dirichlet" else 12)


@pytest.mark.parametrize("clients", [2, 12, 30])
def test_practical_gives_one_client_most_of_a_class(clients: int):
    (partition,) = practical([labels_of([10_000])], clients, 0)
    one_percent = [100] * (clients - 2)
    assert sorted(sizes(partition)) == pytest.approx(sorted([*one_percent, 1000, 9000 - sum(one_percent)]), abs=1)


def test_a_pair_of_equal_classes_makes_a_client_of_one_class():
    """With nine classes a pair may span two lists of classes and hold the same class twice."""
    labels = labels_of([100] * 9)
    held = [
        [len(np.unique(labels[indices])) for indices in pathological([labels], 12, seed)[0].clients]
        for seed in range(60)
    ]
    assert {min(counts) for counts in held} == {1, 2}
    assert {max(counts) for counts in held} == {2}


def test_published_partitions_leave_the_global_generator_alone():
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    for cut in PUBLISHED.values():
        cut([np.arange(100) % 10], 12, 3)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (lambda y: pathological([y], 4, 0), r"pathological over 4 clients: expected at least 5 clients, two of the 10"),
        (lambda y: pathological([y], 0, 0), "pathological over 0 clients: expected at least 5 clients"),
        (lambda y: practical([y], 1, 0), "practical over 1 clients: expected 2 to 82 clients"),
        (lambda y: practical([y], 83, 0), "practical over 83 clients: expected 2 to 82 clients"),
        (lambda y: label_dirichlet([y], 0, 0.5, 0), "expected at least 1 client"),
        (lambda y: label_dirichlet([y], 5, 0.0, 0), "expected an alpha above 0"),
        (lambda y: label_dirichlet([y], 5, float("nan"), 0), "expected an alpha above 0"),
        (lambda y: label_dirichlet([y], 5, 1e-300, 0), "expected a larger alpha"),
        (lambda y: practical([y], 12, -1), r"seed = -1, expected a whole number from 0 and below 2\*\*32"),
        (lambda y: practical([y], 12, 2**32), "seed = 4294967296, expected"),
    ],
)
def test_impossible_published_partitions_are_refused(request_: Callable[[np.ndarray], object], message: str):
    with pytest.raises(SpecError, match=message):
        request_(np.arange(100) % 10)
