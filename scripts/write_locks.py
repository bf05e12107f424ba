"""Write the lock files in ``constraints/``: exact versions and hashes of everything that development needs.

usage: python scripts/write_locks.py [--upgrade]      (needs the program uv)

The versions fit Python 3.11 to 3.13 on Linux, macOS and Windows. Without ``--upgrade``, versions change only where
pyproject.toml asks for it. ``dev.txt`` has all packages but PyTorch. ``torch-cpu.txt`` has PyTorch's CPU build for
Linux, and ``torch.txt`` the build of the Python package index with the CUDA libraries that it needs on Linux.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "constraints"
HEADER = "# Written by scripts/write_locks.py from pyproject.toml; do not edit.\n"
OF_TORCH = re.compile(r"(torch|triton|cuda-[a-z-]+|nvidia-[a-z0-9-]+)==")
COMPILE = ["uv", "pip", "compile", "pyproject.toml", "--quiet", "--universal", "--python-version", "3.11"]
# PyTorch publishes the CPU builds outside the Python package index. Their hashes are in its own index of CPU builds.
# For each release: the wheels for CPython 3.11, 3.12 and 3.13 on x86_64, then on aarch64.
CPU_BUILDS = {
    "2.13.0": (
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
        "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
        "84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7",
        "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
        "0b8f7d0423027ae8b90c7977c627f3379f325363a08224dffad9b4b2d684a83d",
    )
}


def main(upgrade: bool) -> None:
    """Compile all requirements at once and write them to three files; exit with a message for an unknown PyTorch."""
    written = [FOLDER / "dev.txt", FOLDER / "torch.txt"]
    with tempfile.TemporaryDirectory() as room:
        compiled = Path(room) / "all.txt"
        compiled.write_text("".join(file.read_text() for file in written if file.exists()))
        options = ["--extra", "dev", "--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url"]
        more = ["--upgrade"] if upgrade else []
        subprocess.run([*COMPILE, *options, *more, "--output-file", str(compiled)], cwd=ROOT, check=True)
        packages = re.split(r"\n(?=\S)", compiled.read_text().strip())
    of_torch = [package for package in packages if OF_TORCH.match(package)]
    version = next(package.split("==")[1].split()[0] for package in of_torch if package.startswith("torch=="))
    if version not in CPU_BUILDS:
        sys.exit(f"{__file__}: no hashes of the CPU builds of torch {version}; add them to CPU_BUILDS")
    cpu = " \\\n".join([f"torch=={version}+cpu", *(f"    --hash=sha256:{each}" for each in CPU_BUILDS[version])])
    _write("dev.txt", [package for package in packages if package not in of_torch])
    _write("torch.txt", of_torch)
    _write("torch-cpu.txt", [cpu])


def _write(name: str, packages: list[str]) -> None:
    (FOLDER / name).write_text(HEADER + "\n".join(packages) + "\n")


if __name__ == "__main__":
    main("--upgrade" in sys.argv[1:])
