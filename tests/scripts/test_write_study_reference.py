"""docs/study-file.md is what the classes of a study file say, and its example is a study."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from bench import spec
from bench.spec.sections import study
from bench.spec.sections.figures import FIGURES
from bench.spec.sections.joint import ColumnSection, JoinedSection, JointSection
from bench.spec.sections.tables import RowSection, TableSection

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "study-file.md"
SECTIONS = [
    study.StudySection, study.DefaultsSection, study.MethodSection, study.RangeSection, study.SearchSection,
    study.SelectSection, study.ProfileSection, TableSection, RowSection, *FIGURES, JoinedSection,
    JointSection, ColumnSection,
]  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield importlib.import_module("write_study_reference")
    sys.modules.pop("write_study_reference")


def test_the_page_is_up_to_date(script):
    assert PAGE.read_text(encoding="utf-8") == script.page(), "run scripts/write_study_reference.py"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_key_is_described(section):
    undescribed = [name for name, field in section.model_fields.items() if not field.description and name != "kind"]
    assert undescribed == []


def test_the_example_can_be_read(tmp_path):
    (text,) = re.findall(r"^```toml\n(.+?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / "study.toml").write_text(text)
    read = spec.read(tmp_path / "study.toml")
    assert read.title == "FedAvg, FedProx and APFL on handwritten digits"
    assert [row.method for row in read.tables["digits/accuracy"].rows] == ["Silo", "FedAvg", "FedProx, long", "APFL"]
    assert {key: method.tried for key, method in read.methods.items()} == {
        "local": 3, "fedavg": 3, "fedprox_long": 12, "apfl": 10,
    }  # fmt: skip
    short = spec.read(tmp_path / "study.toml", "short")
    assert {key: method.tried for key, method in short.methods.items()} == {
        "local": 3, "fedavg": 1, "fedprox_long": 4, "apfl": 10,
    }  # fmt: skip
