"""The studies of experiments/, read together."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import spec
from bench.types import SpecError
from tests.spec.example import GOOD


def test_two_studies_with_the_same_table_id_are_refused(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        text = GOOD.replace('paper = "fenda"', "").replace('printed = "2:fed_heart_disease:accuracy"', "")
        (tmp_path / name / "study.toml").write_text(text)
    monkeypatch.setattr("bench.spec.experiments.folder", lambda kind: tmp_path)
    with pytest.raises(
        SpecError,
        match=r"two/study.toml: tables: 'mine/first' is also in .*one/study.toml; give one of them another id",
    ):
        spec.published("tables")


def test_every_study_in_experiments_can_be_read():
    assert {"quickstart", "fenda/2-heart"} <= spec.published("tables").keys()


@pytest.mark.parametrize("file", spec.studies(), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_profile_of_the_experiments_can_be_read_and_is_smaller(file: Path):
    def cost(study: spec.StudySpec) -> int:
        return len(study.seeds) * sum(method.tried * method.budget.rounds for method in study.methods.values())

    paper, *others = spec.profile_names(file)
    assert all(cost(spec.read(file, profile)) < cost(spec.read(file, paper)) for profile in others)


def test_joint_tables_of_the_experiments_can_be_read():
    assert {name: file.printed_ranks(file.tables[name]) is not None for name, file in spec.joint("tables").items()}
    assert spec.joint("figures") is not None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("Table 6", ["6"]),
        ("section 4.3 and Figure 2", []),
        ("appendix B.2 and Tables 9 and 11", ["9", "11"]),
        ("Tables 1, 3 and 5 to 7", ["1", "3", "5", "6", "7"]),
        ("Tables A.3 and A.4, captions", ["A3", "A4"]),
        ("Tables A.9 to A.11 and Table 2", ["A9", "A10", "A11", "2"]),
    ],
)
def test_tables_that_a_claim_is_about(where, expected):
    assert list(spec.tables_named("p", where)) == [f"p/{table}" for table in expected]
