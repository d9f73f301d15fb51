"""Tests that send SIGINT reach processes that take it, however the tests were started."""

import signal
import subprocess

import pytest


def test_a_process_of_a_test_does_not_ignore_interrupts():
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    (ignored,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:")]
    assert not ignored & 1 << signal.SIGINT - 1


def test_this_process_takes_an_interrupt():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
