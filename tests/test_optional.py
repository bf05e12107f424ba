"""Optional libraries."""

from __future__ import annotations

import json

import pytest

from bench.optional import optional
from bench.types import SilobenchError


def test_an_installed_library_is_returned():
    assert optional("json", "more") is json


def test_a_missing_library_names_the_extra():
    with pytest.raises(SilobenchError) as caught:
        optional("no_such_library", "more")
    assert str(caught.value) == "the library no_such_library is not installed; run pip install 'silobench[more]'"
