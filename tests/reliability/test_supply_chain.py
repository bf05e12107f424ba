"""Lock files, lower bounds and the hosted workflow: every package that is installed has a version and a hash."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCKS = {name: (ROOT / "constraints" / name).read_text() for name in ("dev.txt", "torch.txt", "torch-cpu.txt")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The first versions without a known vulnerability, from the advisories of each project.
SAFE = {
    "filelock": "3.20.3",  # CVE-2025-68146, CVE-2026-22701
    "jinja2": "3.1.6",  # CVE-2025-27516
    "mlflow-skinny": "3.13",  # CVE-2026-2635, CVE-2026-8147
    "pillow": "12.3.0",  # CVE-2026-40192, CVE-2026-42311, CVE-2026-59199
    "pyarrow": "23.0.1",  # CVE-2026-25087
    "pytest": "9.0.3",  # CVE-2025-71176
    "ray": "2.54.0",  # CVE-2026-27482
    "requests": "2.33.0",  # CVE-2026-25645
    "setuptools": "78.1.1",  # CVE-2025-47273
    "urllib3": "2.7.0",  # CVE-2026-44431
}


def locked(name: str) -> dict[str, str]:
    """Return the versions in a lock file by package."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCKS[name], re.MULTILINE))


def required() -> dict[str, Requirement]:
    """Return what pyproject.toml asks for, with the extras of development, by package."""
    texts = [*PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        texts += [text for text in extra if not text.startswith("silobench")]
    return {canonicalize_name(each.name): each for each in map(Requirement, texts)}


def test_15_7_every_locked_package_has_one_version_and_hashes():
    packages = 0
    for name, text in LOCKS.items():
        entries = re.split(r"\n(?=[a-z])", text.partition("\n")[2].strip())
        assert all(entry.count(" --hash=sha256:") >= 1 for entry in entries), name
        assert len(entries) == len(locked(name))  # no entry without ==
        assert not re.search(r"https?:|\bfile:|--(index|extra|find)", text)
        packages += len(entries)
    assert not locked("dev.txt").keys() & locked("torch.txt").keys()
    print(f"{packages} locked packages with {sum(text.count('--hash') for text in LOCKS.values())} hashes")


def test_15_7_the_lock_files_satisfy_the_project():
    versions = locked("dev.txt") | locked("torch.txt")
    extras = ("ixi", "text", "parquet", "ray", "dev")
    texts = [text for extra in extras for text in PROJECT["optional-dependencies"][extra]]
    for each in map(Requirement, [*PROJECT["dependencies"], *texts]):
        if each.name != "silobench":
            assert each.specifier.contains(versions[canonicalize_name(each.name)]), each
    assert "hatchling" in versions  # the build backend, which pip would otherwise fetch without a hash
    assert locked("torch-cpu.txt") == {"torch": f"{versions['torch']}+cpu"}


def test_15_7_lower_bounds_exclude_known_vulnerabilities():
    for name, safe in SAFE.items():
        (bound,) = required()[name].specifier
        assert bound.operator == ">="
        assert Version(bound.version) >= Version(safe), f"{name} below {safe}"
    print(f"{len(SAFE)} lower bounds above known vulnerabilities")


def test_15_7_published_versions_are_those_in_the_records():
    recorded = {
        json.loads(line)["versions"]["torch"]
        for file in (ROOT / "results" / "published").rglob("records/*.jsonl")
        for line in file.read_text().splitlines()
    }
    stated = re.findall(r"^([a-z]\S*)==(\S+)$", (ROOT / "constraints" / "published.txt").read_text(), re.MULTILINE)
    assert {("torch", version) for version in recorded} == set(stated)


def test_15_7_the_hosted_workflow_only_reads_and_pins_its_actions():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each) for each in used)
    assert "pip-audit --disable-pip --require-hashes" in text
