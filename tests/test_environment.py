"""The environment of training: short facts that are equal on machines of the same kind."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from bench import environment, native

BUILT = """PyTorch built with:
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71)
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, TORCH_VERSION=2.13.0, USE_MKLDNN=ON
"""
CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
cpu MHz\t\t: 2599.998

processor\t: 1
vendor_id\t: GenuineIntel
"""


@pytest.fixture
def cpuinfo(monkeypatch):
    """Give /proc/cpuinfo another text; None if the system has no such file."""

    def cpuinfo(text: str | None) -> None:
        def read_text(self: Path) -> str:
            if text is None:
                raise FileNotFoundError(self)
            return text

        monkeypatch.setattr(Path, "read_text", read_text)

    return cpuinfo


def test_facts_are_those_that_decide_numbers():
    facts = environment.environment()
    assert facts["capability"] == torch.backends.cpu.get_cpu_capability()
    assert {"processor", "BLAS", "oneDNN", "Python", "numpy", "scikit-learn"} < set(facts)
    assert all(facts.values())
    assert platform.node() not in " ".join(facts.values()).split()


def test_variables_are_facts_where_they_are_set(monkeypatch):
    for name in environment.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    before = environment.environment()
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert environment.environment() == before | {"MKL_CBWR": "COMPATIBLE"}


def test_the_reason_of_a_missing_kernel_is_no_fact(monkeypatch):
    """It may name a path of this machine."""
    used = {"adamw": "torch (/home/me/cc cannot compile it)", "token_block": "c811f222d422d93a"}
    monkeypatch.setattr(native, "in_use", lambda: used)
    facts = environment.environment()
    assert (facts["kernel adamw"], facts["kernel token_block"]) == ("torch", "c811f222d422d93a")


def test_the_first_processor_is_named_by_vendor_family_and_model(cpuinfo):
    cpuinfo(CPUINFO)
    assert environment._processor() == "AuthenticAMD 25 17"
    cpuinfo("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\n")
    assert environment._processor() == "0x41 0xd40"
    cpuinfo("")
    assert environment._processor() == platform.machine()
    cpuinfo(None)
    assert environment._processor() == platform.processor() or platform.machine()


def test_libraries_are_read_from_the_description_of_the_build():
    assert environment._libraries(BUILT) == {"BLAS": "MKL 2024.2", "oneDNN": "3.12.0"}
    assert environment._libraries("BLAS_INFO=accelerate, USE_MKLDNN=OFF") == {"BLAS": "accelerate", "oneDNN": "none"}
    assert environment._libraries("") == {"BLAS": "unknown", "oneDNN": "none"}
