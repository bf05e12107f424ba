"""What tests of several folders share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """The folder of real raw data files; a test that asks for it fails, never skips, where there is none."""
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        pytest.fail("this test reads real data: set BENCH_DATA to the folder of raw files (see datasets/*.md)")
    return Path(folder)
