"""The studies of experiments/: each reads, has the papers' settings, covers what is printed, and runs in miniature."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import registry, spec
from bench.data import load_dataset
from bench.data.metadata import Metadata
from bench.report import publish
from bench.spec import Method, StudySpec, printed
from bench.spec.files.toml import parse
from bench.sweep import study as running
from bench.sweep import training
from bench.sweep.executors.local import InProcessExecutor
from bench.sweep.runner import Runner
from bench.sweep.store import Store
from bench.train import engine
from bench.train.run_batch import RunBatch
from bench.types import Budget, Client, Federation, Split

FOLDER = registry.folder("experiments")
PAPERS = ["apple", "fenda", "global_layers", "player"]
FILES = {f"{file.parent.name}/{file.stem}": file for file in spec.studies()}
MNIST_LIKE = ["mnist", "cifar10", "organamnist", "pathmnist"]
PLAYER = {
    "fashion-mnist": "fashion_mnist", "emnist": "emnist", "cifar10": "cifar10", "isic2019": "isic2019_4class",
    "heart": "fed_heart_disease_5class", "sent140": "sent140", "mimic3": "mimic3_mortality",
}  # fmt: skip
APPLE = [f"{data}-{partition}" for data in MNIST_LIKE for partition in ("pathological", "practical")]


def read(name: str, profile: str = spec.PAPER) -> StudySpec:
    return spec.read(FILES[name], profile)


def facts(paper: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / paper / "paper.toml").read_text(encoding="utf-8"))


# They read ------------------------------------------------------------------------------------------------------


def test_these_are_all_the_studies() -> None:
    assert set(FILES) == {
        *(f"apple/{study}" for study in APPLE),
        *(f"fenda/{study}" for study in ("heart", "heart-as-published", "heart-seeds", "ixi", "isic2019")),
        *(f"fenda/gemini-{study}" for study in ("mortality", "delirium", "delirium-own-features")),
        *(f"global_layers/{study}" for study in ("heart", "covertype", "covertype-prepared")),
        *(f"player/{layers}{study}" for study in PLAYER for layers in ("", "layers-")),
        "player/heart-rates",
        "quickstart/quickstart",
    }  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_short_profile_is_less_of_the_same(name: str) -> None:
    whole, short = read(name), read(name, "short")
    assert list(short.methods) == list(whole.methods)
    assert [table.rows for table in short.tables.values()] == [table.rows for table in whole.tables.values()]
    assert work_of(short) < work_of(whole) / 1.9


def work_of(study: StudySpec) -> int:
    """Rounds of all runs."""
    return sum(method.tried * method.budget.rounds * len(study.seeds) for method in study.methods.values())


# They cover what is printed -------------------------------------------------------------------------------------


def places(paper: str) -> set[str]:
    """Return the places of printed.csv with numbers: table:dataset:metric."""
    with (FOLDER / paper / "printed.csv").open(encoding="utf-8", newline="") as file:
        return {":".join((row["table"], row["dataset"], row["metric"])) for row in csv.DictReader(file)}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_printed_number_has_a_cell(paper: str) -> None:
    covered = set()
    for name in (name for name in FILES if name.startswith(f"{paper}/")):
        study = read(name)
        for table in (table for table in study.tables.values() if table.printed):
            covered.add(table.printed)
            cells = {(row.method, checkpoint) for row in table.rows for checkpoint in row.checkpoints}
            numbers = printed.at(paper, table.printed, by_client=table.columns == "clients")
            assert {(number.method, number.checkpoint) for number in numbers} <= cells, table.id
    for file in {joined.file: joined for joined in spec.joint("tables").values() if joined.paper == paper}.values():
        covered |= {table.printed_ranks for table in file.tables.values() if table.printed_ranks}
    assert covered == places(paper)


@pytest.mark.parametrize("paper", ["fenda", "global_layers"])
def test_every_printed_fact_of_an_architecture_has_a_cell(paper: str) -> None:
    """FENDA-FL's Tables 9, 11 and 12, Global Layers' Tables 8 and 9: they have no named settings."""
    facts = parse(FOLDER / paper / "paper.toml")
    if paper == "fenda":
        expected = {f"table9.{data}.{model}" for data, models in facts["table9"].items() for model in models}
        for table, measured in (("table11", ("accuracy", "auroc")), ("table12", ("dice",))):
            expected |= {f"{table}.{i}.{fact}" for i in range(len(facts[table])) for fact in (*measured, "parameters")}
    else:
        expected = {
            f"{table}.parameters.{method}" for table in ("table8", "table9") for method in facts[table]["parameters"]
        }
        # All clients send the same; of local training, which sends nothing, all parameters are printed.
        expected |= {f"table8.federated.{method}.comanche" for method in ("fedavg", "gl")}
        expected |= {f"table9.federated.{method}.cleveland" for method in ("fedavg", "gl")}
    tables = [table for name in FILES if name.startswith(f"{paper}/") for table in read(name).tables.values()]
    assert {row.printed for table in tables for row in table.rows} - {None} == expected


def test_joint_tables_have_every_data_set() -> None:
    joint = spec.joint("tables")
    player = [f"player/{table}" for table in ("1", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12")]
    apple = ["apple/1", "apple/1-validated", "apple/2", "apple/2-validated"]
    assert set(joint) == {*player, "player/2-fairness", "player/2-participation", *apple}
    for name in player:
        assert len(joint[name].tables[name].columns) == 7
    for name in apple:
        assert len(joint[name].tables[name].columns) == 8


# Their settings are the papers' ---------------------------------------------------------------------------------


def powers_of_ten(range_: tuple[float, float]) -> set[float]:
    largest, smallest = (round(math.log10(value)) for value in range_)
    return {float(f"1e{exponent}") for exponent in range(smallest, largest + 1)}


def values(method: Method, name: str) -> set[float]:
    axis = method.axes.get(name, ())
    assert isinstance(axis, tuple)
    return set(axis) or {method.fixed[name]}


BUDGETS: dict[str, Any] = {
    "fenda/heart": {"rounds": 15, "local_steps": 100, "batch_size": 4},
    "fenda/ixi": {"rounds": 10, "local_steps": 100, "batch_size": 2},
    "fenda/isic2019": {"rounds": 15, "local_steps": 100, "batch_size": 64},
    "fenda/gemini-mortality": {"rounds": 50, "local_epochs": 2, "batch_size": 64},
    "fenda/gemini-delirium": {"rounds": 50, "local_epochs": 4, "batch_size": 64},
    "fenda/gemini-delirium-own-features": {"rounds": 50, "local_epochs": 4, "batch_size": 64},
    "global_layers/heart": {"rounds": 10, "local_epochs": 1, "batches": 5, "draws": "torch"},
    "global_layers/covertype": {"rounds": 105, "local_epochs": 1, "batches": 10, "draws": "torch"},
    "global_layers/covertype-prepared": {"rounds": 105, "local_epochs": 1, "batches": 10, "draws": "torch"},
    "player/heart": {"rounds": 50, "local_epochs": 1, "batch_size": 32, "evaluate": "trained"},
    "player/fashion-mnist": {"rounds": 75, "local_epochs": 1, "batch_size": 128, "evaluate": "trained"},
    "player/emnist": {"rounds": 75, "local_epochs": 1, "batch_size": 128, "evaluate": "trained"},
    "player/cifar10": {"rounds": 50, "local_epochs": 1, "batch_size": 128, "evaluate": "trained"},
    "player/isic2019": {"rounds": 50, "local_epochs": 1, "batch_size": 128, "evaluate": "trained"},
    "player/sent140": {"rounds": 75, "local_epochs": 1, "batch_size": 64, "evaluate": "trained"},
    "player/mimic3": {"rounds": 50, "local_epochs": 1, "batch_size": 64, "evaluate": "trained"},
} | {
    f"apple/{study}": {
        "rounds": 160, "local_epochs": 5, "batch_size": 256, "optimizer": "sgd", "optimizer_state": "reset",
        "test_every": 1,
    }
    for study in APPLE
}  # fmt: skip
SEEDS = {
    **dict.fromkeys(("heart", "ixi", "isic2019"), range(2021, 2026)),
    "global_layers/heart": range(101),
    **dict.fromkeys(("global_layers/covertype", "global_layers/covertype-prepared"), range(8, 29)),
    **dict.fromkeys((f"player/{study}" for study in ("fashion-mnist", "emnist", "cifar10", "mimic3")), range(1, 11)),
    "player/heart": range(1, 51),
    "player/isic2019": range(1, 6),
    "player/sent140": range(1, 21),
    **{f"apple/{study}": [42] for study in APPLE},
}


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets_and_seeds(name: str) -> None:
    study = read(name)
    expected = Budget(**{"optimizer": "adamw", **BUDGETS[name]})
    of_its_own = {"local", "central", "central_as_published", "local_large", "central_large"}
    for key, method in study.methods.items():
        if name.startswith("fenda/") and key in of_its_own:
            continue
        optimizer = "sgd" if method.algorithm.name in ("scaffold", "pfedme") else expected.optimizer
        assert method.budget == dataclasses.replace(expected, optimizer=optimizer), key
    assert study.seeds == tuple(SEEDS.get(name, range(2021, 2026)))


@pytest.mark.parametrize(
    ("study", "table", "data"),
    [
        ("heart", "table5", "fed_heart_disease"),
        ("ixi", "table5", "fed_ixi"),
        ("isic2019", "table5", "fed_isic2019"),
        ("gemini-mortality", "table7", "gemini_mortality"),
        ("gemini-delirium", "table7", "gemini_delirium"),
    ],
)
def test_fenda_searches_the_printed_ranges(study: str, table: str, data: str) -> None:
    methods = read(f"fenda/{study}").methods
    for key, tuned in facts("fenda")[table][data].items():
        for name, entry in tuned.items():
            assert values(methods[key], name) == powers_of_ten(entry["range"]), (key, name)
    later = {"moon": 25, "fedper": 5, "perfcl": 36}
    assert {key: methods[key].tried for key in later} == later


@pytest.mark.parametrize(
    ("study", "data"), [("heart", "fed_heart_disease"), ("ixi", "fed_ixi"), ("isic2019", "fed_isic2019")]
)
def test_fenda_does_not_search_its_baselines(study: str, data: str) -> None:
    printed_baseline = facts("fenda")["baselines"][data]
    for key in ("local", "central"):
        method = read(f"fenda/{study}").methods[key]
        assert (method.budget.rounds, method.budget.local_epochs) == (printed_baseline["epochs"], 1)
        assert (method.tried, method.fixed["lr"]) == (1, printed_baseline["lr"])


def test_fenda_suboptimal_settings_are_printed_ones() -> None:
    methods = read("fenda/ixi").methods
    for key, numbers in facts("fenda")["table10"]["suboptimal"].items():
        assert methods[f"{key}_suboptimal"].fixed == numbers
        assert methods[f"{key}_suboptimal"].model == methods[key].model


@pytest.mark.parametrize("name", ["heart", "covertype", "covertype-prepared"])
def test_global_layers_trains_as_its_logs(name: str) -> None:
    study, training = read(f"global_layers/{name}"), facts("global_layers")["training"]
    numbers = {"lr": training["lr"], "weight_decay": training["weight_decay"]}
    own = training["heart_cohorts" if name == "heart" else "covertype"]
    # Tables 11 and 12 swap d_global, and print 15 mini-batches where the heart cohorts had 5.
    d_global = training["covertype" if name == "heart" else "heart_cohorts"]["d_global"]
    assert len(study.seeds) == own["runs"]
    for method in study.methods.values():
        assert (method.fixed, method.axes) == (numbers, {})
        assert method.budget.rounds == own["epochs"]
        assert method.model.options["d_global"] == d_global
    everything = {"blocks", "layer1", "layer2", "layer3", "layer4", "layer5", "norm", "head"}
    federated = everything if name == "heart" else everything | {"embedding"}
    assert set(study.methods["fedavg"].algorithm.options["layers"]) == federated


def test_global_layers_cuts_the_hearts_anew_for_every_seed() -> None:
    methods = read("global_layers/heart").methods
    assert {method.by_seed[0] for method in methods.values()} == {"split_seed"}
    assert methods["fedavg"].data_of(7).options == {"split_seed": 7, "features": "union_as_published"}
    assert methods["fedavg_aligned"].data_of(7).options == {"split_seed": 7, "features": "union"}


CALLED = {
    "Local": "local", "FedAvg": "fedavg", "FedProx": "fedprox", "pFedMe": "pfedme", "Ditto": "ditto",
    "LocalAdaptation": "local_adaptation", "FedBABU": "fedbabu", "PLayer-FL": "player_fl",
}  # fmt: skip
# Layers that its code federates, and the layers FedBABU does not take for the head (all but the last where None).
FEDERATED = {"fashion-mnist": 3, "emnist": 4, "cifar10": 5, "isic2019": 6, "heart": 1, "sent140": 6, "mimic3": 4}
BASE = {"fashion-mnist": 3, "emnist": 3, "cifar10": 5, "isic2019": 5, "heart": None, "sent140": None, "mimic3": None}


@pytest.mark.parametrize("name", PLAYER)
def test_player_searches_the_printed_rates(name: str) -> None:
    study, paper = read(f"player/{name}"), facts("player")
    rates = set(paper["table_a4"][PLAYER[name]])
    if name == "isic2019":
        rates |= {5e-4}  # which Table A.3 has chosen
    for key in {*CALLED.values(), "fedlp", "fedlama", "pfedla", "player_fl_random"} - {"pfedme"}:
        assert values(study.methods[key], "lr") == rates, key
    for called, key in CALLED.items():
        assert paper["table_a3"][PLAYER[name]][called] in values(study.methods[key], "lr"), key
    if name != "isic2019":
        assert len(study.seeds) == paper["datasets"][PLAYER[name]]["runs"]
    assert study.methods["fedavg"].budget.rounds == paper["datasets"][PLAYER[name]]["epochs"]


@pytest.mark.parametrize("name", PLAYER)
def test_player_methods_are_those_of_its_code(name: str) -> None:
    methods = read(f"player/{name}").methods
    options = {key: dict(method.algorithm.options) for key, method in methods.items()}
    fixed = {key: dict(method.fixed) for key, method in methods.items()}
    assert options["player_fl"] == options["player_fl_random"] == {"layers": FEDERATED[name]}
    base = {} if BASE[name] is None else {"layers": BASE[name]}
    assert options["fedbabu"] == {"epochs": 1, "head_only": True, **base}
    assert options["fedlama"] == {"interval": 2, "factor": 2, "stale": True}
    assert options["ditto"] == {"average_personal": True}
    assert options["pfedme"] == {"simplified": True}
    assert options["local_adaptation"] == {"epochs": 1}
    numbers = {
        "fedprox": ("mu", 0.1),
        "ditto": ("lam", 0.1),
        "pfedme": ("lam", 0.1),
        "fedlp": ("p", 0.7),
        "pfedla": ("hn_lr", 0),
    }
    for key, (number, value) in numbers.items():
        assert fixed[key][number] == value, key
    assert {numbers.get("weight_decay") for key, numbers in fixed.items() if key in CALLED.values()} == {1e-4, 1e-3}


@pytest.mark.parametrize("name", PLAYER)
def test_player_looks_into_layers_of_the_same_models(name: str) -> None:
    study, whole = read(f"player/layers-{name}"), read(f"player/{name}")
    rates = {"heart": 5e-2, "mimic3": 1e-4}
    layers = {"fashion-mnist": 5, "emnist": 5, "heart": 4}.get(name, 7)
    for key, method in study.methods.items():
        assert method.model == whole.methods["local"].model
        assert method.fixed == {"lr": rates.get(name, 1e-3), "weight_decay": 1e-4}
        assert method.budget.rounds == (1 if key == "first" else whole.methods["local"].budget.rounds)
        assert method.algorithm.options["layers"] == (layers if key == "fedavg" else 0)
    numbers = {figure.rpartition("/figure")[2].partition("-")[0] for figure in study.figures}
    without = {"A7", "A8"} if name in ("isic2019", "sent140", "mimic3") else set()
    assert numbers == {"4", *(f"A{number}" for number in range(1, 11))} - without


@pytest.mark.parametrize("name", APPLE)
def test_apple_has_the_values_of_table_3(name: str) -> None:
    methods, paper = read(f"apple/{name}").methods, facts("apple")
    data, partition = name.split("-")
    chosen, training = paper["table3"][f"{data}:{partition}"], paper["training"]
    apple = methods["apple"]
    assert apple.algorithm.options["scheduler"] == chosen["scheduler"]
    assert (apple.fixed["lr"], apple.fixed["p_lr"]) == (chosen["net_lr"], chosen["dr_lr"])
    assert apple.fixed["mu"] == 2 * chosen["mu"]  # its code leaves out the 1/2
    assert apple.fixed["fade"] == chosen["schedule_share"] * training["rounds"]
    for key, method in methods.items():
        assert method.data.options["partition"] == partition
        assert method.fixed["momentum"] == training["momentum"]
        assert values(method, "lr_decay") == set(training["best_of"]["lr_decay"]), key
        assert values(method, "lr") in ({chosen["net_lr"]}, set(training["best_of"]["lr"])), key
    assert [methods[f"apple_{m}"].algorithm.options["budget"] for m in (7, 5, 2, 1)] == [7, 5, 2, 1]


# They run ---------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[int, ...]] = {"covertype": (11,), "fed_ixi": (1, 4, 4, 4)}
BINARY = ("gemini_mortality", "gemini_delirium")
METRICS = {
    **dict.fromkeys([*PLAYER.values(), "cifar10, player"], ("macro_f1", "accuracy", "loss")),
    **dict.fromkeys(MNIST_LIKE, ("accuracy",)),
    "fed_ixi": ("dice",),
    "fed_isic2019": ("balanced_accuracy",),
    **dict.fromkeys(BINARY, ("accuracy", "auroc", "accuracy_at_logit_half")),
}  # fmt: skip
CLIENTS = {"fed_ixi": 3, "fed_isic2019": 6, "gemini_mortality": 7, "gemini_delirium": 6}  # of others four will do
CLASSES = {"sent140": 2, "mimic3_mortality": 2}
HERE = ("fed_heart_disease", "fed_heart_disease_5class", "heart_cohorts", "covertype", "digits")  # small enough


def stand_in(name: str, options: Mapping[str, Any]) -> Federation:
    """A few random samples in the form of a data set that is too large to be read here."""
    generator = torch.Generator().manual_seed(len(name))

    def split(n: int, classes: int) -> Split:
        x = torch.randn(n, *SHAPES.get(name, (3,)), generator=generator)
        y = torch.arange(n) % classes
        if name == "fed_ixi":
            mask = (x > 0).to(torch.uint8)
            return Split(x, torch.cat([1 - mask, mask], dim=1))
        return Split(x, y.to(torch.float32)[:, None]) if name in BINARY else Split(x, y)

    classes = 2 if name in BINARY else CLASSES.get(name, 4)
    return Federation(
        name,
        tuple(
            Client(f"client_{i}", split(8, classes), split(4, classes), split(4, classes))
            for i in range(CLIENTS.get(name, 4))
        ),
        "segmentation" if name == "fed_ixi" else "binary" if name in BINARY else "multiclass",
        metrics=METRICS[f"{name}, player" if options.get("protocol") == "player" else name],
        classes=classes,
        synthetic=name in BINARY or name == "mimic3_mortality",
        options=dict(options),
        loss={"name": "dice", "epsilon": 1e-9} if name == "fed_ixi" else {},
    )


def load(name: str, root: Path | None, **options: Any) -> Federation:
    if (
        name == "covertype"
    ):  # the raw file is not available everywhere, and a few test rows of the authors' files suffice
        options = options | {"source": "prepared", "subsample": 0.002}
    return load_dataset(name, root, **options) if name in HERE else stand_in(name, options)


# The same number of layers as the real networks, so that the studies can federate the first n of them.
SMALL = {
    "apple_cnn": ("mlp", {"hidden": [3, 3, 3]}),
    "player_fmnist": ("mlp", {"hidden": [3] * 4}),
    "player_cifar": ("mlp", {"hidden": [3] * 6}),
    "player_isic": ("mlp", {"hidden": [3] * 6}),
    "player_text": ("mlp", {"hidden": [3] * 6}),
    "efficientnet_b0": ("mlp", {"hidden": 3}),
    "parallel_efficientnet_b0": ("parallel_mlp", {"hidden": 3}),
    "unet3d": ("unet3d", {"channels": 1, "levels": 2}),
    "parallel_unet3d": ("parallel_unet3d", {"channels": 1, "levels": 2}),
}


def miniature(method: Method) -> Method:
    """One setting, one round of one local step, or of two where they are those of an epoch."""
    narrow = {key: [3] * len(each) if isinstance(each, list) else each for key, each in method.model.options.items()}
    name, options = SMALL.get(method.model.name, (method.model.name, narrow))
    by_epochs = method.budget.batches is not None
    length = {"local_epochs": 1, "batches": 2} if by_epochs else {"local_epochs": None, "local_steps": 1}
    shorter = {"rounds": 1, **length}
    return dataclasses.replace(
        method,
        model=dataclasses.replace(method.model, name=name, options=options),
        budget=dataclasses.replace(method.budget, **shorter),
        axes={name: axis[:1] for name, axis in method.axes.items() if isinstance(axis, tuple)},
    )


def stacked(run_batch: RunBatch, path: str) -> str:
    """A stack wherever there can be one, without the tracing that finds out what is quicker."""
    models = run_batch.models
    return "loop" if models[0].batch_norm or any(model is not models[0] for model in models) else "stack"


@pytest.fixture(scope="module")
def trained() -> dict[str, engine.TrainedRuns]:
    """Return the trained runs by the form of the method and of the data."""
    return {}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, bench_data: Path, trained: dict[str, engine.TrainedRuns]) -> None:
    """Small data, and every kind of method trained once for all studies that have it on data of the same form."""
    train = engine.run

    def run(federations: Sequence[Federation], **asked: Any) -> engine.TrainedRuns:
        data = [(client.train.x.shape[1:], client.classes) for client in federations[0].clients]
        form = [data, federations[0].metrics, [sorted(setting) for setting in asked["settings"]], len(asked["seeds"])]
        form += [asked[part] for part in ("algorithm", "algorithm_options", "model", "model_options", "budget")]
        if str(form) not in trained:
            trained[str(form)] = train(federations, **asked)
        return trained[str(form)]

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "select_path", stacked)
    monkeypatch.setattr(training, "load_dataset", load)
    monkeypatch.setattr(training, "_loaded", training.RecentCache())
    monkeypatch.setattr(running, "dataset_metadata", lambda name, root, given: Metadata.of(load(name, root, **given)))


# Figures take longest: one study with every kind of them.
DRAWN = ["apple/cifar10-practical", "fenda/heart", "fenda/isic2019", "player/layers-heart"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.usefixtures("quick")
def test_every_table_and_figure_is_made(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = read(name)
    methods = {key: miniature(method) for key, method in whole.methods.items()}
    study = dataclasses.replace(whole, seeds=whole.seeds[:1], methods=methods)
    runner = Runner(lambda progress: InProcessExecutor(training.WorkerSettings(None, None), progress))
    found = running.run_study(study, Store(tmp_path / "runs"), runner=runner)

    def counts(data: spec.Choice) -> Any:
        federation = load(data.name, None, **data.options)
        return (
            [[len(client.train)] for client in federation.clients],
            [client.name for client in federation.clients],
            False,
        )

    figures = study.figures if name in DRAWN else []
    assert publish.write(study, found, study.tables, figures, tmp_path / "made", counts)
    for ids, suffixes in ((study.tables, (".md", ".csv", ".tex", ".html")), (figures, (".pdf", ".png"))):
        made = itertools.product(ids, suffixes)
        assert all((tmp_path / "made" / f"{each}{suffix}").is_file() for each, suffix in made)
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("SYNTHETIC DATA")]
    assert len(titles) == (len(study.tables) if "gemini" in name or "mimic" in name else 0)
