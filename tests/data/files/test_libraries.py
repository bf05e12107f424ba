"""Versions of libraries."""

from __future__ import annotations

import numpy as np

from bench.data.files.libraries import versions


def test_a_library_that_is_not_installed_has_no_version():
    assert versions(("numpy", "no-such-library")) == {"numpy": np.__version__, "no-such-library": None}
