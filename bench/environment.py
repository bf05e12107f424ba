"""The environment of training: the facts about processor and libraries that decide the last digits of results."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

import torch

from bench import native

# Variables that select the instructions of MKL and oneDNN; torch's own, ATEN_CPU_CAPABILITY, decides "capability".
VARIABLES = ("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE")
# Lines of /proc/cpuinfo that name the kind of a processor, on x86-64 and on ARM.
KIND = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")


def environment() -> dict[str, str]:
    """Return the facts by name; they are equal for every process on machines of the same kind.

    "processor" is its vendor, family and model, "capability" the instructions that torch uses, "BLAS" and "oneDNN" are
    the libraries that torch was built with. "kernel ..." is the hash of a compiled kernel, or "torch" (as in
    :func:`bench.native.in_use`, without the reason). A variable of ``VARIABLES`` is a fact where it is set.
    """
    return {
        "processor": _processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        **_libraries(torch.__config__.show()),
        **{name: os.environ[name] for name in VARIABLES if name in os.environ},
        **{f"kernel {name}": used.partition(" ")[0] for name, used in native.in_use().items()},
        "Python": ".".join(map(str, sys.version_info[:2])),
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
    }


def _processor() -> str:
    """Return vendor, family and model of the processor, such as "AuthenticAMD 25 17"."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    return " ".join(found[name] for name in KIND if name in found) or platform.machine()


def _libraries(built: str) -> dict[str, str]:
    """Return the libraries named in torch's description of its build."""
    mkl = re.search(r"Math Kernel Library Version (\d[\d.]*)", built)
    blas = re.search(r"BLAS_INFO=(\w+)", built)
    onednn = re.search(r"MKL-DNN v(\d[\d.]*)", built)
    return {
        "BLAS": f"MKL {mkl[1]}" if mkl else blas[1] if blas else "unknown",
        "oneDNN": onednn[1] if onednn else "none",
    }
