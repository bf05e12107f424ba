"""Pretrained weights: a user's file, named in studies by its content, so that any machine runs the same study.

A model that can start from such weights has the option ``weights``: "none", or "sha256:" and the SHA-256 of a file.
The environment variable BENCH_WEIGHTS is the path of that file, or of a folder of files. The file is read as data only;
a pickle that needs more than tensors is refused.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn

from bench.files import expanded
from bench.types import DataError, SpecError

SUFFIXES = (".safetensors", ".pth", ".pt")


def load_into(module: nn.Module, weights: str, layouts: Mapping[str, Sequence[str]]) -> None:
    """Load the weights that the option ``weights`` names into the module; "none" keeps the module's own.

    ``layouts`` are, by package, the names that its files use for the module's floating point tensors, in their order.
    Raises :class:`SpecError` for an option that is neither, and :class:`DataError` for a file that is missing or does
    not fit.
    """
    if weights == "none":
        return
    if not isinstance(weights, str) or not re.fullmatch("sha256:[0-9a-f]{64}", weights):
        raise SpecError(f"weights = {weights!r}: expected 'none', or 'sha256:' and the 64 hexadecimal digits of a file")
    file, content = _find(weights)
    state = _read(file, content)
    ours = [value for value in module.state_dict().values() if value.is_floating_point()]
    with torch.no_grad():
        for own, name in zip(ours, _layout(file, state, layouts), strict=True):
            if state[name].shape != own.shape:
                found, expected = tuple(state[name].shape), tuple(own.shape)
                raise DataError(f"{file}: {name} has the shape {found}, expected {expected} for this model's inputs")
            own.copy_(state[name])


def _find(weights: str) -> tuple[Path, bytes]:
    """Return the file with this hash, and its content."""
    place = os.environ.get("BENCH_WEIGHTS")
    remedy = "set BENCH_WEIGHTS to the file with these weights or its folder, or give weights = 'none'"
    if not place:
        raise DataError(f"weights = {weights!r}: BENCH_WEIGHTS is not set; {remedy}")
    root = expanded("BENCH_WEIGHTS", place, remedy)
    found = []
    for file in _files(root):
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if weights == f"sha256:{digest}":
            return file, content
        found.append(f"{file.name} is sha256:{digest}")
    there = "; ".join(found) or f"no file ends in {', '.join(SUFFIXES)}"
    raise DataError(f"weights = {weights!r}: not in {root} ({there}); {remedy}")


def _files(root: Path) -> Iterable[Path]:
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise DataError(f"BENCH_WEIGHTS = {str(root)!r}: no such file or folder; correct the path")
    return sorted(file for file in root.iterdir() if file.suffix in SUFFIXES)


def _read(file: Path, content: bytes) -> dict[str, Tensor]:
    try:
        if file.suffix == ".safetensors":
            return load_safetensors(content)
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        return {str(name): value for name, value in state.items() if isinstance(value, Tensor)}
    except Exception as error:  # reading a file of unknown content may raise anything
        expected = "expected one written by safetensors or torch.save"
        raise DataError(f"{file}: not a file of named tensors; {expected}") from error


def _layout(file: Path, state: Mapping[str, Tensor], layouts: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the layout of the file."""
    lacking = {}
    for package, names in layouts.items():
        absent = next((name for name in names if name not in state), None)
        if absent is None:
            return names
        lacking[package] = absent
    reasons = ", ".join(f"as in {package} it lacks {name}" for package, name in lacking.items())
    raise DataError(f"{file}: not weights of this model ({reasons}); name another file")
