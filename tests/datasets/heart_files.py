"""Small files with random rows in the formats of the UCI heart disease, South African and Faisalabad data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench._datasets import uci_heart
from bench.data.files.raw_file import RawFile
from bench.registry import load

SIZES = {"cleveland": 60, "hungarian": 50, "switzerland": 40, "va_long_beach": 45}


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """Write all files into ``folder`` and make them the published ones until the block ends."""
    cohorts = load("datasets", "heart_cohorts").__globals__["FILES"]
    draw = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BENCH_DATA", raising=False)
        for site, rows in SIZES.items():
            _publish(patch, folder, uci_heart.FILES, site, _uci(draw, rows, site))
        _publish(patch, folder, cohorts, "cleveland", (folder / uci_heart.FILES["cleveland"].path).read_text())
        _publish(patch, folder, cohorts, "sa", _south_africa(draw, 50))
        _publish(patch, folder, cohorts, "faisalabad", _faisalabad(draw, 55))
        yield folder


def _publish(patch: pytest.MonkeyPatch, folder: Path, files: dict[str, RawFile], name: str, text: str) -> None:
    file = folder / files[name].path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    patch.setitem(files, name, replace(files[name], sha256=sha256, size=len(text)))


def _uci(draw: np.random.Generator, rows: int, site: str) -> str:
    """Rows of a hospital; in Switzerland cholesterol is 0 and only two patients are healthy."""
    lines = []
    for row in range(rows):
        swiss = site == "switzerland"
        degree = min(row, 2) // 2 * draw.integers(1, 5) if swiss else draw.integers(0, 5)
        values = [
            *(draw.integers(30, 80), draw.integers(0, 2), 1 + row % 4, draw.integers(90, 200)),
            *(0 if swiss else draw.integers(150, 400), draw.integers(0, 2), row % 3, draw.integers(80, 200)),
            *(draw.integers(0, 2), round(draw.uniform(0, 4), 1)),
        ]
        sparse = [str(draw.integers(1, 4)) if draw.random() < 0.5 else "?" for _ in range(3)]
        cells = ["?" if draw.random() < 0.01 else f"{value:.1f}" for value in values]
        lines.append(",".join([*cells, *sparse, str(degree)]))
    return "\n".join(lines) + "\n"


def _south_africa(draw: np.random.Generator, rows: int) -> str:
    lines = ["row.names,sbp,tobacco,ldl,adiposity,famhist,typea,obesity,alcohol,age,chd"]
    for row in range(1, rows + 1):
        numbers = [f"{value:.2f}" for value in draw.uniform(1, 100, 8)]
        family = draw.choice(["Present", "Absent"])
        lines.append(",".join([str(row), *numbers[:4], family, *numbers[4:], str(draw.integers(0, 2))]))
    return "\n".join(lines) + "\n"


def _faisalabad(draw: np.random.Generator, rows: int) -> str:
    names = (
        "age anaemia creatinine_phosphokinase diabetes ejection_fraction high_blood_pressure platelets "
        "serum_creatinine serum_sodium sex smoking time DEATH_EVENT"
    )
    numbers = draw.uniform(1, 100, (rows, 12)).round(1).tolist()
    deaths = draw.integers(0, 2, rows).tolist()
    lines = [",".join(map(str, [*row, dead])) for row, dead in zip(numbers, deaths, strict=True)]
    return "\n".join([",".join(names.split()), *lines]) + "\n"
