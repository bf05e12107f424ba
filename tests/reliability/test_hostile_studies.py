"""Hostile studies and surroundings: one line on standard error, a status other than 0, and nothing written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bench.limits import MAX_MESSAGE, MAX_METHODS
from bench.spec import read
from bench.sweep.runner import Runner
from bench.sweep.study import run_batches
from bench.types import SilobenchError
from tests.reliability.hostile_studies import CASES, STUDY

LINES = STUDY.splitlines()
VALUES = st.one_of(
    st.sampled_from(["nan", "-inf", "1e308", "-1", "0", str(2**63), str(10**18), "true", '""', '"x"', "[]", "{}",
                     "[[1]]", '{ from = "seed" }', "1979-05-27", '"{data}"', '"../x"', "[1, 1]"]),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=20).map(lambda text: f"'{text}'"),
)  # fmt: skip


@pytest.fixture
def untrained(monkeypatch):
    """Refuse to train: a hostile study must be refused before."""

    def train(*_):
        raise AssertionError("a hostile study was trained")

    monkeypatch.setattr(Runner, "train", train)


def refused(command, folder: Path, content: str | bytes) -> tuple[bool, str]:
    """Run a study as a user does; return whether it ended as it must, and what was on standard error."""
    study = folder / "study.toml"
    study.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(folder.rglob("*"))
    status, out, err = command("sweep", study, "--store", folder / "a/store", "--out", folder / "a/out", "--quiet")
    right = status == 2 and not out and sorted(folder.rglob("*")) == before
    one_line = err.startswith("error: ") and err.count("\n") == 1 and len(err) <= MAX_MESSAGE + len("error: \n")
    return right and one_line, err


def test_15_5_hostile_studies_end_with_one_line_and_write_nothing(silobench, untrained, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path.with_name("cache")))
    bad = {}
    for name, (content, said) in CASES.items():
        right, err = refused(silobench, tmp_path, content)
        if not (right and said in err):
            bad[name] = err
    print(f"\n15.5: {len(CASES) - len(bad)} of {len(CASES)} hostile studies ended with one line, nothing was written")
    assert bad == {}


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "missing", "large"])
def test_15_5_what_is_no_study_file_is_one_line(silobench, tmp_path, kind):
    place = Path("/dev/zero") if kind == "device" else tmp_path / "study.toml"
    match kind:
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
        case "large":
            with place.open("wb") as file:
                file.truncate(5 * 2**30)  # a sparse file
    status, out, err = silobench("plan", place)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {place}: ")


@pytest.mark.parametrize("option", ["--store", "--out"])
def test_15_5_a_file_in_place_of_a_folder_is_one_line(silobench, tmp_path, option):
    (tmp_path / "file").touch()
    (tmp_path / "study.toml").write_text(STUDY)
    assert silobench("sweep", "study.toml", option, "file") == (
        2, "", "error: file: is a file, expected a folder; name another one\n"
    )  # fmt: skip


@pytest.mark.slow
def test_15_5_few_open_files_are_one_line(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    done = subprocess.run(
        [sys.executable, "-m", "bench", "sweep", "study.toml", "--quiet", "-w4"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)),
    )  # fmt: skip
    print(f"\n15.5: with 9 open files: status {done.returncode}, {done.stderr.strip()!r}")
    assert done.returncode == 2
    assert done.stderr.startswith("error: OSError: [Errno 24] Too many open files (bench/")
    assert done.stderr.endswith("allow more open files with `ulimit -n 1024`\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_15_5_an_output_that_nobody_reads_is_silent():
    command = [sys.executable, "-m", "bench", "list", "tables", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)


def test_15_5_an_unknown_home_is_one_line(silobench, monkeypatch, tmp_path):
    """The home folder is unknown if HOME is unset and the user has no entry in the list of users."""
    monkeypatch.setenv("HOME", "~")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.delenv("BENCH_CACHE", raising=False)
    (tmp_path / "study.toml").write_text(STUDY)
    status, out, err = silobench("plan", "study.toml")
    assert (status, out) == (2, "")
    assert err.startswith("error: BENCH_CACHE = '~/.cache/silobench': is no path on this machine")
    assert err.count("\n") == 1


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(line=st.integers(0, len(LINES) - 1), place=st.integers(0, 40), cut=st.integers(0, 5), text=st.text(max_size=8))
@example(line=0, place=0, cut=0, text="[" * 40)
def test_15_5_a_changed_text_is_read_or_refused(line, place, cut, text, tmp_path):
    lines = list(LINES)
    lines[line] = lines[line][:place] + text + lines[line][place + cut :]
    _read_or_refused(tmp_path / "study.toml", "\n".join(lines))


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(line=st.integers(0, len(LINES) - 1), value=VALUES)
def test_15_5_a_changed_value_is_read_or_refused(line, value, tmp_path):
    lines = list(LINES)
    key, equals, _ = lines[line].partition(" = ")
    lines[line] = f"{key}{equals}{value}" if equals else f"{key}\nlabel = {value}"
    _read_or_refused(tmp_path / "study.toml", "\n".join(lines))


def _read_or_refused(file: Path, content: str) -> None:
    """Read and plan a study; raise for every error but one that the user can fix, in one line."""
    file.write_bytes(content.encode(errors="surrogatepass"))
    with suppress(SilobenchError):
        run_batches(read(file), {})


@pytest.mark.slow
def test_15_5_ten_thousand_methods_are_planned(silobench, tmp_path, monkeypatch):
    """Ten thousand models of different widths, the slowest case known: nothing of it may be quadratic."""
    methods = "".join(
        f'[methods.m{i}]\nalgorithm = "fedavg"\nmodel = {{ name = "mlp", hidden = {i + 1} }}\nfixed.lr = 0.1\n'
        for i in range(MAX_METHODS)
    )
    (tmp_path / "study.toml").write_text(STUDY.partition("[methods")[0] + methods)
    begun = time.process_time()
    status, out, err = silobench("plan", "study.toml")
    took = time.process_time() - begun
    print(f"\n15.5: {MAX_METHODS:,} methods planned in {took:.0f} s of processor time")
    assert (status, err) == (0, "")
    assert "runs         10,000" in out
