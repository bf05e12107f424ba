"""Content hashes of all runs of the studies in experiments/: they name the published records, so they never change.

``run_hashes.json`` holds, for each study and profile, the number of runs and one hash over their hashes in order. The
data's fingerprint is replaced by zeros, so that no data are needed. A new study is added with
``python tests/spec/test_hashes.py``, which leaves the entries of known studies as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import registry, settings, spec
from bench.spec import Method, RangeSection, StudySpec
from bench.types import RunSpec, content_hash

GOLDEN = Path(__file__).with_name("run_hashes.json")
FINGERPRINT = "0" * 64
STUDIES = {f"{file.parent.name}/{file.stem}": file for file in spec.studies()}


def run_hashes(study: StudySpec) -> Iterator[str]:
    """Yield the hash of every run: methods in order, then settings, then seeds."""
    for method in study.methods.values():
        for setting in settings_of(method):
            one = method.at(setting)
            algorithm = filled("algorithms", one.algorithm.name, one.algorithm.options)
            model = filled("models", settings.fitting(one.algorithm.name, one.model.name), one.model.options)
            for seed in study.seeds:
                data = one.data_of(seed)
                options = filled("datasets", data.name, data.options)
                described = {**options, "fingerprint": FINGERPRINT, "by_seed": one.by_seed}
                yield RunSpec(described, algorithm, model, one.numbers, one.budget, seed).hash


def settings_of(method: Method) -> tuple[Any, ...]:
    """Return the grid; of a search that draws, the first value or the lower end of every axis."""
    if method.search.kind == "grid":
        return method.grid
    return ({k: axis.low if isinstance(axis, RangeSection) else axis[0] for k, axis in method.axes.items()},)


def filled(kind: registry.Kind, name: str, options: Any) -> dict[str, Any]:
    """Return a name and its options with the defaults of the others, as a record has them."""
    return {"name": name, "options": {**registry.defaults(kind, name), **options}}


def summary(file: Path) -> dict[str, list[Any]]:
    """Return the number of runs and the hash over all of them, by profile."""
    found = {}
    for profile in spec.profile_names(file):
        hashes = list(run_hashes(spec.read(file, profile)))
        found[profile] = [len(hashes), content_hash({"runs": hashes})]
    return found


def golden() -> dict[str, dict[str, list[Any]]]:
    return json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}


def test_every_study_has_an_entry():
    assert set(golden()) == set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_runs_keep_their_hashes(name):
    assert summary(STUDIES[name]) == golden()[name]


if __name__ == "__main__":
    entries = {name: golden().get(name) or summary(file) for name, file in STUDIES.items()}
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(entries.items())]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
