"""Pretrained weights: a file of the user's, named in studies by its content, so that any machine runs the same study.

A model that can start from such weights has the option ``weights``: "none", or "sha256:" and the SHA-256 of a file.
The file is looked for where the environment variable BENCH_WEIGHTS points, at a file or a folder of files. It is read
as data only; a pickle that asks for more than tensors is refused.
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

from bench.types import DataError, SpecError

SUFFIXES = (".safetensors", ".pth", ".pt")


def load_into(module: nn.Module, weights: str, layouts: Mapping[str, Sequence[str]]) -> None:
    """Give the module the weights that the option ``weights`` names; "none" leaves its own.

    ``layouts`` say for every known package how a file of its calls the module's floating point tensors, in their
    order. Raises :class:`SpecError` for an option that is neither, :class:`DataError` for a file that is not there or
    does not fit.
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
    """The file with this hash, and what is in it."""
    place = os.environ.get("BENCH_WEIGHTS")
    remedy = "set BENCH_WEIGHTS to the file with these weights or its folder, or give weights = 'none'"
    if not place:
        raise DataError(f"weights = {weights!r}: BENCH_WEIGHTS names no file or folder to look in; {remedy}")
    root = Path(place).expanduser()
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
        raise DataError(f"BENCH_WEIGHTS = {str(root)!r}: there is no such file or folder")
    return sorted(file for file in root.iterdir() if file.suffix in SUFFIXES)


def _read(file: Path, content: bytes) -> dict[str, Tensor]:
    try:
        if file.suffix == ".safetensors":
            return load_safetensors(content)
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        return {str(name): value for name, value in state.items() if isinstance(value, Tensor)}
    except Exception as error:  # whatever a foreign file may lead to
        raise DataError(f"{file}: no tensors by name, as torch.save or safetensors write them") from error


def _layout(file: Path, state: Mapping[str, Tensor], layouts: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The layout that the file has."""
    lacking = {}
    for package, names in layouts.items():
        absent = next((name for name in names if name not in state), None)
        if absent is None:
            return names
        lacking[package] = absent
    reasons = ", ".join(f"as in {package} it lacks {name}" for package, name in lacking.items())
    raise DataError(f"{file}: not this model's weights ({reasons})")
