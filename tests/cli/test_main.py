"""The command `silobench`: start-up, help, version, and one line for every wrong call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from bench import __version__
from bench.cli import main

GROUP: Any = typer.main.get_command(main.app)
COMMANDS = GROUP.commands


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["list", "algorithms"], ["list", "tables", "--json"], ["data", "list"], ["data", "info", "mnist"]],
)
def test_starting_imports_nothing_slow(arguments):
    code = (
        "import atexit, sys; from bench.cli.main import main\n"
        "slow = {'torch', 'numpy', 'pandas', 'scipy', 'sklearn', 'matplotlib', 'jinja2', 'pooch'}\n"
        "atexit.register(lambda: print(slow & sys.modules.keys(), file=sys.stderr))\n"
        "main()"
    )
    # A first call may fill the registry's cache, for which it imports torch.
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_commands_and_examples(command, option):
    status, out, _ = command(option)
    assert status == 0
    listed = [out.index(f" {name} ") for name in ("list", "plan", "sweep", "reproduce-table", "audit")]
    assert listed == sorted(listed)
    assert "silobench list tables --ready" in out
    assert "--install-completion" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_for_itself_and_its_options(name):
    for each in getattr(COMMANDS[name], "commands", {name: COMMANDS[name]}).values():
        assert each.help
        assert all(getattr(parameter, "help", None) for parameter in each.params)


def test_every_example_can_be_parsed():
    for commands in main.COMMANDS.values():
        for name, _, example in commands:
            program, called, *arguments = example.split()
            assert (program, called) == ("silobench", name)
            COMMANDS[name].make_context(name, arguments)


def test_the_version_is_printed(command):
    assert command("--version") == (0, f"silobench {__version__}\n", "")


def test_the_package_can_be_run():
    done = subprocess.run([sys.executable, "-m", "bench", "--version"], capture_output=True, text=True)
    assert done.stdout == f"silobench {__version__}\n"


def test_completion_is_printed_for_the_shell(command, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    status, out, _ = command("--show-completion", "bash")
    assert status == 0
    assert "silobench" in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["lst"], "silobench: No such command 'lst'. Did you mean 'list'? See `silobench --help`."),
        (["reproduce-tabel"], "silobench: No such command 'reproduce-tabel'. Did you mean 'reproduce-table'"),
        (["data", "prepar"], "silobench data: No such command 'prepar'. Did you mean 'prepare'?"),
        (["sweep"], "silobench sweep: Missing argument 'study'"),
        (["sweep", "a.toml", "--wrkers", "3"], "silobench sweep: No such option: --wrkers"),
        (["list", "tabels"], "silobench list: Invalid value for 'kind': 'tabels' is not one of"),
        (["sweep", "a.toml", "-w", "-1"], "silobench sweep: Invalid value for '--workers'"),
        (["sweep", "a.toml", "--address", "auto"], "--address: only used with a Ray cluster; add --executor ray"),
    ],
)
def test_a_wrong_call_is_one_line_and_exits_2(silobench, arguments, expected):
    status, out, err = silobench(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {expected}")
    assert err.count("\n") == 1


def test_without_a_command_help_is_printed(command):
    status, out, err = command()
    assert status == 2
    assert "reproduce-table" in out + err
    assert "error" not in err


def test_a_folder_that_cannot_be_written_is_one_line(silobench, tmp_path):
    (tmp_path / "file").write_text("")
    status, out, err = silobench("data", "plot", "digits", "--out", "file/below")
    assert (status, out) == (2, "")
    assert err == "error: file/below: Not a directory\n"
