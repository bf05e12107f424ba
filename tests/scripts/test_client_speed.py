"""The measurement of many clients against the plain loop."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from bench.types import SilobenchError
from tests.reference.common import Trace

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.setattr(Trace, "record_trained", Trace.record_trained)  # the script replaces it
    module = importlib.import_module("client_speed")
    monkeypatch.setattr(module, "PLAIN", 3)
    yield module
    sys.modules.pop("client_speed")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["fedper", "fedavg", "scaffold", "ditto"])
def test_an_algorithm_is_timed_against_its_plain_loop(speed, monkeypatch: pytest.MonkeyPatch, algorithm: str) -> None:
    line = speed.measure(algorithm, 1000)
    assert (line.algorithm, line.clients, line.path) == (algorithm, 1000, "stack")
    monkeypatch.setattr(speed, "AGREEMENT", -1.0)
    with pytest.raises(SilobenchError, match="validation losses of silobench and the plain loop differ by"):
        speed.measure(algorithm, 10)


def test_bars_are_marked(speed) -> None:
    lines = [
        speed.ClientLine(
            name, clients, plain=300, silobench=20 if clients < 10_000 else 40, fixed=1, memory=1, path="stack"
        )
        for name in speed.ALGORITHMS
        for clients in speed.CLIENTS
    ]
    text = speed.markdown(lines)
    assert "7.5 times faster, at least 10: **MISSED**" in text
    assert "fixed cost with 2,000 clients: 1.00 s, at most 1.5 s: met" in text
    assert "takes 2.00 times that with 100, at most 1.5: **MISSED**" in text
    assert text.count("| stack |") == len(lines)
