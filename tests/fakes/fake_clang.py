"""A compiler that does what its input file says, over real FIFOs; only for what a real one cannot be made to do.

The input file (after ``-x ir``) is a JSON list of steps, done in order; then it exits with status 0. Steps:

    ["open"]            open the channel in clang's order: .in for reading, then .out for writing
    ["send", text]      write text (latin-1: one character, one byte) to the channel
    ["answer"]          read one answer of 8 bytes from the channel
    ["log_answers", f]  write all answers so far to a file
    ["close"]           close the channel
    ["stderr", n, text] write text n times to stderr
    ["flood_stderr"]    write to stderr for ever
    ["flood_questions"] ask for ever
    ["chatter", s]      write one line to stderr every s seconds for ever
    ["object", text]    write the object file (latin-1)
    ["spawn"]           start a grandchild that sleeps and ignores us
    ["exit", n]         exit with a status
    ["kill", n]         end by a signal
    ["hang"]            do nothing for ever
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def read_exactly(fd: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(fd, count - len(data))
    return data


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main() -> None:
    arguments = sys.argv[1:]
    output = arguments[arguments.index("-o") + 1]
    base = next((a.partition("=")[2] for a in arguments if a.startswith("-inliner-interactive-channel-base=")), "")
    steps = json.loads(Path(arguments[arguments.index("ir") + 1]).read_text())
    answers = b""
    inbound = outbound = -1
    for name, *values in steps:
        if name == "open":
            inbound = os.open(base + ".in", os.O_RDONLY)
            outbound = os.open(base + ".out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        elif name == "send":
            write_all(outbound, values[0].encode("latin-1"))
        elif name == "answer":
            answers += read_exactly(inbound, 8)
        elif name == "log_answers":
            Path(values[0]).write_bytes(answers)
        elif name == "close":
            os.close(inbound)
            os.close(outbound)
        elif name == "stderr":
            count, text = values
            block = text.encode() * max(1, 65536 // len(text))
            whole, rest = divmod(count * len(text), len(block))
            for _ in range(whole):
                write_all(2, block)
            write_all(2, block[:rest])
        elif name == "flood_stderr":
            while True:
                write_all(2, b"noise\n" * 10000)
        elif name == "flood_questions":
            number = 0
            while True:
                write_all(outbound, b'{"observation":%d}\n%b\n' % (number, bytes(16)))
                read_exactly(inbound, 8)
                number += 1
        elif name == "chatter":
            while True:
                write_all(2, b"still here\n")
                time.sleep(values[0])
        elif name == "object":
            Path(output).write_bytes(values[0].encode("latin-1"))
        elif name == "spawn":
            subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
        elif name == "exit":
            os._exit(values[0])
        elif name == "kill":
            os.kill(os.getpid(), values[0])
        elif name == "hang":
            time.sleep(600)
        else:
            raise SystemExit(f"unknown step {name}")
    os._exit(0)


main()
