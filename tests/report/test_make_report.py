"""The whole program on a made-up world."""

import io
import json
import re
import runpy
import signal
import subprocess
import sys
import warnings
from base64 import b64encode
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from pathlib import Path

import pytest

from mlgo.base.artifacts import FAILURES, PROGRAMS, write_rows
from mlgo.base.files import read_record
from tests.compare.conftest import make_world, shipped_rows

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_report.py"
OUTPUTS = ("report.html", "comparisons.json", "metrics.json", "learning.csv", "projects.csv", "ratios.csv")


def run_alone(world) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *world.arguments()]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run(world) -> subprocess.CompletedProcess[str]:
    """As `run_alone`, in this process, since the imports take longer than all else; a warning is an error."""
    command, output, errors = [str(SCRIPT), *world.arguments()], io.StringIO(), io.StringIO()
    terminate = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(sys, "argv", command)
        with redirect_stdout(output), redirect_stderr(errors), pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
    signal.signal(signal.SIGTERM, terminate)
    return subprocess.CompletedProcess(command, end.value.code, output.getvalue(), errors.getvalue())


def made(world, run=run) -> str:
    """The page without its scripts."""
    world.write()
    done = run(world)
    assert (done.returncode, done.stderr) == (0, "")
    page = (world.root / "report/report.html").read_text()
    return re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> tuple[Path, str]:
    """Folder and page of a world that no test changes."""
    world = make_world(tmp_path_factory.mktemp("world"), 6)
    return world.root, made(world, run_alone)


def write_programs(world, rows: list[dict], es: str = "cd" * 32) -> None:
    """Programs that ran under bc-s0 and these weights of es-s0; what is not said of a row is the same for all."""
    known = {"program": "p", "reads": 5, "writes": 5, "text_bytes": 9, "right": True, "failure": "", "message": ""}
    origin = {**world.origin, "policies_sha256": {"bc-s0": "cd" * 32, "es-s0": es}}
    path = world.root / "execution/programs.parquet"
    write_rows(path, [{**known, **row} for row in rows], PROGRAMS, origin)


def comparisons(root: Path) -> dict:
    return read_record(root / "report/comparisons.json")


def headline(page: str) -> list[str]:
    return re.findall(r'<p class="sentence">(.*?)</p>', page)


@pytest.mark.slow
def test_same_inputs_give_the_same_bytes(world):
    made(world)
    first = [(world.root / "report" / name).read_bytes() for name in OUTPUTS]
    assert run_alone(world).returncode == 0
    assert [(world.root / "report" / name).read_bytes() for name in OUTPUTS] == first


def test_page_stands_alone_and_tells_nothing_about_the_machine(plain):
    root, page = plain
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", page)
    assert "@import" not in page
    assert "url(" not in page
    whole = (root / "report/report.html").read_text()
    policy = re.search('<meta http-equiv="Content-Security-Policy" content="(.*?)">', whole)[1]
    scripts = re.findall(r"<script>(.*?)</script>", whole, re.DOTALL)
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    assert policy.replace("&#39;", "'").endswith(
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"
    )
    assert str(root) not in page
    assert str(Path.home()) + "/" not in page
    assert not re.search(r"<(script|img|iframe|link)[^>]*(src|href)=.https?:", whole)


def test_fewer_than_six_projects_allow_no_verdict(plain):
    root, page = plain
    assert headline(page) == [f"{name}: no verdict: 2 projects, six are needed" for name in ("bc-s0", "es-s0")]
    assert "makes the code smaller" not in page
    figures = comparisons(root)["test"]["es-s0"]
    assert (figures["text_verdict"], figures["text_num_tests"]) == ("no verdict", 0)
    assert "text_corrected_p" not in figures


def spread(world):
    """Every test module becomes a project of its own."""
    for row in (*world.modules, *world.scores, *world.results):
        if row["project"] in ("drill", "easel"):
            row["project"] += f"-{row['module']}".replace("/", "-")


def test_headline_follows_the_verdict(world):
    spread(world)
    page = made(world)
    assert headline(page) == [
        "bc-s0: no difference shown against the built-in heuristic",
        "es-s0 makes the code smaller than the built-in heuristic does",
    ]
    figures = comparisons(world.root)["test"]["es-s0"]
    assert (figures["text_p"], figures["text_corrected_p"]) == (0.0004883, 0.0009766)  # 2 / 2 ** 12, of two policies
    for row in world.results:  # nobody gains
        row["text_bytes"] = row["baseline_text_bytes"] + (1 if row["policy"] == "bc" else 0)
    page = made(world)
    assert "makes the code smaller" not in page
    assert headline(page)[0] == "bc-s0 makes the code larger than the built-in heuristic does"


def test_page_holds_all_sections(plain):
    _, page = plain
    for text in [
        "ziglang clang 22.1.8",
        "x86_64-linux-gnu",
        "1 duplicate",
        "BSD-3-Clause",
        "train/test 3 (70 instructions)",
        "It does for 30 of 30 modules.",
        "data/work/report/compile_time.html",
        "cd" * 32,
        *(f'id="figure-{name}"' for name in ("distribution", "scores", "projects", "features", "rewards", "losses")),
        "change in text against the heuristic",
        "predicts the answers of the heuristic",
    ]:
        assert text in page
    assert not re.search('id="(functions|programs)"', page)


def test_failures_are_shown_without_paths(world):
    row = next(row for row in world.results if row["split"] == "test")
    row.update(text_bytes=None, exec_bytes=None, dedup_bytes=None, num_questions=None, num_inlined=None, truncated=None)
    row.update(failure="exit", message="clang died on /tmp/secret/place/module.bc <&>")
    page = made(world)
    assert "clang died on module.bc &lt;&amp;&gt;" in page
    assert "/tmp/secret" not in page


def test_failures_in_training_are_shown(plain, world):
    assert "Failed compiles in training:</strong>\nnone." in plain[1]
    rows = [
        {"module": "anvil/a.c", "compiles": 20, "failures": 12, "reason": "timeout: no end", "quarantined": True},
        {"module": "anvil/b.c", "compiles": 20, "failures": 1, "reason": "exit: in /a/b/c.bc", "quarantined": False},
    ]
    write_rows(world.root / "policies/es-s0/failures.parquet", rows, FAILURES, {})
    page = made(world)
    assert re.search(r"training:</strong>\s*13, of\s*2 modules", page)
    assert "1 failed so often that training went on" in page
    assert "timeout: no end" in page
    assert "in c.bc" in page


def test_self_test_differences_are_listed(world):
    world.write()
    cause = "inlined 9 calls instead of 8; text 90 instead of 92 bytes"
    summary = {"modules": 30, "self_test_passed": 29, "self_test_failed": [{"module": "drill/x.cc", "cause": cause}]}
    (world.root / "baseline/summary.json").write_text(json.dumps(summary))
    assert run(world).returncode == 0
    page = (world.root / "report/report.html").read_text()
    assert "It does for 29 of 30 modules." in page
    assert cause in page


def test_metrics_and_compile_times(plain):
    root, _ = plain
    figures = comparisons(root)["test"]["es-s0"]
    assert figures["text_modules_smaller"] == 12
    metrics = json.loads((root / "report/metrics.json").read_text())
    assert metrics["test"]["es"]["projects_smaller"] == 2
    assert metrics["test"]["es"]["gain_percent"] == figures["text_geomean_gain_percent"]
    times = json.loads((root / "work/report/compile_time.json").read_text())
    assert (times["es-s0"]["median_ratio"], times["heuristic"]["num_modules"]) == (2.0, 30)
    assert "es-s0" in (root / "work/report/compile_time.html").read_text()


def test_features_that_decide(plain):
    _, page = plain
    section = page[page.index('id="features"') : page.index('id="training"')]
    (drawn,) = re.findall(r'"figure-features".*?<script type="application/json">(.*?)</script>', section, re.DOTALL)
    traces = json.loads(drawn)["data"]
    assert [one["name"] for one in traces] == ["bc-s0", "es-s0"]
    for one in traces:
        assert one["y"] == ["a", "b"]
        assert 35 < one["x"][0] < 65  # of 50 positive and 50 negative values, half change sides, give or take
        assert one["x"][1] == 0


def test_what_ships(plain):
    root, page = plain
    ships = section(page, "ships", "gains")
    # 2 % of 10,000 and 20,000 bytes of text, and of a tenth of that: 660 of 35,000.
    (total,) = re.findall(r'"left">es-s0</td><td class="left">in total</td>(.*?)</tr>', ships.replace("\n", ""))
    assert "2 programs of 2 projects" in total
    assert "+2.00\N{NO-BREAK SPACE}%" in total  # text, unwind tables
    assert "+1.89\N{NO-BREAK SPACE}%" in total
    assert total.count("0.00\N{NO-BREAK SPACE}%") >= 1  # constants
    assert "bin/drill" in ships
    assert "Programs without a size" not in ships
    figures = comparisons(root)["shipped"]["test"]["es-s0"]
    assert (figures["total_bytes"], figures["total_baseline_bytes"]) == (34_340, 35_000)
    assert figures["text_gain_percent"] == 2.0
    metrics = json.loads((root / "report/metrics.json").read_text())
    assert metrics["test"]["es"]["shipped_gain_percent"] == figures["total_gain_percent"] == 1.8857
    assert next(iter(metrics["test"]["es"])) == "shipped_gain_percent"


def test_the_page_begins_with_what_ships(plain):
    root, page = plain
    words = re.sub(r"<.*?>", "", page[page.index('class="verdict"') :]).replace("\N{NO-BREAK SPACE}", " ")
    said = " ".join(words.partition(">")[2].split())
    assert said.startswith("What ships is 1.89 % smaller in total under es-s0 than under -Oz (95 % interval +1.8")
    assert "; no verdict: 2 projects, six are needed. Of 2 programs, 2 are smaller and 0 larger" in said
    assert re.findall('class="number">(.*?)<', page)[0] == "+1.89\N{NO-BREAK SPACE}%"
    order = ('class="verdict"', 'id="figure-programs"', 'id="ships"', 'id="gains"', 'class="cards"')
    places = [page.index(one) for one in order]
    assert places == sorted(places)
    told = comparisons(root)["truth"]
    assert told["answers"]["what ships, in total"]["gain_percent"] == told["headline"]["gain_percent"] == 1.8857
    shown = subprocess.run(
        [sys.executable, "-m", "mlgo", "report", "--data", str(root)], capture_output=True, text=True
    )
    assert shown.stdout.startswith(
        "What ships is 1.89 % smaller in total under es-s0 than under -Oz (95 % interval +1.8"
    )
    assert told["answers"]["C programs, in total"]["finding"] == "no verdict: 2 projects, six are needed"
    assert told["instead"] == {}


def test_reference_rows_and_what_is_executed(world):
    for number, project in enumerate(("drill", "easel"), start=1):
        world.shipped += shipped_rows(project, f"bin/{project}", "-Os", number * 9_900)
    counts = {"heuristic": 100, "es-s0": 110}
    write_programs(world, [{"contender": name, "instructions": number} for name, number in counts.items()])
    page = made(world)
    ships = section(page, "ships", "gains")
    for name in ("instead: -Os", "instead: best of -Os and -Oz", "against the best of -Os and -Oz for each program"):
        assert name in ships
    assert "Does smaller code run slower?" in section(page, "programs", "projects")
    told = comparisons(world.root)["truth"]
    assert told["answers"]["executed instructions, geometric mean"]["gain_percent"] == -10.0
    assert told["instead"]["-Os"]["gain_percent"] == pytest.approx(100 * 330 / 35_000, abs=1e-4)


def test_without_valgrind_the_page_says_so(world):
    nothing = dict.fromkeys(("reads", "writes", "text_bytes", "right"))
    failed = {**nothing, "failure": "valgrind", "message": "valgrind is missing"}
    write_programs(world, [{"contender": name, **failed} for name in ("heuristic", "es-s0")])
    page = made(world)
    assert "No program ran: valgrind is missing." in page
    assert "What programs execute was not counted: valgrind is missing." in page


def test_a_program_that_does_not_link_is_shown_without_paths(world):
    row = next(row for row in world.shipped if row["contender"] == "es-s0")
    row.update(dict.fromkeys(("text", "read_only", "unwind", "total", "compressed")))
    row.update(failure="link", message="ended with status 1: /tmp/secret/place/x.o is bad")
    page = made(world)
    assert "ended with status 1: x.o is bad" in section(page, "ships", "gains")
    assert "1 program of 1 project" in page


def test_sign_test_and_seeds(world):
    world.results += [{**row, "seed": 1} for row in world.results if row["policy"] == "es"]
    world.policies = ("bc-s0", "es-s0", "es-s1")
    assert '<td class="left">es-mean</td>' in made(world)
    found = comparisons(world.root)["test"]
    assert found["es-s0"]["text_sign_p"] == found["es-mean"]["text_sign_p"] == 0.5
    assert found["bc-s0"]["text_much_larger_share_percent"] == 50.0
    assert found["es-mean"]["text_geomean_gain_percent"] == found["es-s0"]["text_geomean_gain_percent"]


def section(page: str, name: str, after: str) -> str:
    return page[page.index(f'id="{name}"') : page.index(f'id="{after}"')]


def test_functions_of_register_allocation(allocating):
    page = made(allocating)
    assert headline(page)[1] == "es-s0: no verdict: 2 projects, six are needed"
    functions = section(page, "functions", "programs")
    assert "Compared are the 24 functions" in functions
    rows = dict(re.findall(r'<td class="left">(.*?)</td>(.*?)</tr>', functions, re.DOTALL))
    assert list(rows) == ["bc-s0", "es-s0", "random", "lightest", "first", "best of all"]
    assert "12 / 0 / 12" in rows["es-s0"]
    assert "6 / 6 / 12" in rows["bc-s0"]
    assert "12 / 0 / 12" in rows["best of all"]  # 3 percent less under bc-s0 is no match for 5 under es-s0
    assert rows["es-s0"].count("+100.00\N{NO-BREAK SPACE}%") == 2
    assert 'id="figure-functions"' in functions
    figures = comparisons(allocating.root)["functions"]["es-s0"]
    counts = ("functions_smaller", "functions_equal", "module_modules_smaller")
    assert [figures[name] for name in counts] == [12, 12, 12]
    assert (figures["best_geomean_share_percent"], figures["best_total_share_percent"]) == (100.0, 100.0)


def test_a_page_about_costs_does_not_speak_of_sizes(allocating):
    page = made(allocating)
    before, after = page[: page.index('id="ships"')], page[page.index('id="projects"') : page.index('id="words"')]
    assert not re.search(
        r"bytes|in size|of size|\bsmaller\b|\bgrew\b|inlin(?!e-)", before[before.index("<main>") :] + after
    )
    assert "change in spill cost against the heuristic" in page
    assert "spill cost under the heuristic plus 1" in page
    assert "predicts the answers of lightest" in page
    assert "1.005 times the cost they take" in page


@pytest.mark.slow
def test_programs_that_ran_under_these_policies(allocating):
    absent = section(made(allocating), "programs", "ships")
    assert "<code>make programs</code>" in absent
    rows = [
        {"contender": name, "spill_cost": cost, "instructions": instructions}
        for name, cost, instructions in [("heuristic", 9.0, 1000), ("bc-s0", 19.0, 1100), ("es-s0", 4.0, 900)]
    ]
    write_programs(allocating, rows)
    programs = section(made(allocating), "programs", "ships")
    (row,) = re.findall(r'>all</td><td class="left">es-s0</td>(.*?)</tr>', programs, re.DOTALL)
    # With 1 added, 5 instead of 10; 900 instructions instead of 1,000; all else is equal.
    assert re.findall(r"<td>(.*?)\N{NO-BREAK SPACE}%</td>", row) == ["+50.00", "0.00", "+10.00", "0.00"]
    assert "execution/programs.parquet" in (allocating.root / "report/report.html").read_text()
    write_programs(allocating, rows, es="ef" * 32)
    assert section(made(allocating), "programs", "ships") == absent


def test_damaged_programs_are_one_line(allocating):
    (allocating.write() / "execution").mkdir()
    (allocating.root / "execution/programs.parquet").write_text("PAR1")
    fails_with(allocating, "execution/programs.parquet is not a readable Parquet file")


def test_one_policy_and_few_modules(world):
    keep = {("drill", "src/part0.cc"), ("anvil", "src/part1.c")}
    world.results = [row for row in world.results if (row["project"], row["module"]) in keep and row["policy"] == "bc"]
    world.policies = ("bc-s0",)
    assert headline(made(world)) == ["bc-s0: no verdict: 1 project, six are needed"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("evaluation/results.parquet", "is missing"),
        ("evaluation/functions.parquet", "is missing"),
        ("evaluation/shipped.parquet", "is missing"),
        ("baseline/functions.parquet", "is missing"),
        ("baseline/scores.parquet", "is missing"),
        ("baseline/summary.json", "is missing"),
        ("baseline/trace.parquet", "is missing"),
        ("corpus/modules.parquet", "is missing"),
        ("corpus/summary.json", "is missing"),
        ("policies/es-s0/history.csv", "is missing"),
        ("policies/es-s0/policy.json", "is missing"),
        ("policies/es-s0/weights.npy", "weights.npy"),
    ],
)
def test_missing_input_is_one_line(world, path, message):
    (world.write() / path).unlink()
    fails_with(world, path, message)


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("evaluation/results.parquet", "PAR1", "not a readable Parquet file"),
        ("baseline/summary.json", "{}", "self-test"),
        ("baseline/summary.json", "[", "not JSON"),
        ("corpus/summary.json", "{}", "shared bodies"),
        ("policies/es-s0/history.csv", "generation,mean_reward\n1,many\n", "not a table of numbers"),
        ("policies/es-s0/policy.json", "{}", "no provenance"),
    ],
)
def test_damaged_input_is_one_line(world, path, content, message):
    (world.write() / path).write_text(content)
    fails_with(world, "", message)


def test_without_test_projects_validation_decides_and_the_page_says_so(world):
    for rows in (world.modules, world.results, world.shipped):
        rows[:] = [{**row, "split": "validation" if row["split"] == "test" else row["split"]} for row in rows]
    page = made(world)
    assert "2 validation projects, which no policy was trained on" in page
    assert "Validation\nprojects: drill, easel." in page
    assert "choose by them" in page
    assert len(headline(page)) == 2
    told = comparisons(world.root)
    assert "es-s0" in told["validation"]
    assert "test" not in told


def test_empty_results_are_one_line(world):
    world.results = []
    world.write()
    fails_with(world, "", "no test module")


def fails_with(world, *parts: str) -> None:
    done = run(world)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert all(part in done.stderr for part in parts)
    assert not (world.root / "report/report.html").exists()
