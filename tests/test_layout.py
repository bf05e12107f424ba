"""Project rules that import-linter cannot check: files at the top level, imports of data sets, unsafe calls."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOP_LEVEL = {
    *("bench", "datasets", "experiments", "results", "scripts", "tests", "docs"),
    *("Makefile", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md"),
}
SOURCES = sorted(file for folder in ("bench", "datasets", "scripts", "tests") for file in (ROOT / folder).rglob("*.py"))
UNSAFE_MODULES = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module a file imports, also inside functions; a relative import counts as "."."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module
            case ast.ImportFrom():
                yield "."


def unsafe(tree: ast.AST) -> Iterator[str]:
    """What runs foreign code when fed a hostile file."""
    yield from (module for module in imported(tree) if module.partition(".")[0] in UNSAFE_MODULES)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                yield name
            case ast.Attribute(attr="read_pickle" | "to_pickle" as name):
                yield name
            case ast.keyword(arg="allow_pickle" as name, value=value) if not _is(value, False):
                yield name
            case ast.keyword(arg="weights_only" as name, value=value) if not _is(value, True):
                yield name


def _is(value: ast.expr, constant: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is constant


def test_top_level_is_fixed():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so files of the project cannot be told from others")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    top = {Path(line).parts[0] for line in listing.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize("file", sorted((ROOT / "datasets").glob("*.py")), ids=relative)
def test_data_sets_import_only_the_words_and_the_data_tools(file):
    ours = {module for module in imported(ast.parse(file.read_text())) if module.partition(".")[0] in ("bench", "")}
    allowed = ("bench.types", "bench.registry", "bench.data", "bench._datasets")
    assert [module for module in ours if not module.startswith(allowed)] == []


def test_data_sets_are_no_package():
    """A package `datasets` beside bench/ would shadow Hugging Face's for whoever runs from the checkout."""
    assert not (ROOT / "datasets" / "__init__.py").exists()


@pytest.mark.parametrize("file", SOURCES, ids=relative)
def test_no_file_can_be_made_to_run_foreign_code(file):
    assert list(unsafe(ast.parse(file.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "eval(text)",
        "exec(text)",
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=anything)",
        "torch.load(file, weights_only=False)",
        "pd.read_pickle(file)",
    ],
)
def test_unsafe_lines_are_seen(line):
    assert len(list(unsafe(ast.parse(line)))) == 1


def test_command_and_reports_start_without_torch():
    """Torch takes seconds to import; only what trains may do so."""
    code = "import sys, bench, bench.cli.main, bench.report; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
