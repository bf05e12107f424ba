"""Tables and figures are not overwritten by those of another study."""

from __future__ import annotations

import pytest

from bench.report import origins
from bench.types import SpecError


@pytest.fixture
def studies(tmp_path):
    """Two study files, and a folder with a table of the first."""
    one, two, out = tmp_path / "one.toml", tmp_path / "two.toml", tmp_path / "tables"
    for file in (one, two):
        file.touch()
    (out / "mine").mkdir(parents=True)
    (out / "mine" / "table.md").touch()
    origins.note(out, ["mine/table"], one)
    return one, two, out


def test_another_study_is_refused(studies):
    one, two, out = studies
    with pytest.raises(SpecError) as error:
        origins.check(out, ["new", "mine/table"], two)
    assert str(error.value).startswith(f"{two}: 'mine/table' is also the id of a table or figure of {one}, whose files")


def test_the_same_study_may_write_again(studies):
    one, _, out = studies
    origins.check(out, ["mine/table"], one.parent / "." / one.name)


def test_files_or_studies_that_are_gone_may_be_replaced(studies):
    one, two, out = studies
    one.unlink()
    origins.check(out, ["mine/table"], two)
    one.touch()
    (out / "mine" / "table.md").unlink()
    origins.check(out, ["mine/table"], two)


def test_notes_of_others_are_kept(studies):
    one, two, out = studies
    origins.note(out, ["other"], two)
    (out / "other.csv").touch()
    origins.check(out, ["other"], two)
    for study, stem in ((one, "other"), (two, "mine/table")):
        with pytest.raises(SpecError):
            origins.check(out, [stem], study)


@pytest.mark.parametrize("notes", ["{", "[]", '{"mine/table": 5}', '{"mine/table": ["one.toml"]}', "\udcff"])
def test_damaged_notes_are_ignored(studies, notes):
    _, two, out = studies
    (out / origins.NAME).write_text(notes, errors="surrogateescape")
    origins.check(out, ["mine/table"], two)
    origins.note(out, ["mine/table"], two)
