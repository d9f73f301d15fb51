"""Run all hostile inputs and print what was found, by kind; ends with 1 unless nothing was.

python -m tests.hostile.fuzz --jobs 2
python -m tests.hostile.fuzz --only 'A-recipe*' --verbose
MLGO_HOSTILE_CHECKOUT=../older python -m tests.hostile.fuzz
"""

import argparse
import fnmatch
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tqdm import tqdm

from tests.hostile.harness import FAULTS, Input, Outcome, World
from tests.hostile.inputs import all_inputs, bounded
from tests.hostile.world import make_world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="*", help="pattern of KIND-SURFACE-NAME")
    parser.add_argument("--bounded", action="store_true", help="only those that make test runs")
    parser.add_argument("--verbose", action="store_true", help="print what each says")
    args = parser.parse_args()
    chosen = [one for one in all_inputs() if fnmatch.fnmatchcase(one.key, args.only)]
    chosen = bounded(chosen) if args.bounded else chosen
    faults: dict[str, Counter[str]] = defaultdict(Counter)
    skipped, slowest, begin = 0, [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mlgo-hostile-") as folder:
        worlds: SimpleQueue[World] = SimpleQueue()
        for number in range(args.jobs):
            worlds.put(make_world(Path(folder) / str(number)))

        def run(one: Input) -> tuple[list[tuple[str, str]], Outcome | None]:
            world = worlds.get()
            try:
                if one.needs_plugins and not world.clang:
                    return [], None
                return world.judge(one)
            finally:
                worlds.put(world)

        with ThreadPoolExecutor(args.jobs) as pool:
            answers = tqdm(pool.map(run, chosen), "inputs", len(chosen), disable=None)
            for one, (found, outcome) in zip(chosen, answers, strict=True):
                if outcome is None:
                    skipped += 1
                    continue
                faults[one.kind]["inputs"] += 1
                slowest.append((outcome.cpu, one.key))
                for fault in {fault for fault, _ in found}:
                    faults[one.kind][fault] += 1
                for fault, what in dict(reversed(found)).items():
                    print(f"{one.key}: {fault}: {what}", flush=True)
                if args.verbose:
                    print(
                        f"{one.key}: status {outcome.status}, {outcome.cpu:.1f} s: {outcome.text.strip()[-300:]}",
                        flush=True,
                    )
        while not worlds.empty():
            worlds.get().server.close()
    print("kind  inputs  " + "  ".join(FAULTS))
    for kind, counts in sorted({**faults, "all": sum(faults.values(), Counter())}.items()):
        print(f"{kind:<4}  {counts['inputs']:>6}  " + "  ".join(f"{counts[name]:>{len(name)}}" for name in FAULTS))
    print(f"{skipped} inputs skipped as no clang loads plug-ins; {time.monotonic() - begin:.0f} s")
    print(f"{sum(cpu for cpu, _ in slowest):.0f} s of processor time, most of it in:")
    print("\n".join(f"{cpu:7.1f} s  {name}" for cpu, name in sorted(slowest)[-12:]))
    return int(any(count for counts in faults.values() for name, count in counts.items() if name != "inputs"))


if __name__ == "__main__":
    sys.exit(main())
