"""Options of commands that train, and stopping them by a signal."""

from __future__ import annotations

import os
import signal

import pytest

from bench.cli.progress import View
from bench.cli.training import TrainingOptions, with_training_options
from bench.reproduce import Folders


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, View.AUTO), ({"progress": View.LIVE}, View.LIVE), ({"json": True, "progress": View.LIVE}, View.JSON),
     ({"json": True, "quiet": True}, View.QUIET)],
)  # fmt: skip
def test_quiet_comes_before_json_and_both_before_progress(given, expected):
    assert TrainingOptions(**given).view is expected


def test_a_command_gets_an_option_for_every_field():
    asked = []

    def command(study: str, *, training: TrainingOptions) -> None:
        asked.append((study, training))

    with_training_options(command)(study="a", **vars(TrainingOptions(workers=3)))
    assert asked == [("a", TrainingOptions(workers=3))]


def test_the_first_signal_asks_to_stop_and_the_second_stops(tmp_path, capsys):
    before = signal.getsignal(signal.SIGTERM)
    with TrainingOptions(quiet=True).runners(Folders(tmp_path, tmp_path, None))() as runner:
        os.kill(os.getpid(), signal.SIGTERM)
        assert runner.stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    expected = "Finishing the current run batches. Press Ctrl-C again to stop immediately.\n"
    assert capsys.readouterr().err == expected
    assert signal.getsignal(signal.SIGTERM) == before
