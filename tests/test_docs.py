"""Markdown pages: links, paths and module names exist, and Python examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CARDS = [*sorted((ROOT / "datasets").glob("*.md")), *sorted((ROOT / "experiments").glob("*/README.md"))]
FOLDERS = ("bench/", "datasets/", "experiments/", "results/", "scripts/", "tests/", "docs/")


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def words(file: Path) -> list[str]:
    """Words between backticks outside of code blocks."""
    return re.findall(r"`([^`\s]+)`", re.sub(r"^```.+?^```", "", file.read_text(encoding="utf-8"), flags=re.M | re.S))


@pytest.mark.parametrize("file", [*PAGES, *CARDS], ids=relative)
def test_relative_links_lead_to_files(file):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (file.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("file", PAGES, ids=relative)
def test_paths_exist(file):
    generated = ("results/tables", "results/report", "results/runs", "bench/_")  # in a wheel or after a run
    named = [word for word in words(file) if word.startswith(FOLDERS) and not re.search(r"[<>*{]", word)]
    assert [name for name in named if not name.startswith(generated) and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("file", PAGES, ids=relative)
def test_module_names_resolve(file):
    for name in (word for word in words(file) if re.fullmatch(r"bench(\.\w+)+", word)):
        resolve_name(name)


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
    """Same rows; numbers may differ a little on other processors and without a compiler."""
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
        [float(text) for text in number.findall(shown)], abs=0.02
    )
