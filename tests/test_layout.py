"""Project rules about files and code that ruff's and import-linter's settings cannot express."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOP_LEVEL = {
    *("bench", "constraints", "datasets", "experiments", "results", "scripts", "tests", "docs"),
    *("Makefile", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md"),
    "SECURITY.md",
}
MAX_MODULES = 15  # in one package; bench/algorithms has a module per algorithm
# Folders and files of tests that cover several modules, or files that are no modules.
CROSS_CUTTING = {
    *("algorithms", "experiments", "reference", "reliability", "spec"),
    *("test_docs.py", "test_language.py", "test_layout.py"),
    *("data/test_load_dataset.py", "data/readers/test_images_files.py"),
    *("datasets/test_contract.py", "datasets/test_gemini.py"),
    *("datasets/test_images_datasets.py", "datasets/test_text_datasets.py"),
    *("report/site/test_browser.py", "report/tables/test_columns.py"),
    *("report/tables/test_one_run.py", "report/tables/test_printed.py"),
    *("sweep/test_docs.py",),
    *("train/test_batch_norm.py", "train/test_data_by_seed.py", "train/test_determinism.py"),
}
# Ruff must report each of these lines, with the rules of pyproject.toml.
UNSAFE_FOR_RUFF = [
    "import pickle",
    "import dill",
    "from joblib import load",
    "from pandas import read_pickle",
    "import shelve, cloudpickle",
    "eval(text)",
    "exec(text)",
    "from marshal import loads",
    "import pandas as pd; pd.read_pickle(file)",
]
UNSAFE_KEYWORDS = {"allow_pickle": False, "weights_only": True}  # and the only value that each may have


def sources(*folders: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the name and the syntax tree of every Python file below the folders."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def unsafe(tree: ast.AST) -> Iterator[str]:
    """Yield calls that may unpickle a file although ruff has no rule against them."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="to_pickle" as name):
                yield name
            case ast.keyword(arg=str(name), value=value) if name in UNSAFE_KEYWORDS:
                if not (isinstance(value, ast.Constant) and value.value is UNSAFE_KEYWORDS[name]):
                    yield name


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield every imported module, also of imports inside functions; "." for a relative import."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module
            case ast.ImportFrom():
                yield "."


def test_top_level_is_fixed():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: files of the project are unknown")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    top = {Path(line).parts[0] for line in listing.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def test_data_set_files_import_only_types_the_registry_data_tools_and_each_other():
    allowed = (
        "bench.types",
        "bench.limits",
        "bench.registry",
        "bench.rng",
        "bench.optional",
        "bench.data",
        "bench._datasets",
    )
    found = [
        f"{name}: {module}"
        for name, tree in sources("datasets")
        for module in imported(tree)
        if module.partition(".")[0] in ("bench", "") and not module.startswith(allowed)
    ]
    assert found == []


def test_data_sets_are_not_a_package():
    """A package `datasets` next to bench/ would hide Hugging Face's package from code that runs in the checkout."""
    assert not (ROOT / "datasets" / "__init__.py").exists()


def test_no_file_unpickles():
    trees = sources("bench", "datasets", "scripts", "tests")
    assert [f"{name}: {found}" for name, tree in trees for found in unsafe(tree)] == []


@pytest.mark.parametrize(
    "line",
    [
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=anything)",
        "torch.load(file, weights_only=False)",
        "frame.to_pickle(file)",
    ],
)
def test_unsafe_lines_are_found(line):
    assert len(list(unsafe(ast.parse(line)))) == 1


def test_ruff_rejects_unsafe_lines():
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise",
               "--stdin-filename", "bench/unsafe.py", "-"]  # fmt: skip
    text = "\n".join(UNSAFE_FOR_RUFF) + "\n"
    run = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False)
    rules = [line.split() for line in run.stdout.splitlines() if line.startswith("bench/unsafe.py:")]
    lines = {int(where.split(":")[1]) for where, rule, *_ in rules if rule.startswith(("S", "TID251"))}
    assert lines == set(range(1, len(UNSAFE_FOR_RUFF) + 1)), run.stdout + run.stderr


def test_packages_are_small():
    counts = Counter(Path(name).parent.as_posix() for name, _ in sources("bench") if not name.endswith("__init__.py"))
    assert {name: n for name, n in counts.items() if n > MAX_MODULES and name != "bench/algorithms"} == {}


def test_public_classes_have_different_names():
    places: dict[str, list[str]] = {}
    for name, tree in sources("bench"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_tests_mirror_the_code():
    """Each test file is named after the module or package that it tests, unless it is cross-cutting."""
    tests, found = ROOT / "tests", []
    for file in sorted(tests.rglob("test_*.py")):
        name = file.relative_to(tests)
        if {name.as_posix(), name.parts[0]} & CROSS_CUTTING:
            continue
        root = ROOT if name.parts[0] in ("datasets", "scripts") else ROOT / "bench"
        tested = root / name.parent / name.stem.removeprefix("test_")
        if not (tested.is_dir() or tested.with_suffix(".py").exists()):
            found.append(name.as_posix())
    assert found == []


def test_the_list_of_cross_cutting_tests_is_current():
    assert [name for name in sorted(CROSS_CUTTING) if not (ROOT / "tests" / name).exists()] == []


def test_command_and_reports_start_without_torch():
    """Importing torch takes seconds; only training needs it."""
    code = "import sys, bench, bench.cli.main, bench.report; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
