"""Markdown pages and docstrings: links, paths and names exist, and Python examples run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

from bench.cli.verify import TOLERANCE

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
CARDS = [*sorted((ROOT / "datasets").glob("*.md")), *sorted((ROOT / "experiments").glob("*/README.md"))]
FOLDERS = ("bench/", "datasets/", "experiments/", "results/", "scripts/", "tests/", "docs/")

CODE = (ROOT / "bench", ROOT / "datasets", ROOT / "scripts")


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def module(file: Path) -> str:
    """Name of the module of a file; data sets are modules of a namespace package."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = ("bench", "_datasets", *parts[1:]) if parts[0] == "datasets" else parts
    return ".".join(parts).removesuffix(".__init__")


def words(file: Path) -> list[str]:
    """Words between backticks outside of code blocks."""
    return re.findall(r"`([^`\s]+)`", re.sub(r"^```.+?^```", "", file.read_text(encoding="utf-8"), flags=re.M | re.S))


@pytest.mark.parametrize("file", [*PAGES, *CARDS], ids=relative)
def test_relative_links_lead_to_files(file):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (file.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("file", [*PAGES, *CARDS], ids=relative)
def test_paths_exist(file):
    generated = ("results/tables", "results/report", "results/runs", "bench/_")  # in a wheel or after a run
    named = [word for word in words(file) if word.startswith(FOLDERS) and not re.search(r"[<>*{]", word)]
    assert [name for name in named if not name.startswith(generated) and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("file", PAGES, ids=relative)
def test_module_names_resolve(file):
    for name in (word for word in words(file) if re.fullmatch(r"bench(\.\w+)+", word)):
        resolve_name(name)


def defined(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a module defines or imports, and as pairs the members of its classes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, body=body):
                yield "", name
                for member in body:
                    match member:
                        case ast.FunctionDef(name=own) | ast.AnnAssign(target=ast.Name(id=own)):
                            yield name, own
                        case ast.Assign(targets=targets):
                            yield from ((name, target.id) for target in targets if isinstance(target, ast.Name))
            case ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield "", name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (("", alias.asname or alias.name) for alias in names)


def test_references_in_docstrings_resolve():
    """Names in roles such as :func:`name` are of the module or of core types, or are given with their module."""
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for folder in CODE for file in folder.rglob("*.py")}
    modules = {module(file): set(defined(tree)) for file, tree in trees.items()}
    members = set().union(*modules.values())
    missing = []
    for file, tree in trees.items():
        local = modules[module(file)] | modules["bench.types"]
        for node in ast.walk(tree):
            documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            for reference in re.findall(r":[a-z]+:`([\w.]+)`", (ast.get_docstring(node) or "") if documented else ""):
                home, _, name = reference.rpartition(".")
                place, _, owner = home.rpartition(".")
                found = name in {own for _, own in local} if not home else ("", name) in modules.get(home, ())
                of_class = (owner, name) in members and ("", owner) in (modules.get(place, ()) if place else local)
                if not (found or of_class or reference in modules):
                    missing.append(f"{relative(file)}: {reference}")
    assert missing == []


def test_readme_example_runs(tmp_path):
    (code,) = re.findall(r"^```python\n(import bench.+?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "accuracy" in run.stdout


def test_readme_shows_the_code_of_fedprox():
    (shown,) = re.findall(r"^```python\n(@register.+?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    code = (ROOT / "bench" / "algorithms" / "fedprox.py").read_text()
    assert [line for line in shown.splitlines() if line not in code.splitlines()] == []


@pytest.mark.slow
def test_readme_shows_the_table_of_the_quickstart(tmp_path):
    """Same rows; numbers may differ on other processors by at most the tolerance of `silobench verify`."""
    (shown,) = re.findall(r"^```text\n(.+?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    command = [sys.executable, "-m", "bench", "reproduce-table", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    number = re.compile(r"\d\.\d{3}")
    lines = shown.splitlines()
    printed = run.stdout.splitlines()[: len(lines)]
    assert [number.sub("", line).replace("*", "").split() for line in printed] == [
        number.sub("", line).replace("*", "").split() for line in lines
    ]
    assert [float(text) for text in number.findall("\n".join(printed))] == pytest.approx(
        [float(text) for text in number.findall(shown)], abs=TOLERANCE
    )
