"""Names from source files; hyper-parameters, options and flags from imported classes; allowed values; the cache."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from bench import registry
from bench.registry import Allowed, declarations, stored
from bench.registry.allowed import of_annotation
from bench.settings import DEFAULTS, OPTIONAL, resolve
from bench.train import engine
from bench.types import Budget, SpecError
from tests.train.toy import federation

ALGORITHMS = registry.catalogue("algorithms")


def test_algorithms_declare_the_fields_of_their_classes() -> None:
    for name in ALGORITHMS:
        fields = dataclasses.fields(registry.load("algorithms", name))
        own = {each.name: each.default for each in fields if each.metadata.get("searchable")}
        assert {key: each.default for key, each in registry.hyperparameters(name).items()} == own
        assert registry.defaults("algorithms", name) == {e.name: e.default for e in fields if e.name not in own}


@pytest.mark.parametrize(("kind", "leading"), [("models", 2), ("datasets", 1)])
def test_models_and_data_sets_declare_their_parameters(kind: registry.Kind, leading: int) -> None:
    for name in registry.catalogue(kind):
        parameters = list(inspect.signature(registry.load(kind, name)).parameters.values())[leading:]
        assert registry.options(kind, name) == [each.name for each in parameters]
        assert registry.defaults(kind, name) == {each.name: each.default for each in parameters}


def test_flags_are_inherited() -> None:
    assert registry.flags("perfcl")["parallel"] is True
    assert registry.flags("fedprox")["optimizers"] == ("adamw", "sgd")
    assert registry.flags("apple")["excluded"] == ("weight_decay",)


def test_intervals_to_search_are_allowed() -> None:
    for name in ALGORITHMS:
        for option, each in registry.hyperparameters(name).items():
            for end in each.log or ():
                each.allowed.check(f"{name}.{option}", end)


# Allowed values ---------------------------------------------------------------------------------------------------

WIDTHS = of_annotation(Annotated[int | Sequence[int], Allowed(ge=1)])
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
    with pytest.raises(SpecError, match="x = True: known: "):
        allowed.check("x", True)


def test_what_a_study_file_cannot_hold_is_not_checked() -> None:
    for annotation in (Any, None, dict[str, int], int | dict[str, int]):
        of_annotation(annotation).check("x", {"a": 1})


@pytest.mark.parametrize(
    ("algorithm", "hyperparameters", "message"),
    [
        ("fedavg", {"lr": -0.1}, "hyper-parameter lr = -0.1: expected a finite number above 0"),
        ("fedavg", {"lr": 0}, "hyper-parameter lr = 0: expected a finite number above 0"),
        ("fedavg", {"momentum": 1.0}, "momentum = 1.0: expected a finite number of at least 0 and below 1"),
        ("fedavg", {"weight_decay": -1}, "weight_decay = -1: expected a finite number of at least 0"),
        ("fedavg", {"lr_decay": 1.1}, "lr_decay = 1.1: expected a finite number above 0 and at most 1"),
        ("fedprox", {"mu": -5}, "hyper-parameter mu = -5: expected a finite number of at least 0"),
        ("fedlp", {"p": 2}, "hyper-parameter p = 2: expected a finite number of at least 0 and at most 1"),
        ("apfl", {"alpha": 1.5}, "hyper-parameter alpha = 1.5: expected a finite number of at least 0 and at most 1"),
    ],
)
def test_a_hyperparameter_out_of_its_range_is_refused(algorithm: str, hyperparameters: Any, message: str) -> None:
    with pytest.raises(SpecError) as error:
        resolve(algorithm, "sgd", hyperparameters)
    assert message in str(error.value)


def test_defaults_of_optimisers_are_allowed() -> None:
    for optimizer, known in DEFAULTS.items():
        for name, each in known.items():
            each.allowed.check(f"{optimizer}.{name}", each.default)
    OPTIONAL["sgd"]["lr_decay"].check("no decay", 1.0)


@pytest.mark.parametrize(
    ("algorithm", "algorithm_options", "model_options", "message"),
    [
        ("fedrep", {"head_epochs": -1}, {}, "head_epochs = -1: expected a whole number of at least 0"),
        ("fedavg_ft", {"epochs": None}, {}, "epochs = None: expected a whole number of at least 0"),
        ("fedamp", {"interval": 0}, {}, "interval = 0: expected a whole number of at least 1"),
        ("fedlama", {"factor": 0}, {}, "factor = 0: expected a whole number of at least 1"),
        ("apple", {"budget": 0}, {}, "budget = 0: expected a whole number of at least 1, or none"),
        ("fedprox", {"mu": 0.5}, {}, "mu is a hyper-parameter of fedprox, not an option; give it where lr is given"),
        ("fedavg_ft", {"epoch": 1}, {}, "algorithm fedavg_ft has no option 'epoch': did you mean 'epochs'?"),
        ("fedavg", {"epochs": 1}, {}, "algorithm fedavg has no option 'epochs': it has none"),
        ("fedavg", {}, {"dropout": 2.0}, "dropout = 2.0: expected a finite number of at least 0 and below 1"),
        ("fedavg", {}, {"hidden": [4, 0]}, "hidden = [4, 0]: expected a whole number or a list of whole numbers"),
    ],
)
def test_an_option_that_is_not_allowed_is_refused_before_training(
    algorithm: str, algorithm_options: Any, model_options: Any, message: str
) -> None:
    with pytest.raises(SpecError) as error:
        engine.run(
            federation(), algorithm=algorithm, algorithm_options=algorithm_options, model="mlp",
            model_options=model_options, settings=[{}], seeds=[1], budget=Budget(rounds=1, local_epochs=1),
        )  # fmt: skip
    assert message in str(error.value)


# The cache --------------------------------------------------------------------------------------------------------

LIST = (
    "import json, sys; from bench import registry; "
    "found = {name: each.default for name, each in registry.hyperparameters('child').items()}; "
    "print(json.dumps([found, 'torch' in sys.modules]))"
)
CHILD = '''
from dataclasses import dataclass

from bench.registry import register
from someone.base import Base


@register("child")
@dataclass(frozen=True)
class Child(Base):
    """Somebody's algorithm."""
'''
BASE = """
from dataclasses import dataclass
from typing import Any

from bench.algorithms.base import Algorithm, searchable
from someone.constants import STRENGTH


@dataclass(frozen=True)
class Base(Algorithm):
    strength: Any = searchable(STRENGTH, ge=0)
"""


def test_the_cache_spares_torch_and_follows_edits_of_base_and_constants(
    install: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"someone/child.py": CHILD, "someone/base.py": BASE, "someone/constants.py": "STRENGTH = 0.5\n"}
    install("algorithms", {"child": "someone.child"}, files)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{Path(registry.__file__).parents[2]}")

    def found() -> list[Any]:
        run = subprocess.run([sys.executable, "-c", LIST], capture_output=True, text=True, check=True)
        return list(json.loads(run.stdout))

    assert [found(), found()] == [[{"strength": 0.5}, True], [{"strength": 0.5}, False]]
    (tmp_path / "site/someone/constants.py").write_text("STRENGTH = 2.0\n")
    assert [found(), found()] == [[{"strength": 2.0}, True], [{"strength": 2.0}, False]]
    (tmp_path / "site/someone/base.py").write_text(BASE.replace("strength:", "force:"))
    assert found() == [{"force": 2.0}, True]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache file of the algorithms, just written."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(stored, "_STARTED", float("inf"))
    declarations._of_kind.cache_clear()
    registry.flags("fedavg")
    (file,) = (tmp_path / "registry").iterdir()
    return file


def test_what_is_read_from_the_cache_is_what_the_classes_declare(kept: Path) -> None:
    entries = tuple(ALGORITHMS.values())
    before = {name: registry.declaration("algorithms", name) for name in ALGORITHMS}
    assert stored.read("algorithms", entries) is not None
    declarations._of_kind.cache_clear()
    assert {name: registry.declaration("algorithms", name) for name in ALGORITHMS} == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:100],
        lambda text: "",
        lambda text: "[]",
        lambda text: '{"digest": "", "kept": {}}',
        lambda text: text.replace('"default": 0.1', '"default": 0.2', 1),
    ],
)
def test_a_damaged_cache_is_written_again(kept: Path, damage: Callable[[str], str]) -> None:
    whole = kept.read_text()
    kept.write_text(damage(whole))
    assert stored.read("algorithms", tuple(ALGORITHMS.values())) is None
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
    assert kept.read_text() == whole


def test_a_file_changed_after_the_start_is_not_cached(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.unlink()
    monkeypatch.setattr(stored, "_STARTED", 0.0)
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
    assert not kept.exists()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file"))
    declarations._of_kind.cache_clear()
    assert registry.hyperparameters("fedprox")["mu"].default == 0.1
