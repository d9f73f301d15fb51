"""A SuperPMI that replays a small JSON file instead of recorded methods; output as published, of what clients ask for.

    superpmi libclrjit.so collection.mch -v q [-jitoption force KEY=VALUE]... [-streaming stdin]

Command line, streaming, look-up of options, exit codes and lines of output follow src/coreclr/tools/superpmi and
src/coreclr/jit/{optcse,codegencommon,utils}.cpp of dotnet/runtime. Standard library only, in one file, so that it
starts in no time. The collection is a JSON object, or a file of recorded methods whose first holds one (see `record`):

    methods          list; method 1 is the first. Each has: name, hash, tier, base_score, base_bytes, heuristic (what
                     the built-in heuristic performs, from 0), candidates (features, score, bytes: what performing it
                     adds), pairs ([a, b, score]: what performing both adds; optional), recorded (options it was
                     recorded with; optional)
    feature_names    names of features; the 19 of the JIT when absent
    jit              checked, release (knows no options), no_hook (older than the hook) or wrong_version
    old_form         true: the first form of streaming, whose last line has no status
    start_s          seconds that loading takes
    log              file to which each start and each line read is appended
    faults           list of [index, occurrence, what, value]: what happens at the n-th request (0: at each) for a
                     method, counted over all processes by the log. See `Replay.fail`.
"""

import json
import os
import re
import resource
import signal
import struct
import sys
import time
from pathlib import Path

FEATURES = [
    "type",
    "viable",
    "live_across_call",
    "const",
    "shared_const",
    "make_cse",
    "has_call",
    "containable",
    "cost_ex",
    "cost_sz",
    "use_count",
    "def_count",
    "use_wt_cnt",
    "def_wt_cnt",
    "distinct_locals",
    "local_occurrences",
    "bb_count",
    "block_spread",
    "enreg_count",
]
VIABLE = 1
HEURISTIC = "Standard CSE Heuristic"
LINE_BYTES = 2048


def perf_score(method: dict, performed: list[int]) -> float:
    """Cost of a method with some candidates performed, in hundredths as it is printed; order does not matter."""
    chosen = set(performed)
    score = method["base_score"] + sum(method["candidates"][i]["score"] for i in chosen)
    score += sum(extra for a, b, extra in method.get("pairs", []) if a in chosen and b in chosen)
    return round(max(score, 0.0), 2)


def code_bytes(method: dict, performed: list[int]) -> int:
    return method["base_bytes"] + sum(method["candidates"][i]["bytes"] for i in set(performed))


def performable(method: dict, decisions: list[int]) -> list[int]:
    """Decisions without those that the hook skips: out of range, not viable, or done already."""
    performed = []
    for decision in decisions:
        exists = 0 <= decision < len(method["candidates"])
        if exists and method["candidates"][decision]["features"][VIABLE] and decision not in performed:
            performed.append(decision)
    return performed


def record(data: dict) -> bytes:
    """A collection as SuperPMI's: of each method a mark, its length, what was recorded, and two bytes at its end."""
    first = json.dumps(data).encode()
    return b"".join(
        b"mc" + struct.pack("<I", len(one)) + one + b"42" for one in (first, *[b""] * (len(data["methods"]) - 1))
    )


def join(numbers) -> str:
    return ",".join(map(str, numbers))


def format_metrics(
    *,
    index: int,
    name: str,
    tier: str,
    method_hash: str,
    perf_score: float,
    code_bytes: int,
    prolog_bytes: int,
    instruction_count: int,
    allocated_bytes: int,
    num_cse: int,
    num_candidates: int,
    decider: str,
) -> str:
    """The line of metrics; ``decider`` is the part of `format_hook` or `format_heuristic`, or empty."""
    return (
        f"; Total bytes of code {code_bytes}, prolog size {prolog_bytes}, PerfScore {perf_score:.2f}, "
        f"instruction count {instruction_count}, allocated bytes for code {allocated_bytes}, "
        f"num cse {num_cse} num cand {num_candidates}{decider} "
        f"spmi index {index} (MethodHash={method_hash}) for method {name} ({tier})"
    )


def format_heuristic(name: str, performed: list[int] | None) -> str:
    """Part of all heuristics but the hook: counted from 1, ended by 0; None without anything to choose from."""
    return f" {name} seq {'' if performed is None else join([*(i + 1 for i in performed), 0])}"


def format_hook(names: list[str], rows: list[tuple[int, list[int]]], decisions: list[int]) -> str:
    """Part of the hook: names when asked for, each candidate's number and features, decisions as they were given."""
    text = f" featureNames {','.join(names)}" if names else ""
    text += "".join(f" features #{number},{join(values)}" for number, values in rows)
    return text + (f" seq {join(decisions)}" if decisions else "")


class Replay:
    def __init__(self, arguments: list[str]) -> None:
        jit, collection, *options = arguments
        self.jit, self.collection = Path(jit), Path(collection)
        self.forced: dict[str, str] = {}
        self.streaming = False
        self.seen: dict[int, int] = {}
        words = iter(options)
        for word in words:
            value = next(words)
            if (word, value) == ("-jitoption", "force"):
                key, _, self.forced[key] = next(words).partition("=")
            elif (word, value) == ("-streaming", "stdin"):
                self.streaming = True
            elif (word, value) != ("-v", "q"):  # metrics alone are printed
                raise SystemExit(f"unknown argument {word} {value}")

    def say(self, text: str, end: str = "\n") -> None:
        sys.stdout.write(text + end)
        sys.stdout.flush()

    def run(self) -> int:
        try:
            data = self.collection.read_bytes()
            self.data = json.loads(data[6 : 6 + struct.unpack_from("<I", data, 2)[0]] if data[:2] == b"mc" else data)
        except (OSError, ValueError, struct.error):
            return 255
        self.log("start")
        time.sleep(self.data.get("start_s", 0))
        if self.streaming:
            return self.stream()
        return self.batch() if self.loads_jit() else 254

    def loads_jit(self) -> bool:
        return self.jit.exists() and self.data.get("jit") != "wrong_version"

    def log(self, text: str) -> None:
        if self.data.get("log"):
            with Path(self.data["log"]).open("a") as file:
                file.write(text + "\n")

    def stream(self) -> int:
        """Answer requests one by one; options are read first, then the method is looked up, then the JIT is loaded."""
        loaded = False
        while line := sys.stdin.buffer.readline(LINE_BYTES - 1):
            text = line.decode(errors="replace").rstrip("\r\n")
            self.log(f"> {text}")
            number, *options = text.split("!")
            match = re.match(r"\s*([+-]?\d+)", number)
            index = int(match[1]) if match else 0
            if index == 0:
                return 0
            if not 1 <= index <= len(self.data["methods"]):
                if Path(f"{self.collection}.mct").exists() or not self.data["methods"]:
                    return 255
                os.kill(os.getpid(), signal.SIGSEGV)  # the end of the file is parsed as a method
            if not loaded and not self.loads_jit():
                return 254
            loaded = True
            self.reply(index, dict(option.split("=", 1) for option in options))
        return 0

    def reply(self, index: int, options: dict[str, str]) -> None:
        # Options of the command line are forced by the map of the request's own, and win; without any there is none.
        line = self.metrics_line(index, {**options, **self.forced} if options else {})
        status = 0
        for what, value in self.faults(index):
            line, status = self.fail(what, value, line, status)
        if line and status == 0:
            self.say(line)
        if self.data.get("old_form"):
            self.say("[streaming] Done.")
            if status == 1:
                raise SystemExit(1)
        else:
            self.say(f"[streaming] Done. Status={status}")

    def batch(self) -> int:
        failed = missing = 0
        for index in range(1, len(self.data["methods"]) + 1):
            line, status = self.metrics_line(index, self.forced), 0
            for what, value in self.faults(index):
                line, status = self.fail(what, value, line, status)
            failed += status == 1
            missing += status == 2
            if line and status == 0:
                self.say(line)
        return 1 if failed else 3 if missing else self.data.get("exit", 0)

    def option(self, key: str, method: dict, forced: dict[str, str]) -> str | None:
        """Look-up: forced ones; what was recorded; the environment."""
        if self.data.get("jit") == "release":
            return None
        for options in (forced, method.get("recorded", {})):
            if key in options:
                return options[key]
        return os.environ.get(f"DOTNET_{key}", os.environ.get(f"COMPlus_{key}"))

    def integer(self, key: str, method: dict, forced: dict[str, str]) -> int:
        try:
            return int(self.option(key, method, forced) or "0", 16)
        except ValueError:
            return 0

    def metrics_line(self, index: int, forced: dict[str, str]) -> str:
        """The line of a method, or nothing when it is not asked for."""
        method = self.data["methods"][index - 1]
        if not self.integer("JitMetrics", method, forced):
            return ""
        has_phase = method["tier"] not in ("Tier0", "Instrumented Tier0", "MinOpts")
        candidates = method["candidates"] if has_phase else []
        performed = []
        if self.integer("JitRLHook", method, forced) > 0 and self.data.get("jit") != "no_hook":
            listed = self.option("JitRLHookCSEDecisions", method, forced) or ""
            decisions = [int(one) for one in listed.split(",") if one]
            wants_names = self.integer("JitRLHookEmitFeatureNames", method, forced) > 0
            names = self.data.get("feature_names", FEATURES) if wants_names else []
            decider = format_hook(names, [(i + 1, one["features"]) for i, one in enumerate(candidates)], decisions)
            if has_phase:
                performed = performable(method, decisions)
            elif not decisions:
                decider += " seq "
        else:
            if candidates:
                performed = performable(method, method["heuristic"])
            decider = format_heuristic(HEURISTIC, performed if candidates else None)
        size = code_bytes(method, performed)
        return format_metrics(
            index=index,
            name=method["name"],
            tier=method["tier"],
            method_hash=method["hash"],
            perf_score=perf_score(method, performed),
            code_bytes=size,
            prolog_bytes=method.get("prolog_bytes", 15),
            instruction_count=method.get("instruction_count", size * 3 // 10),
            allocated_bytes=size,
            num_cse=len(performed),
            num_candidates=len(candidates),
            decider=decider,
        )

    def faults(self, index: int) -> list[tuple[str, object]]:
        """What shall go wrong now. The n-th request is the n-th over all processes that share the log."""
        if not self.data.get("faults"):
            return []
        self.log(f"method {index}")
        self.seen[index] = self.seen.get(index, 0) + 1
        count = self.seen[index]
        if self.data.get("log"):
            count = Path(self.data["log"]).read_text().splitlines().count(f"method {index}")
        return [(what, value) for at, n, what, value in self.data["faults"] if at == index and n in (0, count)]

    def fail(self, what: str, value: object, line: str, status: int) -> tuple[str, int]:
        """Do what a fault says; return the line and the status of the reply that follows."""
        if what == "jit_error":
            return "", 1
        if what == "missing_data":
            return "", 2
        if what == "no_metrics":
            return "", status
        if what == "exit":  # before any output
            os._exit(value)
        if what == "kill":
            os.kill(os.getpid(), value)
        if what == "half_line":  # and then crash
            self.say(line[: len(line) // 2], end="")
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "no_done":
            self.say(line)
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "say":
            self.say(value, end="")
        elif what == "replace":  # a part of the line
            line = re.sub(value[0], value[1], line, count=1)
        elif what == "twice":
            self.say(line)
        elif what == "hang":
            if value:
                import subprocess  # here, to start fast

                subprocess.Popen(["sleep", str(value)], stdin=subprocess.DEVNULL)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        elif what == "late":
            time.sleep(value)
        elif what == "stderr":
            sys.stderr.write("noise\n" * (value // 6))
            sys.stderr.flush()
        elif what == "exit_later":  # after the reply
            import subprocess

            subprocess.Popen(["sh", "-c", f"sleep {value}; kill -9 {os.getpid()}"], stdin=subprocess.DEVNULL)
        elif what == "linger":  # ends the stream, not the process
            os.close(1)
            time.sleep(600)
        else:
            raise SystemExit(f"unknown fault {what}")
        return line, status


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = Replay(sys.argv[1:]).run()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
