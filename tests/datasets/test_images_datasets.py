"""Image data sets: golden sizes on the real files, everything else on small files in the same formats."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split

from bench.data import load_dataset
from bench.data.files import cache
from bench.data.files.raw_file import RawFile
from bench.data.readers import npz
from bench.data.readers.images import resize
from bench.registry import load
from bench.types import Client, DataError, Federation, SpecError

NAMES = ("mnist", "fashion_mnist", "emnist", "cifar10", "organamnist", "pathmnist")
adapters = {name: load("datasets", name).__globals__ for name in NAMES}
APPLE = {"protocol": "apple", "partition": "practical", "clients": 12, "partition_seed": 42}
PLAYER = {"protocol": "player", "partition": "dirichlet", "clients": 5, "partition_seed": 1}


def sizes(federation: Federation) -> list[list[int]]:
    parts = ("train", "validation", "test")
    return [[len(getattr(client, part) or ()) for client in federation.clients] for part in parts]


def images_of(client: Client) -> list[bytes]:
    parts = (client.train, client.validation, client.test)
    return [image.numpy().tobytes() for part in parts if part is not None for image in part.x]


def images(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and an empty cache, without downloads."""
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def publish(monkeypatch: pytest.MonkeyPatch, name: str, key: str, file: Path) -> None:
    """Make ``file`` the published file ``key`` of the data set ``name``."""
    content = file.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    files: dict[str, RawFile] = adapters[name]["FILES"]
    monkeypatch.setitem(files, key, dataclasses.replace(files[key], sha256=sha256, md5=None, size=len(content)))


# The real files.


@pytest.fixture(scope="module")
def mnist(bench_data: Path) -> dict[str, Federation]:
    return {
        partition: load_dataset("mnist", bench_data, partition=partition) for partition in ("pathological", "practical")
    }


def test_sizes_of_mnist_are_those_of_apple(mnist: dict[str, Federation]):
    train, validation, test = sizes(mnist["pathological"])
    assert train == [5459, 5486, 3524, 1791, 5538, 5976, 1695, 6873, 5515, 2870, 4145, 2111]
    assert test == [1073, 1063, 689, 354, 1061, 1175, 330, 1345, 1082, 570, 836, 408]
    assert sum(validation) == 9004
    train, validation, test = sizes(mnist["practical"])
    assert train == [9276, 5614, 4662, 961, 506, 4908, 962, 8600, 953, 506, 4970, 9034]
    assert test == [1792, 1081, 902, 185, 95, 963, 188, 1668, 184, 95, 983, 1807]
    assert sum(validation) == 8999


def test_no_image_of_mnist_is_held_twice(mnist: dict[str, Federation]):
    for federation in mnist.values():
        held = [image for client in federation.clients for image in images_of(client)]
        # All 70,000 images of MNIST differ.
        assert len(set(held)) == len(held)


def test_pathological_mnist_has_two_digits_per_client_in_every_part(mnist: dict[str, Federation]):
    for client in mnist["pathological"].clients:
        held = [set(part.y.tolist()) for part in (client.train, client.validation, client.test)]
        assert len(held[0]) == 2
        assert held[0] == held[1] == held[2]


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (1, [2350, 2385, 2361, 1887, 1017]),
        (2, [2272, 1534, 2040, 1850, 2304]),
        (3, [1684, 2523, 2640, 551, 2602]),
    ],
)
def test_sizes_of_fashion_mnist_are_those_of_player(bench_data: Path, seed: int, expected: list[int]):
    train, validation, test = sizes(load_dataset("fashion_mnist", bench_data, partition_seed=seed))
    assert [sum(parts) for parts in zip(train, validation, test, strict=True)] == expected
    if seed == 1:
        assert train == [1504, 1526, 1510, 1207, 650]


def test_fashion_mnist_is_the_front_of_the_training_file(bench_data: Path):
    federation = load_dataset("fashion_mnist", bench_data)
    labels = torch.cat([part.y for c in federation.clients for part in (c.train, c.validation, c.test)])
    assert torch.bincount(labels).tolist() == [942, 1027, 1016, 1019, 974, 989, 1021, 1022, 990, 1000]
    content = (bench_data / "FashionMNIST/raw/train-images-idx3-ubyte").read_bytes()[16 : 16 + 10_000 * 784]
    originals = sorted(content[start : start + 784] for start in range(0, len(content), 784))
    assert sorted(image for client in federation.clients for image in images_of(client)) == originals


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_pinned_hashes_are_of_the_real_files(bench_data: Path, name: str):
    for asset in adapters[name]["FILES"].values():
        content = (bench_data / asset.path).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (asset.sha256, asset.size)
        assert all(url.endswith(f"/{Path(asset.path).name}.gz") for url in asset.urls)


def test_fingerprints_of_the_published_partitions(mnist: dict[str, Federation], bench_data: Path):
    assert {
        "pathological": mnist["pathological"].fingerprint,
        "practical": mnist["practical"].fingerprint,
        "fashion": load_dataset("fashion_mnist", bench_data).fingerprint,
    } == {
        "pathological": "0b86e2ad638a06cb824f7ef9e6c8cf1fdabb72b6ea098c07c693252b9fbe1089",
        "practical": "92a4fac197285bc28b3c807cf6cb8ae75f5c85ca5fce339fac862c5aedf48265",
        "fashion": "34194c469e0cf4f5221ac9cc3267b5aaaa94e368017b2afeabc3f59efe497203",
    }


def test_normalised_pixels_have_the_published_statistics(bench_data: Path):
    """Mean and deviation of PLayer-FL are those of all training pixels."""
    raw = np.fromfile(bench_data / "FashionMNIST/raw/train-images-idx3-ubyte", dtype=np.uint8)[16:].astype(np.float32)
    assert [round(float(value), 3) for value in (raw.mean() / 255, raw.std() / 255)] == [0.286, 0.353]
    x = load_dataset("fashion_mnist", bench_data)
    made = x.prepare(x.clients[0].train.x)
    assert made.dtype == torch.float32
    assert made.min() == pytest.approx((0 - 0.2860) / 0.3530)


# Files made by the tests.


def write_mnist(folder: Path, monkeypatch: pytest.MonkeyPatch, train: int = 600, test: int = 120) -> None:
    for part, count in (("train", train), ("test", test)):
        for kind, header, body in (
            ("images", struct.pack(">4I", 2051, count, 28, 28), images(count, 28, 28, seed=count)),
            ("labels", struct.pack(">2I", 2049, count), (np.arange(count) % 10).astype(np.uint8)),
        ):
            key = f"{part}_{kind}"
            file = write(folder / adapters["mnist"]["FILES"][key].path, header + body.tobytes())
            publish(monkeypatch, "mnist", key, file)


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_mnist(folder, monkeypatch)
    return folder


@pytest.mark.parametrize("protocol", ["apple", "player"])
@pytest.mark.parametrize("partition", ["pathological", "practical", "dirichlet"])
def test_every_protocol_takes_every_partition(small: Path, protocol: str, partition: str):
    options = {"protocol": protocol, "partition": partition, "clients": 6, "partition_seed": 3}
    federation = load_dataset("mnist", small, **options)
    assert federation.options == {**options, "alpha": 0.5}
    assert (federation.augment is None) == (protocol == "apple")
    assert federation.metrics == {"apple": ("accuracy",), "player": ("macro_f1", "accuracy", "loss")}[protocol]
    held = [image for client in federation.clients for image in images_of(client)]
    assert len(set(held)) == len(held)
    for train, validation, test in zip(*sizes(federation), strict=True):
        if protocol == "apple":
            assert train == (train + validation) * 85 // 100
        else:
            total = train + validation + test
            assert test == -(-total // 5)
            assert validation == -(-(total - test) // 5)
    again = load_dataset("mnist", small, **options)
    assert again.fingerprint == federation.fingerprint
    assert again.prepare == federation.prepare
    assert again.augment == federation.augment


def test_seeds_decide_the_clients_and_their_validation_samples(small: Path):
    first, second = (load_dataset("mnist", small, partition_seed=seed) for seed in (1, 2))
    assert first.fingerprint != second.fingerprint
    # Held-out samples are drawn from both classes.
    assert [len(set(client.validation.y.tolist())) for client in first.clients].count(2) > 6


def test_player_splits_with_two_calls_of_scikit_learn(small: Path):
    federation = load_dataset("mnist", small, **PLAYER | {"clients": 1})
    raw = images(600, 28, 28, seed=600)
    by_class = np.argsort(np.arange(600) % 10, kind="stable")
    rest, test = train_test_split(by_class, test_size=0.2, random_state=42)
    train, validation = train_test_split(rest, test_size=0.2, random_state=42)
    (client,) = federation.clients
    for part, expected in ((client.train, train), (client.validation, validation), (client.test, test)):
        np.testing.assert_array_equal(part.x[:, 0], raw[expected])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "aple"}, "protocol = 'aple': did you mean 'apple'"),
        ({"partition": "pathologic"}, "partition = 'pathologic': did you mean 'pathological'"),
        ({"clients": 2.0}, r"clients = 2\.0: expected a whole number"),
        ({"clients": True}, "clients = True: expected a whole number"),
        ({"partition_seed": "1"}, "partition_seed = '1': expected a whole number"),
        ({"alpha": "0.5"}, r"alpha = '0\.5': expected a number"),
        ({"partition": "dirichlet", "alpha": -1}, "expected an alpha above 0"),
        ({"clients": 4}, "expected at least 5 clients, two of the 10 classes each"),
        (
            {"partition": "dirichlet", "alpha": 0.01, "partition_seed": 5},
            r"partition dirichlet with partition_seed = 5: client_\d+ gets \d samples, expected at least 2; choose",
        ),
        ({"partition": "dirichlet", "alpha": 0.02, "protocol": "player"}, "expected at least 3; choose another seed"),
    ],
)
def test_impossible_options_are_refused(small: Path, options: dict[str, Any], message: str):
    with pytest.raises(SpecError, match=message):
        load_dataset("mnist", small, **options)


def test_a_client_without_test_samples_is_not_scored(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write_mnist(folder, monkeypatch, train=2000, test=30)
    federation = load_dataset("mnist", folder, partition="practical")
    assert [client.test is None for client in federation.clients].count(True) > 0


def write_cifar(folder: Path, name: str = "cifar-10-batches-bin") -> None:
    for number, file in enumerate([f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]):
        rows = images(60, 3073, seed=number)
        rows[:, 0] = np.arange(60) % 10
        write(folder / name / file, rows.tobytes())


@pytest.mark.filterwarnings("ignore:.*are not the published CIFAR-10")
@pytest.mark.parametrize("packed", [False, True])
def test_cifar10_is_read_from_other_batches_or_the_archive(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
):
    if not packed:
        write_cifar(folder, "cifar-10-batches-other")
    else:
        write_cifar(tmp_path)
        archive = folder / "cifar-10-binary.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
        publish(monkeypatch, "cifar10", "archive", archive)
    shrunk = load_dataset("cifar10", folder, **APPLE | {"partition": "pathological"})
    full = load_dataset("cifar10", folder, **PLAYER)
    assert {client.train.x.shape[1:] for client in shrunk.clients} == {(3, 28, 28)}
    assert {client.train.x.shape[1:] for client in full.clients} == {(3, 32, 32)}
    originals = np.concatenate([images(60, 3073, seed=number)[:, 1:] for number in range(5)]).reshape(-1, 3, 32, 32)
    held = sorted(image for client in full.clients for image in images_of(client))
    assert held == sorted(image.tobytes() for image in originals)
    small = {image.tobytes() for image in resize(originals, 28)}
    assert {image.numpy().tobytes() for client in shrunk.clients for image in client.train.x} < small
    x = full.clients[0].train.x
    assert full.augment(x, torch.arange(len(x))).shape == x.shape
    assert shrunk.prepare(shrunk.clients[0].train.x).abs().max() <= 1


def test_15_7_unpacked_batches_of_cifar10_must_be_the_published_ones(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write_cifar(folder)
    refused = r"cifar-10-batches-bin: is not the published CIFAR-10: %s; .*rename it to cifar-10-batches-other"
    for options in (APPLE, PLAYER):
        with pytest.raises(DataError, match=refused % "300 pictures, expected 50000"):
            load_dataset("cifar10", folder, **options)
    # 12,000 random pictures, with labels that are the published ones where a file has them.
    adapter = load("datasets", "cifar10").__globals__
    facts = {"train": adapter["Facts"]([(200,) * 10] * 5, ["01234567890123456789"] * 5, (0, 0, 0))}
    monkeypatch.setitem(adapter, "FACTS", facts)
    monkeypatch.setitem(adapter, "ROWS", 2000)
    for number in range(1, 6):
        rows = images(2000, 3073, seed=number)
        rows[:, 0] = np.arange(2000) % 10
        write(folder / f"cifar-10-batches-bin/data_batch_{number}.bin", rows.tobytes())
    write(folder / "cifar-10-batches-bin/test_batch.bin", rows.tobytes())
    with pytest.raises(DataError, match=refused % r"the sums of red, green and blue are \(\d+, .*"):
        load_dataset("cifar10", folder, **PLAYER)
    file = folder / "cifar-10-batches-bin/data_batch_3.bin"
    original = file.read_bytes()
    file.write_bytes(original[3073:] + original[:3073])
    with pytest.raises(DataError, match=refused % "data_batch_3.bin has its pictures in another order"):
        load_dataset("cifar10", folder, **PLAYER)
    file.write_bytes(b"\x01" + original[1:])
    with pytest.raises(DataError, match=refused % r"data_batch_3.bin has \(199, 201, .*"):
        load_dataset("cifar10", folder, **PLAYER)
    print("12,000 random pictures refused")


def test_the_published_facts_about_cifar10_agree_with_each_other():
    facts = load("datasets", "cifar10").__globals__["FACTS"]
    assert [sum(of) for of in zip(*facts["train"].counts, strict=True)] == [5000] * 10
    for part, mean in (("train", (0.4914, 0.4822, 0.4465)), ("test", (0.4942, 0.4851, 0.4504))):
        pixels = 255 * 32 * 32 * sum(map(sum, facts[part].counts))
        assert [total / pixels for total in facts[part].sums] == pytest.approx(mean, abs=5e-5)


def test_other_pictures_are_warned_about_and_cached_apart(folder: Path):
    write_cifar(folder, "cifar-10-batches-other")
    with pytest.warns(UserWarning, match="cifar-10-batches-other: these pictures are not the published CIFAR-10"):
        load_dataset("cifar10", folder, **PLAYER)
    for _ in ("decoded", "from the cache"):
        with pytest.warns(UserWarning, match="are not the published"):
            load_dataset("cifar10", folder, **APPLE | {"partition": "pathological"})
    (folder / "cifar-10-batches-other").rename(folder / "cifar-10-batches-bin")
    with pytest.raises(DataError, match="is not the published CIFAR-10"):
        load_dataset("cifar10", folder, **APPLE | {"partition": "pathological"})


def emnist_files() -> dict[str, bytes]:
    made = {}
    for part, count in (("train", 15_100), ("test", 400)):
        x, y = images(count, 28, 28), (np.arange(count) % 62).astype(np.uint8)
        made[f"emnist-byclass-{part}-images-idx3-ubyte"] = struct.pack(">4I", 2051, count, 28, 28) + x.tobytes()
        made[f"emnist-byclass-{part}-labels-idx1-ubyte"] = struct.pack(">2I", 2049, count) + y.tobytes()
    return made


@pytest.mark.parametrize("packed", [False, True])
def test_emnist_is_read_from_unpacked_files_or_the_archive(folder: Path, monkeypatch: pytest.MonkeyPatch, packed: bool):
    if packed:
        body = io.BytesIO()
        with zipfile.ZipFile(body, "w") as archive:
            for name, content in emnist_files().items():
                archive.writestr(f"gzip/{name}.gz", gzip.compress(content, 1))
            archive.writestr("gzip/emnist-letters-mapping.txt", b"1 65 97\n")
        publish(monkeypatch, "emnist", "archive", write(folder / "EMNIST/raw/gzip.zip", body.getvalue()))
    else:
        for name, content in emnist_files().items():
            write(folder / "EMNIST/raw" / name, content)
    federation = load_dataset("emnist", folder)
    assert federation.classes == 62
    held = sorted(image for client in federation.clients for image in images_of(client))
    assert held == sorted(image.tobytes() for image in images(15_100, 28, 28)[:15_000])
    apple = load_dataset("emnist", folder, **APPLE | {"partition": "dirichlet"})
    assert sum(map(sum, sizes(apple))) == 15_500


MEDMNIST = {"organamnist": (1, 11), "pathmnist": (3, 9)}  # channels, classes


def write_medmnist(folder: Path, name: str) -> Path:
    channels, classes = MEDMNIST[name]
    arrays = {}
    for part, count in (("train", 1500), ("val", 200), ("test", 150)):
        shape = (28, 28) if channels == 1 else (28, 28, 3)
        arrays[f"{part}_images"] = images(count, *shape, seed=count)
        arrays[f"{part}_labels"] = (np.arange(count) % classes).astype(np.uint8)[:, None]
    (folder / "medmnist").mkdir()
    np.savez(folder / f"medmnist/{name}.npz", **arrays)
    return folder / f"medmnist/{name}.npz"


@pytest.mark.parametrize("name", ["organamnist", "pathmnist"])
@pytest.mark.parametrize("partition", ["pathological", "practical"])
def test_medmnist_is_merged_and_split_again(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, partition: str):
    publish(monkeypatch, name, "archive", write_medmnist(folder, name))
    federation = load_dataset(name, folder, partition=partition)
    channels, _ = MEDMNIST[name]
    assert {client.train.x.shape[1:] for client in federation.clients} == {(channels, 28, 28)}
    train, validation, test = (sum(part) for part in sizes(federation))
    # 1850 pictures, 370 of them for testing; rounding leaves fewer than one per class and holder unassigned.
    assert 1480 - 12 * 11 < train + validation <= 1480
    assert 370 - 12 * 11 < test <= 370
    held = [image for client in federation.clients for image in images_of(client)]
    assert len(set(held)) == len(held)


@pytest.mark.parametrize("name", ["organamnist", "pathmnist"])
def test_medmnist_is_unpacked_once(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    publish(monkeypatch, name, "archive", write_medmnist(folder, name))
    federation = load_dataset(name, folder)
    assert len(cache.folders(name)) == 1
    monkeypatch.setattr(npz, "read_medmnist", lambda *_: pytest.fail("the file was unpacked again"))
    assert load_dataset(name, folder).fingerprint == federation.fingerprint
    assert federation.metrics == ("accuracy",)


@pytest.mark.parametrize("name", NAMES)
def test_missing_files_are_named_with_what_to_put_where(folder: Path, name: str):
    with pytest.raises(DataError) as caught:
        load_dataset(name, folder)
    message = str(caught.value)
    assert "not found in" in message
    assert "download https://" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", NAMES)
def test_wrong_files_are_named_and_never_parsed(folder: Path, name: str):
    asset = next(iter(adapters[name]["FILES"].values()))
    wrong = write(folder / asset.path, b"<html>not found</html>")
    with pytest.raises(DataError, match=r"is not the published file: expected .*, found 22 bytes") as caught:
        load_dataset(name, folder)
    assert str(wrong) in str(caught.value)


def test_licence_and_citation_come_from_the_card(small: Path):
    federation = load_dataset("mnist", small)
    assert federation.licence == "CC BY-SA 3.0"
    assert federation.citation.startswith("Y. LeCun, C. Cortes")
