"""Command `silobench verify`: exit statuses, text and JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

PUBLISHED = Path(__file__).parents[2] / "results" / "published"


def test_published_records_agree_with_themselves(silobench, tmp_path):
    shutil.copytree(PUBLISHED / "fenda" / "records", tmp_path / "mine" / "records")
    ours = ("--store", "mine", "--published", PUBLISHED)
    status, out, err = silobench("verify", "fenda/2-heart", *ours)
    assert (status, err) == (0, "")
    assert "fenda/2-heart: 21 of 21 cells pass." in out
    assert "fenda/10-heart" not in out
    status, out, _ = silobench("verify", "fenda/9", *ours, "--json")
    found = json.loads(out)
    assert (status, found["passed"], len(found["cells"])) == (0, True, 4)
    status, _, err = silobench("verify", "fenda/2-haert", *ours)
    assert status == 2
    assert "no published table 'fenda/2-haert': did you mean 'fenda/2-heart'?" in err


def test_a_store_without_any_published_run_is_refused(silobench):
    status, _, err = silobench("verify", "--store", "empty", "--published", PUBLISHED)
    assert status == 2
    assert "no published table has its runs here" in err
