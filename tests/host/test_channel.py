"""The FIFO pair, with the compiler's side played by plain descriptors."""

import os
import stat
import threading

import pytest

from mlgo.errors import ChannelError
from mlgo.host.conversation import Channel


@pytest.fixture
def channel(tmp_path):
    with Channel(tmp_path) as channel:
        yield channel


def test_both_fifos_exist_and_are_private(channel, tmp_path):
    for name in ("channel.in", "channel.out"):
        mode = (tmp_path / name).stat().st_mode
        assert stat.S_ISFIFO(mode)
        assert stat.S_IMODE(mode) == 0o600
    assert channel.base == tmp_path / "channel"
    assert not channel.read()  # nothing before the compiler opens
    assert not any(map(os.get_inheritable, (channel.out_fd, channel._in_fd)))
    with pytest.raises(FileExistsError):
        Channel(tmp_path)


def test_talk_in_the_compilers_order(channel, tmp_path):
    # The compiler blocks in each open until the other side is there; here it must not block at all.
    opened = []

    def open_as_clang_does():
        opened.append(os.open(tmp_path / "channel.in", os.O_RDONLY))
        opened.append(os.open(tmp_path / "channel.out", os.O_WRONLY))

    thread = threading.Thread(target=open_as_clang_does, daemon=True)
    thread.start()
    thread.join(5.0)
    assert not thread.is_alive()
    inbound, outbound = opened
    assert channel.read() is None
    os.write(outbound, b"question")
    assert channel.read() == b"question"
    assert channel.read() is None
    channel.answer(b"answer")
    assert os.read(inbound, 100) == b"answer"
    os.close(outbound)
    assert channel.read() == b""
    os.close(inbound)


def test_an_unread_pipe_is_an_error_and_not_a_hang(channel):
    with pytest.raises(ChannelError, match="does not read"):
        for _ in range(100_000):
            channel.answer(bytes(8))


def test_answers_survive_the_compilers_end_of_reading(channel, tmp_path):
    inbound = os.open(tmp_path / "channel.in", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):  # no end of file
        os.read(inbound, 1)
    os.close(inbound)
    channel.answer(bytes(8))  # no SIGPIPE, no BrokenPipeError: this side holds both ends


def test_surplus_stays_readable(channel, tmp_path):
    outbound = os.open(tmp_path / "channel.out", os.O_WRONLY)
    os.write(outbound, b"x" * 60_000)
    os.close(outbound)
    data = b""
    while piece := channel.read():
        data += piece
    assert data == b"x" * 60_000


@pytest.mark.parametrize("is_removed", [False, True])
def test_closing_twice_and_removal(is_removed, tmp_path):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    channel = Channel(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before + 2  # noqa: PTH208
    for name in ("channel.in", "channel.out") if is_removed else ():
        (tmp_path / name).unlink()
    channel.close()
    channel.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert list(tmp_path.iterdir()) == []
