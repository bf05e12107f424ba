"""Defaults read from the source files are what the modules say when they are imported."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from bench import registry
from bench.types import SpecError


@pytest.mark.parametrize("name", registry.catalogue("algorithms"))
def test_defaults_of_an_algorithm(name: str) -> None:
    fields = dataclasses.fields(registry.load("algorithms", name))
    for read, searchable in ((registry.defaults("algorithms", name), False),
                             (registry.hyperparameter_defaults(name), True)):  # fmt: skip
        said = {each.name: each.default for each in fields if bool(each.metadata.get("searchable")) is searchable}
        assert read == said


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("models", "datasets") for name in registry.catalogue(kind)]
)
def test_defaults_of_a_model_and_of_a_data_set(kind: registry.Kind, name: str) -> None:
    parameters = list(inspect.signature(registry.load(kind, name)).parameters.values())
    said = {each.name: each.default for each in parameters[1 if kind == "datasets" else 2 :]}
    assert registry.defaults(kind, name) == said
    assert list(said) == registry.options(kind, name)


def test_reading_defaults_needs_no_torch() -> None:
    code = "import sys; from bench import registry; registry.defaults('models', 'mlp'); "
    code += "registry.defaults('algorithms', 'apple'); print({'torch', 'numpy'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a folder of models and algorithms, as if they were ours."""

    def write(text: str) -> None:
        (tmp_path / "own.py").write_text(text)
        monkeypatch.setattr(registry, "folder", lambda kind: tmp_path)
        registry.catalogue.cache_clear()
        registry._statements.cache_clear()

    yield write
    monkeypatch.undo()
    registry.catalogue.cache_clear()


def test_constants_of_the_file_are_looked_up_and_a_required_option_has_no_default(own) -> None:
    own("WIDTH = (4, -2)\n@register('net')\ndef net(inputs, outputs, depth, *, width=WIDTH, bias=True): ...\n")
    assert registry.options("models", "net") == ["depth", "width", "bias"]
    assert registry.defaults("models", "net") == {"width": (4, -2), "bias": True}


def test_a_class_is_read_through_its_constructor(own) -> None:
    own("@register('net')\nclass Net:\n    def __init__(self, inputs, outputs, width=3): ...\n")
    assert registry.defaults("models", "net") == {"width": 3}


def test_a_child_inherits_defaults_and_may_change_them(own) -> None:
    own(
        "TWO = 2\n"
        "@register('a')\nclass A(Algorithm):\n    mu: Any = searchable(0.1)\n    k: int = TWO\n"
        "    n: ClassVar[int] = 1\n"
        "@register('b')\nclass B(A):\n    lam: Any = searchable(1, log=(1, 2))\n    mu: Any = searchable(0.5)\n"
    )
    assert registry.defaults("algorithms", "b") == {"k": 2}
    assert registry.hyperparameter_defaults("b") == {"mu": 0.5, "lam": 1}


def test_a_default_that_must_be_computed_is_refused(own, tmp_path: Path) -> None:
    own("@register('net')\ndef net(inputs, outputs, scale=math.pi): ...\n")
    with pytest.raises(SpecError, match=r"own.py: scale = math.pi: the default must be a literal or a constant"):
        registry.defaults("models", "net")
