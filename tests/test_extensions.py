"""Packages of others: found by their entry points, named in studies like our own; and the pages that say how.

The packages of docs/adding-*.md are built from the pages' own blocks and installed by pip; smaller ones are laid out as
pip leaves them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import torch

from bench import registry
from bench.cli import main
from bench.data import load_dataset
from bench.data.files import cards
from bench.train import engine
from bench.types import Budget, SpecError
from tests.train.toy import federation

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^(?:[^\n]* )?`([\w.]+)`:\n\n```\w+\n(.+?)^```$", re.MULTILINE | re.DOTALL)
ALGORITHM, DATA = (
    dict(BLOCK.findall((DOCS / f"adding-{page}.md").read_text())) for page in ("an-algorithm", "a-dataset")
)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Makes the packages in a folder installed ones, until the test ends."""
    folders: list[Path] = []

    def installed(site: Path) -> None:
        folders.append(site)
        monkeypatch.syspath_prepend(site)
        registry.catalogue.cache_clear()

    yield installed
    for name, module in list(sys.modules.items()):
        if any(folder in Path(getattr(module, "__file__", None) or "/").parents for folder in folders):
            del sys.modules[name]
    monkeypatch.undo()
    registry.catalogue.cache_clear()


# The pages, step by step ----------------------------------------------------------------------------------------------


def _wheel(folder: Path, page: dict[str, str]) -> Path:
    """The page's modules as a wheel, with the metadata that a build backend makes of its pyproject.toml."""
    project = tomllib.loads(page["pyproject.toml"])["project"]
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    points = project["entry-points"].items()
    facts = f"Name: {project['name']}\nVersion: {project['version']}\n"
    files = {file: text for file, text in page.items() if file.endswith(".py")} | {
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\n{facts}",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/entry_points.txt": "".join(
            f"[{group}]\n" + "".join(f"{key} = {module}\n" for key, module in named.items()) for group, named in points
        ),
    }
    files[f"{name}.dist-info/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{name}.dist-info/RECORD"])
    wheel = folder / f"{name}-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return wheel


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip, without network, has installed the packages of both pages."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    built = [_wheel(wheels, page) for page in (ALGORITHM, DATA)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", site, *built], check=True)
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
    assert listed["hyperparameters"] == [{"name": "beta", "default": 0.9, "range": [0.1, 0.99]}]
    assert (listed["paper"], listed["travels"]) == ("Hsu, Qi & Brown, 2019 (arXiv:1909.06335).", "d up, d down.")
    (tmp_path / "study.toml").write_text(ALGORITHM["study.toml"])
    assert silobench("sweep", "study.toml")[0] == 0
    rows = pd.read_csv(tmp_path / "results/tables/study.csv").query("client == 'all'")
    assert set(rows["method"]) == {"fedavg", "fedavgm"}
    assert rows["mean"].between(0.5, 1).all()


def test_the_page_s_data_set_stands_in_the_list_and_in_a_table(silobench, tmp_path: Path) -> None:
    assert "readmission" in [each["name"] for each in json.loads(silobench("data", "list", "--json")[1])]
    (tmp_path / "study.toml").write_text(DATA["study.toml"])
    folder = tmp_path / "my_files" / "readmission"
    folder.mkdir(parents=True)
    status, _, error = silobench("sweep", "study.toml", "--data", "my_files")
    assert status == 2
    assert error.startswith("error: neither readmission/north.csv in my_files,")
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
    assert sum(len(DATA[file].splitlines()) for file in ("readmission.py", "study.toml")) < 40


# Installed packages, laid out by hand ---------------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path: Path, installed) -> Callable[[str, dict[str, str], dict[str, str]], None]:
    """Installs files under the names of entry points of ``silobench.<kind>``."""

    def install(kind: str, points: dict[str, str], files: dict[str, str]) -> None:
        site = tmp_path / "site"
        metadata = site / "someones-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: someones\nVersion: 1.0\n")
        lines = "".join(f"{name} = {module}\n" for name, module in points.items())
        (metadata / "entry_points.txt").write_text(f"[silobench.{kind}]\n{lines}")
        for name, text in files.items():
            file = site / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        installed(site)

    return install


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
    assert registry.defaults("models", "someones_net") == {"width": 3}


def test_a_model_of_a_package_is_built_and_trained(install) -> None:
    install("models", {"nets": "nets"}, {"nets.py": NET})
    module = engine.build_model("someones_net", federation(), {"width": 5})
    assert [tuple(weight.shape) for weight in module.parameters()] == [(5, 13), (5,), (1, 5), (1,)]
    (outcome,) = engine.train(
        federation(), algorithm="fedavg", model="someones_net", settings=[{"lr": 0.1}], seeds=[1],
        budget=Budget(rounds=1, local_steps=1, batch_size=4),
    )  # fmt: skip
    assert outcome.status == "finished"


def test_a_data_set_of_a_package_has_its_card_and_its_options(install) -> None:
    source = DATA["readmission.py"].replace("= 0.25", "= SHARE").replace("FEATURES =", "SHARE = 0.25\nFEATURES =")
    files = {"readmission.py": source, "readmission.md": "# readmission\n\n| Licence | ours |\n"}
    install("datasets", {"readmission": "readmission"}, files)
    card = cards.read("readmission")
    assert (card.facts, card.options) == ({"Licence": "ours"}, {"test_share": 0.25})
    with pytest.raises(SpecError, match="no option 'test_shares': did you mean 'test_share'"):
        load_dataset("readmission", test_shares=0.5)


@pytest.mark.parametrize(
    ("points", "files", "message"),
    [
        ({"gone": "someones.gone"}, {"someones/__init__.py": ""},
         "someones: its entry point gone = 'someones.gone' of silobench.models names no Python file; install"),
        ({"deep": "gone.deep"}, {}, "someones: its entry point deep = 'gone.deep' of silobench.models names no"),
        ({"built_in": "sys"}, {}, "entry point built_in = 'sys' of silobench.models names no Python file"),
        ({"nets": "nets"}, {"nets.py": NET.replace("someones_net", "mlp")},
         r"nets.py: 'mlp' stands in .*tabular.py already; rename one of them"),
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
