"""What tests of several folders share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """The folder of real raw data files; without it a test that asks for it is skipped, and fails under CI."""
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse("this test reads real data: set BENCH_DATA to the folder of raw files (see datasets/*.md)")
    return Path(folder)
