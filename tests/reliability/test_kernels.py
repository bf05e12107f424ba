"""Compiled kernels in the cache: damage, files of other users, compilers that change the arithmetic."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bench import machine, native, spec
from bench.files import cache_folder, write_whole
from bench.native import adamw, library, token_block
from bench.native.kernel import Kernel
from bench.sweep.store import Store
from tests.sweep.test_study import contents, run_study

KERNELS = {"adamw": adamw, "token_block": token_block}
STUDY = """
title = "Kernels"
seeds = [1]
[data]
name = "digits"
[budget]
rounds = 2
local_steps = 3
batch_size = 8
optimizer = "adamw"
[methods.fedavg]
model = "logistic"
fixed = {lr = 0.1}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and kernels as in a process that has loaded none."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "computed_by_torch", {})
    renew(monkeypatch)
    return tmp_path / "cache" / "native"


def renew(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [Kernel(module.KERNEL.source, module.KERNEL.compare) for module in KERNELS.values()]
    for module, kernel in zip(KERNELS.values(), kernels, strict=True):
        monkeypatch.setattr(module, "KERNEL", kernel)
    monkeypatch.setattr(native, "KERNELS", kernels)


def arguments(numbers: int = 1001) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    w, gradient, m, v = torch.randn(4, numbers, generator=generator)
    return w, gradient, m, v.abs(), torch.tensor(0.999), torch.tensor(0.01), torch.tensor(1e-8)


def same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(a, b, strict=True))


def flip(file: Path, bit: int, content: bytes) -> None:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    file.write_bytes(damaged)


def plant(file: Path) -> Path:
    """Replace the cached file by an intact one that writes another file when it is loaded; return the other file."""
    source, made, loaded = (file.parent.parent / name for name in ("planted.c", "planted.so", "loaded"))
    source.write_text(f"""
        #include <stdio.h>
        __attribute__((constructor)) static void begin(void) {{ fclose(fopen("{loaded}", "w")); }}
        void adamw(void) {{ }}
    """)
    subprocess.run([*machine.compiler(), *library.FLAGS, "-o", made, source], check=True)
    write_whole(file, made.read_bytes() + library._checksum(file, made.read_bytes()))
    return loaded


def test_15_1_a_planted_library_would_run(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next test would pass without any check if the planted library did nothing."""
    assert adamw.KERNEL.functions is not None
    loaded = plant(next(cache.glob("adamw-*.so")))
    renew(monkeypatch)
    assert adamw.KERNEL.in_use == "torch (the library differs from the definition)"
    assert loaded.exists()


def test_15_1_every_flipped_bit_is_found(cache: Path) -> None:
    found = checked = 0
    for name, module in KERNELS.items():
        _, digest = library.load(module.KERNEL.source)
        (file,) = cache.glob(f"{name}-*.so")
        content = file.read_bytes()
        assert hashlib.sha256(library._checked(file)).hexdigest() == digest
        for bit in random.Random(name).sample(range(8 * len(content)), 500):
            flip(file, bit, content)
            found += library._checked(file) is None
            checked += 1
        for length in (0, 1, 32, 64, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:length])
            assert library._checked(file) is None
    print(f"{found} of {checked} flipped bits found")
    assert found == checked == 1000


def test_15_1_a_damaged_kernel_is_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, digests = adamw.update(*arguments()), native.in_use()
    assert adamw.KERNEL.functions is not None
    (file,) = cache.glob("adamw-*.so")
    content = file.read_bytes()
    for bit in random.Random(1).sample(range(8 * len(content)), 8):
        flip(file, bit, content)
        renew(monkeypatch)
        assert same(adamw.update(*arguments()), expected)
        assert native.in_use() == digests
        assert file.read_bytes() == content


@pytest.mark.slow
def test_15_1_exchanged_kernels_are_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = native.in_use()
    one, other = cache.glob("*.so")
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    renew(monkeypatch)
    assert native.in_use() == digests
    assert (one.read_bytes(), other.read_bytes()) == (first, second)


@pytest.mark.slow
def test_15_1_another_process_computes_the_same_after_damage(cache: Path) -> None:
    """Each process prints the hash of trained weights and the kernels that it used."""
    code = """
import hashlib, torch
from bench import native
from bench.native import adamw, token_block
from tests.reliability.test_kernels import arguments
torch.manual_seed(0)
shapes = [(3,), (3,), (48, 16), (16, 16), (3,), (3,), (8, 16), (16, 8), (8, 16)]
weights = token_block.Weights(*map(torch.randn, shapes))
found = [*adamw.update(*arguments()), token_block.token_block(torch.randn(16, 3, 40), weights)]
print(hashlib.sha256(b"".join(each.numpy().tobytes() for each in found)).hexdigest(), native.in_use())
"""

    def printed() -> str:
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert run.stderr == ""
        return run.stdout

    expected = printed()
    assert expected.endswith(f" {native.in_use()}\n")
    for name in KERNELS:
        (file,) = cache.glob(f"{name}-*.so")
        content = file.read_bytes()
        for bit in random.Random(name).sample(range(8 * len(content)), 2):
            flip(file, bit, content)
            assert printed() == expected
            assert file.read_bytes() == content


def expose(file: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another user own or write the file or its folder."""
    match change:
        case "folder, group":
            file.parent.chmod(0o770)
        case "folder, all":
            file.parent.chmod(0o707)
        case "file, group":
            file.chmod(0o664)
        case "file, all":
            file.chmod(0o646)
        case "owner of both":
            monkeypatch.setattr(os, "geteuid", lambda: 1 + file.stat().st_uid)
        case "owner of the file":
            status = list(file.stat())[:10]
            status[4] += 1  # the user's number
            monkeypatch.setattr(os, "fstat", lambda opened: os.stat_result(status))
        case "link":
            file.symlink_to(file.rename(file.parent.parent / "elsewhere.so"))


@pytest.mark.parametrize(
    "change", ["folder, group", "folder, all", "file, group", "file, all", "owner of both", "owner of the file", "link"]
)
def test_15_1_a_planted_library_is_not_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    assert adamw.KERNEL.functions is not None
    (file,) = cache.glob("adamw-*.so")
    loaded = plant(file)
    expose(file, change, monkeypatch)
    renew(monkeypatch)
    assert same(adamw.update(*arguments()), adamw.by_definition(*arguments()))
    reason = "the library cannot be loaded" if change == "link" else "the cached library is not private"
    assert adamw.KERNEL.in_use == f"torch ({reason})"
    assert not loaded.exists()
    (line,) = [record.getMessage() for record in caplog.records]
    print(line)
    assert line.startswith(f"kernel adamw: {reason} (")
    assert str(file.parent) in line


@pytest.mark.parametrize("umask", [0o002, 0o000, 0o077])
def test_15_1_our_own_cache_is_private_under_any_umask(
    cache: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    before = os.umask(umask)
    try:
        first = adamw.KERNEL.in_use
        renew(monkeypatch)
        assert adamw.KERNEL.in_use == first
    finally:
        os.umask(before)
    assert len(first) == 16
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_15_1_options_of_a_compiler_leave_nothing_to_later_runs(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", "cc -ffast-math")
    odd = native.in_use()
    tiny = torch.tensor(1e-40)
    assert tiny * 1 > 0  # the option's flag of the processor has not reached this thread
    left = set(cache.iterdir())
    monkeypatch.delenv("CC")
    renew(monkeypatch)
    usual = native.in_use()
    assert odd["token_block"] == "torch (the library differs from the definition)"
    assert [record.getMessage() for record in caplog.records] == [
        "kernel token_block: the library differs from the definition (compiled by cc -ffast-math); "
        "torch computes it, slower"
    ]
    assert all(len(each) == 16 for each in usual.values())
    assert odd["adamw"] != usual["adamw"]
    assert len(set(cache.iterdir()) - left) == len(KERNELS)


MUTANTS = {
    "adamw": [
        ("0.1f *", "0.10001f *"), ("0.999f", "0.99901f"), ("0.001f", "0.00101f"), ("keep * w[i]", "w[i]"),
        ("sqrtf(v[i])", "v[i]"), ("+ epsilon", ""), ("at += sizes[part++]", "part++"), ("- scale", "+ scale"),
        ("i < weights", "i < weights - 1"),
    ],
    "token_block": [
        ("5.5504109e-2f", "5.4e-2f"), ("-126", "-2"), ("SELU_SCALE 1.0507009", "SELU_SCALE 1.0508"),
        ("#define SELU_BELOW 1.758", "#define SELU_BELOW 1.759"), ("0.99999500003749969f", "1.001f"),
        ("times(constant(M_LN2), dkey[j])", "dkey[j]"), ("share[j] - largest", "share[j]"),
        ("if (w->gate) outer", "if (!w->gate) outer"), ("larger(vector x, vector y) {", "larger(vector y, vector x) {"),
        ("vector scale = 1 / sum;", "vector scale = 1 / largest;"), ("norms[i][3] += d->inner[c];", ""),
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), [(name, change) for name in MUTANTS for change in MUTANTS[name]])
def test_15_1_a_kernel_that_differs_from_its_definition_is_not_used(
    tmp_path: Path, name: str, change: tuple[str, str]
) -> None:
    kernel = KERNELS[name].KERNEL
    text = kernel.source.read_text()
    assert change[0] in text
    source = tmp_path / kernel.source.name
    source.write_text(text.replace(*change))
    mutant = Kernel(source, kernel.compare)
    assert mutant.in_use == "torch (the library differs from the definition)"
    assert mutant.functions is None


def test_15_1_a_disagreement_is_computed_by_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "adamw.c"
    source.write_text(adamw.KERNEL.source.read_text().replace(*MUTANTS["adamw"][0]))
    monkeypatch.setattr(adamw, "KERNEL", Kernel(source, adamw.KERNEL.compare))
    for _ in range(3):
        assert same(adamw.update(*arguments()), adamw.by_definition(*arguments()))
    assert len(caplog.records) == 1


def test_15_1_the_comparison_leaves_draws_and_traces_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is first needed inside a traced step, so that the comparison happens there."""
    from bench.train.trace.capture import Captured

    def operations() -> int:
        return Captured(lambda *each: list(adamw.update(*each)), *arguments()).operations

    first, again = operations(), operations()
    assert adamw.KERNEL.functions is not None
    assert first == again
    torch.manual_seed(5)
    before = torch.get_rng_state()
    renew(monkeypatch)
    native.in_use()
    assert torch.equal(torch.get_rng_state(), before)


def trained(folder: Path, name: str) -> Store:
    file, store = folder / "study.toml", Store(folder / name)
    file.write_text(STUDY)
    run_study(spec.read(file), store)
    return store


@pytest.mark.slow
def test_15_1_damage_changes_no_record(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = contents(trained(tmp_path, "runs"))
    for number in range(2):
        for file in cache.glob("*.so"):
            content = file.read_bytes()
            flip(file, random.Random(number).randrange(8 * len(content)), content)
        renew(monkeypatch)
        assert contents(trained(tmp_path, f"runs {number}")) == expected


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [("none", "no compiler"), ("false", "the compiler fails"), ("cc", None)],
)
def test_15_1_the_cost_line_says_when_torch_computes_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, reason: str | None
) -> None:
    monkeypatch.setenv("CC", compiler)
    (found,) = [cost["machine"] for cost in trained(tmp_path, "runs").costs()]
    print(found)
    assert found.startswith(machine.name())
    if reason:
        assert f", adamw: torch ({reason})" in found
    else:
        assert found == machine.name()


def test_15_1_a_cache_that_cannot_be_written_costs_no_kernel(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = adamw.KERNEL.in_use
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "a file"))
    assert cache_folder().is_file()
    renew(monkeypatch)
    assert adamw.KERNEL.in_use == first
