"""Packages of others: found by their entry points, named in studies like our own; and the pages that say how.

The packages of docs/adding-*.md are built from the pages' own blocks and installed by pip; smaller ones are laid out as
pip leaves them.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from bench import registry, settings
from bench.cli import main
from bench.data import load_dataset
from bench.data.files import cards
from bench.train import build, engine
from bench.types import Budget, SpecError
from tests.train.toy import federation

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^(?:[^\n]* )?`([\w./]+)`:\n\n(`{3,})\w+\n(.+?)^\2$", re.MULTILINE | re.DOTALL)
ALGORITHM, DATA = (
    {name: text for name, _, text in BLOCK.findall((DOCS / f"adding-{page}.md").read_text())}
    for page in ("an-algorithm", "a-dataset")
)
MODULE = "hospitals/silobench_hospitals/readmission.py"


# The pages, step by step ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip, without network, has installed the packages of both pages."""
    pytest.importorskip("setuptools", reason="builds packages with setuptools, which the extra dev installs")
    sources, site = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("site")
    folders = []
    for page in (ALGORITHM, DATA):
        for name, text in page.items():
            # The first package of a page is a single module next to its pyproject.toml.
            project = name.partition("/")[0] if "/" in name else Path(next(iter(page))).stem
            file = sources / project / name.removeprefix(f"{project}/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            if file.parent.name.startswith("silobench_"):
                (file.parent / "__init__.py").touch()
            if name.endswith("pyproject.toml"):
                folders.append(file.parent)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-build-isolation", "--target", site, *folders], check=True)
    return site


@pytest.fixture
def silobench(
    site: Path, installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command in an empty folder, with the packages installed; exit status, standard output and error."""
    installed(site)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))

    def silobench(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["silobench", *arguments])
        with pytest.raises(SystemExit) as end:
            main.main()
        return int(end.value.code or 0), *capsys.readouterr()

    return silobench


def test_the_page_s_algorithm_stands_in_the_list_and_in_a_table(silobench, tmp_path: Path) -> None:
    listed = {each["name"]: each for each in json.loads(silobench("list", "algorithms", "--json")[1])}["fedavgm"]
    beta = {"name": "beta", "default": 0.9, "allowed": "at least 0 and below 1", "searched": [0.1, 0.99]}
    assert listed["hyperparameters"] == [beta]
    assert listed["paper"] == "Hsu, Qi & Brown, 2019 (arXiv:1909.06335)."
    assert listed["communication_cost"] == "d up, d down."
    (tmp_path / "study.toml").write_text(ALGORITHM["study.toml"])
    assert silobench("sweep", "study.toml")[0] == 0
    rows = pd.read_csv(tmp_path / "results/tables/study.csv").query("client == 'all'")
    assert set(rows["method"]) == {"fedavg", "fedavgm"}
    assert rows["mean"].between(0.5, 1).all()


def test_the_page_s_package_of_two_modules_inherits_its_hyperparameter(silobench, tmp_path: Path) -> None:
    listed = {each["name"]: each for each in json.loads(silobench("list", "algorithms", "--json")[1])}
    names = {name: [each["name"] for each in listed[name]["hyperparameters"]] for name in ("heavy_ball", "nesterov")}
    assert names == {"heavy_ball": ["beta"], "nesterov": ["beta", "server_lr"]}
    study = ALGORITHM["study.toml"].replace("methods.fedavgm", "methods.heavy_ball")
    (tmp_path / "study.toml").write_text(study.replace("0.6", "1.6"))
    status, _, error = silobench("plan", "study.toml")
    assert (status, error.count("\n")) == (2, 1)
    assert "methods.heavy_ball.grid.beta: expected a finite number of at least 0 and below 1, got 1.6" in error
    torch.testing.assert_close(_train("heavy_ball", beta=0.4), _train("fedavgm", beta=0.4), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(_train("nesterov", beta=0.0), _train("fedavg"), rtol=1e-6, atol=1e-6)
    assert not torch.allclose(_train("nesterov", beta=0.4)[1], _train("heavy_ball", beta=0.4)[1], rtol=1e-3)


def test_the_page_s_data_set_stands_in_the_list_and_in_a_table(silobench, tmp_path: Path) -> None:
    listed = {each["name"]: each for each in json.loads(silobench("data", "list", "--json")[1])}
    assert (listed["readmission"]["files"], listed["readmission"]["size"]) == ("0 of 3 files", "3 clients; 180 stays")
    (tmp_path / "study.toml").write_text(DATA["study.toml"])
    folder = tmp_path / "my_files" / "readmission"
    folder.mkdir(parents=True)
    status, _, error = silobench("sweep", "study.toml", "--data", "my_files")
    assert status == 2
    assert error.startswith("error: readmission/north.csv: not found in my_files,")
    assert error.endswith("; export it from the ward's system\n")
    draw = np.random.default_rng(0)
    for hospital in ("north", "south", "west"):
        x = draw.normal(size=(60, 3)).round(3)
        table = pd.DataFrame(x, columns=["age", "days", "drugs"]).assign(readmitted=(x[:, 0] > 0).astype(int))
        table.to_csv(folder / f"{hospital}.csv", index=False)
    assert silobench("sweep", "study.toml", "--data", "my_files")[0] == 0
    rows = pd.read_csv(tmp_path / "results/tables/study.csv").query("client == 'all'")
    assert set(rows["method"]) == {"fedavg", "local"}
    assert set(rows["dataset"]) == {"readmission"}
    assert rows["mean"].min() > 0.5


def test_the_pages_keep_below_forty_lines() -> None:
    assert len(ALGORITHM["fedavgm.py"].splitlines()) < 40
    assert sum(len(DATA[file].splitlines()) for file in (MODULE, "study.toml")) < 40


# Installed packages, laid out by hand ---------------------------------------------------------------------------------


def _train(algorithm: str, **setting: float) -> torch.Tensor:
    (outcome,) = engine.train(
        federation(), algorithm=algorithm, model="mlp", settings=[{"lr": 0.1, **setting}], seeds=[1],
        budget=Budget(rounds=3, local_steps=4, batch_size=4),
    )  # fmt: skip
    return torch.tensor(outcome.validation)


def test_without_momentum_the_page_s_algorithm_is_fedavg(install) -> None:
    install("algorithms", {"fedavgm": "fedavgm"}, {"fedavgm.py": ALGORITHM["fedavgm.py"]})
    torch.testing.assert_close(_train("fedavgm", beta=0.0), _train("fedavg"), rtol=1e-6, atol=1e-6)
    # The first round has no velocity yet, the second has.
    moved = _train("fedavgm", beta=0.5)
    torch.testing.assert_close(moved[0], _train("fedavg")[0], rtol=1e-6, atol=1e-6)
    assert not torch.allclose(moved[1], _train("fedavg")[1], rtol=1e-3)


NET = '''
from torch import nn

from bench.registry import register

WIDTH = 3


@register("someones_net")
def someones_net(inputs, outputs, *, width=WIDTH):
    """A net of somebody else's."""
    return nn.Sequential(nn.Linear(inputs[0], width), nn.ReLU(), nn.Linear(width, outputs), nn.Sigmoid())
'''


def test_a_model_deep_in_a_package_is_found_without_importing_its_parents(install) -> None:
    install("models", {"nets": "someones.deep.nets"}, {
        "someones/__init__.py": "raise ImportError('not to be imported')",
        "someones/deep/__init__.py": "", "someones/deep/nets.py": NET,
    })  # fmt: skip
    entry = registry.catalogue("models")["someones_net"]
    assert (entry.summary, entry.module) == ("A net of somebody else's.", "someones.deep.nets")


def test_a_model_of_a_package_is_built_and_trained(install) -> None:
    install("models", {"nets": "nets"}, {"nets.py": NET})
    module = build.build_model("someones_net", federation(), {"width": 5})
    assert [tuple(weight.shape) for weight in module.parameters()] == [(5, 13), (5,), (1, 5), (1,)]
    (outcome,) = engine.train(
        federation(), algorithm="fedavg", model="someones_net", settings=[{"lr": 0.1}], seeds=[1],
        budget=Budget(rounds=1, local_steps=1, batch_size=4),
    )  # fmt: skip
    assert outcome.status == "finished"


def test_a_data_set_of_a_package_has_its_card_and_its_options(install) -> None:
    source = DATA[MODULE].replace("= 0.25", "= SHARE").replace("FEATURES =", "SHARE = 0.25\nFEATURES =")
    files = {"readmission.py": source, "readmission.md": "# readmission\n\n| | |\n|---|---|\n| Licence | ours |\n"}
    install("datasets", {"readmission": "readmission"}, files)
    card = cards.read("readmission")
    assert (card.facts, card.options) == ({"Licence": "ours"}, {"test_share": 0.25})
    with pytest.raises(SpecError, match="no option 'test_shares': did you mean 'test_share'"):
        load_dataset("readmission", test_shares=0.5)


ALGORITHM_BASE = """
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from bench.algorithms.base import Algorithm, searchable
from bench.registry import Allowed


@dataclass(frozen=True)
class Pulled(Algorithm):
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)
    pull: Any = searchable(0.5, ge=0, log=(0.1, 1.0))
    every: Annotated[int, Allowed(ge=1)] = 2
"""
FIRST = '''
from dataclasses import dataclass
from typing import Any

from bench import registry
from bench.algorithms.base import searchable
from helpers import Pulled


@registry.register("first")
@dataclass(frozen=True)
class First(Pulled):
    """An algorithm of somebody else's."""

    rate: Any = searchable(1.0, gt=0)
'''
SECOND = FIRST.replace('"first"', '"second"').replace("helpers import Pulled", "first import First as Pulled")
SECOND = SECOND.replace("class First", "class Second").replace("rate: Any", "stride: Any")


def test_hyperparameters_are_inherited_from_a_helper_and_from_another_algorithm(install) -> None:
    files = {"helpers.py": ALGORITHM_BASE, "first.py": FIRST, "second.py": SECOND}
    install("algorithms", {"first": "first", "second": "second"}, files)
    assert registry.catalogue("algorithms")["second"].summary == "An algorithm of somebody else's."
    assert "helpers" not in sys.modules
    assert {name: each.default for name, each in registry.hyperparameters("first").items()} == {"pull": 0.5, "rate": 1}
    assert list(registry.hyperparameters("second")) == ["pull", "rate", "stride"]
    assert registry.hyperparameters("second")["pull"].log == (0.1, 1.0)
    assert registry.defaults("algorithms", "second") == {"every": 2}
    assert registry.flags("second")["optimizers"] == ("sgd",)
    with pytest.raises(SpecError, match="hyper-parameter pull = -1: expected a finite number of at least 0"):
        settings.resolve("second", "sgd", {"pull": -1})
    with pytest.raises(SpecError, match="every = 0: expected a whole number of at least 1"):
        registry.check_options("algorithms", "second", {"every": 0})
    assert _train("second").isfinite().all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@dataclass(frozen=True)\n", "", r"first.py: class First is not a dataclass; write @dataclass\(frozen=True\)"),
        ("searchable(1.0, gt=0)", "object()", r"first.py: First.rate = <object .*: expected a number, a text, true"),
        (
            "searchable(1.0, gt=0)",
            "searchable(-1, gt=0)",
            "first.py: First.rate = -1: expected a finite number",
        ),
        ("rate: Any", "step: Any", "first.py: First.step hides the hook step; rename it"),
        ("from helpers", "from not_there", r"first.py: algorithm 'first' cannot be imported \(ModuleNotFoundError: No"),
    ],
)
def test_an_algorithm_that_cannot_be_used_is_one_line_and_leaves_others_alone(
    install, old: str, new: str, message: str
) -> None:
    install("algorithms", {"first": "first"}, {"helpers.py": ALGORITHM_BASE, "first.py": FIRST.replace(old, new)})
    with pytest.raises(SpecError, match=message):
        registry.hyperparameters("first")
    assert list(registry.hyperparameters("fedprox")) == ["mu"]


@pytest.mark.parametrize(
    ("source", "required", "defaults"),
    [
        ("class Net:\n    def __init__(self, inputs, outputs, width=3): ...", [], {"width": 3}),
        ("def net(inputs, outputs, depth, *, width=(4, -2), scale=math.pi, **more): ...", ["depth"],
         {"width": (4, -2), "scale": math.pi}),
    ],
)  # fmt: skip
def test_options_of_a_class_and_required_options(install, source: str, required: list[str], defaults: Any) -> None:
    text = f"import math\nfrom bench.registry import register\n\n@register('someones_net')\n{source}\n"
    install("models", {"nets": "nets"}, {"nets.py": text})
    assert registry.defaults("models", "someones_net") == defaults
    assert registry.options("models", "someones_net") == [*required, *defaults]


@pytest.mark.parametrize(
    ("points", "files", "message"),
    [
        ({"gone": "someones.gone"}, {"someones/__init__.py": ""},
         "someones: its entry point gone = 'someones.gone' of silobench.models names no Python file; install"),
        ({"deep": "gone.deep"}, {}, "someones: its entry point deep = 'gone.deep' of silobench.models names no"),
        ({"built_in": "sys"}, {}, "entry point built_in = 'sys' of silobench.models names no Python file"),
        ({"nets": "nets"}, {"nets.py": NET.replace("someones_net", "mlp")},
         r"nets.py: 'mlp' is already registered in .*tabular.py; rename one of them"),
        ({"nets": "nets"}, {"nets.py": "def ("}, r"nets.py, line 1: not Python \("),
    ],
)  # fmt: skip
def test_a_package_that_cannot_be_read_is_one_line(
    install, points: dict[str, str], files: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    install("models", points, files)
    with pytest.raises(SpecError, match=message):
        registry.catalogue("models")
    monkeypatch.setattr(sys, "argv", ["silobench", "list", "models"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
