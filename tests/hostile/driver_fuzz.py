"""Build the parsers of the driver of `mlgo cc` with libFuzzer and sanitizers, and run them for some time.

python -m tests.hostile.driver_fuzz 600
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mlgo.deploy import drivers

_SEEDS = {
    "talk": b'\x01{"features":[{"name":"a","type":"int64_t","port":0,"shape":[1]},{"name":"c","type":"float","port":0,'
    b'"shape":[2,3]},{"name":"b","type":"int64_t","port":0,"shape":[1]}],"advice":{"name":"d","type":"int64_t","port":0,'
    b'"shape":[1]}}\n{"context":"x"}\n{"observation":0}\n' + b"x" * 40 + b"\n",
    "words": b'\x02-Oz\n-c\n-x\nc++\nfile.c\n-o\n"a\\ b"\n@\x01\n--coverage\n-E\n',
    "nested": b"\x02@\x01 @\x01 @\x01\n@\x01\n",
}
_ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
_FLAGS = ["-std=c++17", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]


def main() -> int:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    clang = shutil.which(os.environ.get("MLGO_PLUGIN_CLANG") or "clang-19") or shutil.which("clang")
    if clang is None:
        print("error: no clang is here; install clang-19 and libclang-rt-19-dev", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for name, data in _SEEDS.items():
            (corpus / name).write_bytes(data)
        Path(folder, "options.h").write_text(drivers.options_header())
        source, program = Path(__file__).with_suffix(".cpp"), Path(folder, "fuzz")
        command = [clang, "--driver-mode=g++", *_FLAGS, f"-I{folder}", f"-I{drivers._SOURCES}", source, "-o", program]
        subprocess.run(command, check=True)
        limits = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=4096", "-detect_leaks=0"]
        limits += [f"-artifact_prefix={Path.cwd()}/", "-print_final_stats=1"]
        run = subprocess.run([program, corpus, *limits], env=_ENVIRONMENT, check=False)
        return run.returncode


if __name__ == "__main__":
    sys.exit(main())
