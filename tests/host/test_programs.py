"""The programs of data/programs: what they print, computed anew in Python, and what they print when built and run."""

import hashlib
import json
import operator
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree

from mlgo.corpus.build import BuildLimits, build_project
from mlgo.corpus.recipe import load_recipe
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import count_run, link_program
from mlgo.host.session import compile_plain
from mlgo.host.toolchain import find_linker
from tests.conftest import REPOSITORY

PROGRAMS = REPOSITORY / "data" / "programs"
RECIPES = sorted((REPOSITORY / "config" / "programs").glob("*.yaml"))
WORD = 2**64 - 1


def expected(name: str) -> str:
    return (PROGRAMS / name / "expected.txt").read_text()


class Random:
    """The random numbers of all programs: Knuth's MMIX generator, upper 31 bits."""

    def __init__(self, state: int) -> None:
        self.state = state

    def __call__(self) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & WORD
        return self.state >> 33


def draws(seed: int, count: int, mask: int = WORD) -> list[int]:
    """The first numbers of a seed."""
    random = Random(seed)
    return [random() & mask for _ in range(count)]


def fold(values, mask: int = 0xFFFFFFFF) -> int:
    total = 0
    for value in values:
        total = (total * 31 + value) & mask
    return total


def test_each_program_has_a_recipe():
    assert len(RECIPES) >= 10
    assert {path.parent.name for path in PROGRAMS.glob("*/expected.txt")} == {path.stem for path in RECIPES}


def rotl(x: int, n: int, bits: int) -> int:
    return (x << n | x >> (bits - n)) & (2**bits - 1)


def lanes64(seed: int, data: bytes) -> int:
    def mix(lane: int, word: int) -> int:
        return rotl((lane + word * 0x9E3779B97F4A7C15) & WORD, 31, 64) * 0xD6E8FEB86659FD93 & WORD

    lanes = [seed, (seed + 1) & WORD, seed ^ 0x5555555555555555, ~seed & WORD]
    words = np.frombuffer(data[: len(data) // 64 * 64], "<u8").tolist()
    for start in range(0, len(words), 8):
        for i in range(4):
            lanes[i] = mix(lanes[i], words[start + i])
        for i in range(4):
            lanes[i] = mix(lanes[i], words[start + 4 + i] ^ lanes[i - 1])
    hashed = sum(rotl(lane, n, 64) for lane, n in zip(lanes, (1, 7, 12, 18), strict=True)) + len(data) & WORD
    for byte in data[len(words) * 8 :]:
        hashed = mix(hashed, byte)
    hashed ^= hashed >> 29
    hashed = hashed * 0xA0761D6478BD642F & WORD
    return hashed ^ hashed >> 32


def test_hash():
    data = bytes(draws(1, 200003, 255))
    lanes = 0
    for _ in range(5):
        lanes = lanes64(lanes, data)
    digest = hashlib.sha256(data).hexdigest()
    assert expected("hash").splitlines() == [
        f"sha256 empty {hashlib.sha256().hexdigest()}",
        f"sha256 abc {hashlib.sha256(b'abc').hexdigest()}",
        f"sha256 buffer {digest}",
        f"sha256 pieces {digest}",
        f"crc32 {zlib.crc32(data * 5):08x}",
        f"adler32 {zlib.adler32(data * 5):08x}",
        f"lanes64 {lanes:016x}",
    ]


def test_cipher():
    lines = dict(line.split() for line in expected("cipher").splitlines()[:-1])
    assert lines["aes-128"] == "69c4e0d86a7b0430d8cdb78070b4c55a"  # FIPS 197, appendix C.1
    assert lines["inverse"] == "00112233445566778899aabbccddeeff"
    # RFC 8439, section 2.4.2: the first key stream block
    assert lines["chacha20"] == "224f51f3401bd9e12fde276fb8631ded8c131f823d2c06e27e4fcaec9ef3cf78"
    assert lines["plain"] == f"{fold(draws(2, 100000, 255)):08x}"
    assert expected("cipher").endswith("\nrestored\n")


def test_cipher_of_a_buffer():
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers", reason="no other AES here")
    data = bytes(draws(2, 100000, 255))
    chain = ciphers.Cipher(ciphers.algorithms.AES(bytes(range(16))), ciphers.modes.CBC(bytes(16))).encryptor()
    chained = chain.update(data)
    start = (7).to_bytes(4, "little") + bytes(12)
    both = ciphers.Cipher(ciphers.algorithms.ChaCha20(bytes(range(32)), start), None).encryptor().update(chained)
    lines = expected("cipher").splitlines()
    assert lines[4:6] == [f"chained {fold(chained):08x}", f"both {fold(both):08x}"]


def words_text(random: Random, size: int) -> bytes:
    text = bytearray()
    while len(text) < size:
        word = random() % 200
        word *= random() % 7 + 1
        for _ in range(word % 6 + 2):
            text.append(ord("a") + word % 26)
            word = word * 17 + 5 & 0xFFFFFFFF
        text.append(ord(" "))
    return bytes(text)


def test_compress():
    """The decoded text is compared in the program; here, that the text is the right one, and how small it can be."""
    shape = re.compile(r"(\w+) (\w+): (\d+) tokens, (\d+) coded, restored")
    lines = [shape.fullmatch(line) for line in expected("compress").splitlines()]
    assert [line[1] for line in lines] == ["words", "wave", "noise"]
    text = words_text(Random(3), 45000)[:45000]
    assert lines[0][2] == f"{fold(text):08x}"
    assert 0.7 < int(lines[0][4]) / len(zlib.compress(text, 9)) < 1.3
    assert 45000 < int(lines[2][4]) < 45000 * 9 / 8 + 1000  # noise grows by the control bits and the header


class Word64(int):
    """A number modulo 2^64 with the operators of the language."""


OPERATORS = {
    name: getattr(operator, f"__{name}__") for name in ("neg", "invert", "add", "sub", "mul", "and", "xor", "or")
}
OPERATORS |= {
    "truediv": lambda one, other: one // other if other else 0,
    "mod": lambda one, other: one % other if other else 0,
    "lshift": lambda one, other: one << other % 64,
    "rshift": lambda one, other: one >> other % 64,
}
for name, function in OPERATORS.items():
    setattr(Word64, f"__{name}__", lambda *ones, function=function: Word64(function(*map(int, ones)) & WORD))


def test_expression():
    """Python has the same precedences."""
    *shown, _, _, differences = expected("expression").splitlines()
    variables = {name: Word64(i + 1) for i, name in enumerate("abcdefgh")}
    assert len(shown) == 8
    for line in shown:
        text, _, value = line.rpartition(" = ")
        result = eval(re.sub(r"\d+", r"Word64(\g<0>)", text), {"Word64": Word64}, variables)
        assert result == int(value), text
    assert differences == "differences 0"


def test_vm():
    def collatz(n: int) -> int:
        length = 1
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            length += 1
        return length

    sieve = np.ones(30000, bool)
    sieve[:2] = False
    for i in range(2, 174):
        sieve[i * i :: i] &= not sieve[i]
    longest = max(range(1, 1500), key=collatz)
    pairs = np.arange(1, 81)
    marks = sum(len(range(i * i, 30000, i)) for i in np.flatnonzero(sieve).tolist())
    assert f" 29998 loads, {marks} stores, " in expected("vm").splitlines()[0]
    results = [line.split()[1] for line in expected("vm").splitlines()]
    assert results == [
        str(sieve.sum()),
        "10946",  # the 21st Fibonacci number
        str(1000 * longest + collatz(longest)),
        str(np.gcd.outer(pairs, pairs).sum()),
    ]


def test_matrix():
    random = Random(5)
    n, width, height = 120, 200, 150
    pairs = np.array([random() % 100 for _ in range(2 * n * n)]).reshape(n, n, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    c = a @ b + b @ a
    system = np.array([random() % 1000 for _ in range(n * n)]).reshape(n, n) / 1000 + 3 * np.eye(n)
    sign, logarithm = np.linalg.slogdet(system)
    determinant = sign * np.exp(logarithm - n * np.log(3)) * 1e6
    first = np.array([random() & 0xFFFF for _ in range(width * height)]).reshape(height, width)
    second = first.copy()
    for _ in range(12):
        nine = [first[y : height - 2 + y, x : width - 2 + x] for y in range(3) for x in range(3)]
        weighted = sum(weight * part for weight, part in zip((1, 2, 3, 5, 7, 11, 13, 17, 19), nine, strict=True))
        second[1:-1, 1:-1] = weighted & 0xFFFF
        boxes = sum(second[y : height - 4 + y, x : width - 4 + x] for y in range(5) for x in range(5))
        first[2:-2, 2:-2] = boxes & 0xFFFF
    product, solved, grid = expected("matrix").splitlines()
    assert product == f"product {fold(c.ravel().tolist(), WORD):016x} trace {np.trace(c)}"
    assert grid == f"grid {fold(first.ravel().tolist(), WORD):016x}"
    found = re.fullmatch(r"determinant / 3\^120 millionths (\d+) wrong 0", solved)
    assert abs(int(found[1]) - determinant) < 1.1


def test_sort():
    def quarters(values: list) -> list:
        ordered = sorted(values)
        return [ordered[i * (len(values) - 1) // 4] for i in range(5)]

    numbers = quarters(draws(7, 14001))
    fractions = quarters([1024 * 10**6 - one for one in draws(7, 10001)])
    drawn = draws(7, 16002)
    records = quarters([(drawn[2 * i] % 500, -(drawn[2 * i + 1] % 4) * 25, i) for i in range(8001)])
    random = Random(7)
    words = quarters(["".join("abcd"[random() % 4] for _ in range(random() % 6 + 1)) for _ in range(6001)])
    assert expected("sort").splitlines() == [
        f"numbers: {' '.join(map(str, numbers))} sorted",
        f"fractions: {' '.join(f'{-x}/1024' for x in fractions)} sorted",
        f"records: {' '.join(f'{key}/{-weight}/{rank}' for key, weight, rank in records)} sorted",
        f"words: {' '.join(words)} sorted",
    ]


class Document:
    """The random documents of the program json: what is in them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = self.truths = self.text_bytes = 0
        self.numbers = 0.0
        self.add(0)

    def add_text(self) -> None:
        size = self.random() % 12 + 1
        for _ in range(size):
            self.random()
        self.text_bytes += size

    def add(self, depth: int) -> None:
        self.nodes += 1
        choice = 7 if depth < 2 else self.random() % (10 if depth < 6 else 6)
        if choice == 1:
            self.truths += self.random() % 2
        elif choice in (2, 3):
            self.numbers += (self.random() % 2000000 - 1e6) / (1 if choice == 2 else 16)
        elif choice in (4, 5):
            self.add_text()
        elif choice > 5:
            for _ in range(20 if depth < 2 else self.random() % 6):
                self.add(depth + 1)
                if choice > 7:
                    self.add_text()


def test_json():
    fixed, *documents = expected("json").splitlines()
    assert json.loads(fixed) == {
        "name": 'Grüße, "quoted"\\',
        "list": [1, -2.5, 300, 0.625, 0.0625],
        "nested": {"empty": {}, "none": [], "deep": [[[None, True, False]]]},
        "control": "\x01\t\n/",
    }
    random = Random(8)
    assert len(documents) == 3
    for line in documents:
        found = Document(random)
        assert line.partition(" bytes, ")[2] == (
            f"{found.nodes} nodes, {found.truths} true, sum {int(found.numbers * 10000)}/10000, "
            f"{found.text_bytes} bytes of text, restored"
        )


def test_regex():
    random = Random(9)
    text = "".join("aaaabbbbcccddeef01 \n"[random() % 20] for _ in range(3500))
    source = (PROGRAMS / "regex" / "main.c").read_text()
    patterns = re.findall(r'"(.*)",', source.partition("patterns[] = {")[2].partition("};")[0])
    lines = expected("regex").splitlines()
    assert len(lines) == len(patterns) == 10
    for pattern, line in zip(patterns, lines, strict=True):
        compiled = re.compile(pattern.replace(r"\n", "\n"))
        starts = sum(compiled.match(text, i) is not None for i in range(len(text)))
        matches = [match[0] for match in compiled.finditer(text)]
        want = f"{starts} starts, {len(matches)} matches of {sum(map(len, matches))} bytes, "
        assert line.startswith(want), pattern
        assert line.endswith(" 0 differences")


def total_energy(place: np.ndarray, speed: np.ndarray, mass: np.ndarray) -> float:
    distance = np.sqrt(np.sum((place[:, None] - place[None]) ** 2, axis=2) + 0.01)
    pairs = np.triu(np.outer(mass, mass) / distance, 1)
    return float(np.sum(mass * np.sum(speed**2, axis=1)) / 2 - pairs.sum())


def test_spectrum():
    random = Random(6)
    signal = np.array([random() / 2**31 - 0.5 for _ in range(2 * 4096)]).reshape(-1, 2) @ [1, 1j]
    found = np.fft.fft(signal)
    wanted = [["power", np.sum(np.abs(signal) ** 2)]]  # Parseval
    wanted += [[f"at {k * 777}", found[k * 777].real, found[k * 777].imag] for k in range(1, 5)]
    bodies = np.array([random() / 2**31 for _ in range(6 * 7)]).reshape(6, 7)
    place, speed, mass = 4 * bodies[:, :3] - 2, bodies[:, 3:6] - 0.5, 0.1 + bodies[:, 6]
    energies = [["energy", total_energy(place, speed, mass)]]
    for _ in range(6000):
        apart = place[:, None] - place[None]
        square = np.sum(apart**2, axis=2) + 0.01
        speed -= 0.0005 * np.sum(apart * (mass / square**1.5)[:, :, None], axis=1)
        place += 0.0005 * speed
    energies.append(["energy", total_energy(place, speed, mass)])
    wanted += [*energies, *(["body", *row] for row in place)]
    lines = expected("spectrum").splitlines()
    assert lines.pop(5) == "restored"
    for line, (name, *values) in zip(lines, wanted, strict=True):
        assert line.startswith(f"{name} ")
        millionths = [int(number) for number in line.removeprefix(name).split()]
        assert millionths == pytest.approx([value * 1e6 for value in values], abs=1.1), line


def test_image():
    random = Random(10)
    height, width = 173, 241
    y, x = np.mgrid[:height, :width]

    def windows(picture: np.ndarray, border: int) -> dict[tuple[int, int], np.ndarray]:
        padded = np.pad(picture, border, mode="edge")
        span = range(2 * border + 1)
        return {(i - border, j - border): padded[i : i + height, j : j + width] for i in span for j in span}

    lines = iter(expected("image").splitlines())

    def check(name: str, picture: np.ndarray) -> None:
        assert next(lines) == f"{name} {fold(picture.ravel().tolist()):08x}"

    for _ in range(3):
        noise = np.array([random() for _ in range(width * height)]).reshape(height, width)
        level = (x // 19 + y // 23) % 5 * 40 + noise % 32
        picture = np.where(noise >> 8 & 15, level, noise >> 16 & 255)
        check("drawn", picture)
        picture = np.median(list(windows(picture, 1).values()), axis=0).astype(int)
        check("median", picture)
        binomial = {-2: 1, -1: 4, 0: 6, 1: 4, 2: 1}
        around = windows(picture, 2).items()
        picture = sum(binomial[i] * binomial[j] * part for (i, j), part in around) + 128 >> 8
        check("blurred", picture)
        picture = (np.cumsum(np.bincount(picture.ravel(), minlength=256)) * 255 // picture.size)[picture]
        check("equalised", picture)
        part = windows(picture, 1)
        across = sum((2 - abs(i)) * (part[i, 1] - part[i, -1]) for i in (-1, 0, 1))
        along = sum((2 - abs(j)) * (part[1, j] - part[-1, j]) for j in (-1, 0, 1))
        check("edges", np.minimum((np.abs(across) + np.abs(along)) // 4, 255))
        at_y = np.arange(101)[:, None] * ((height - 1) * 65536 // 101)
        at_x = np.arange(150)[None] * ((width - 1) * 65536 // 150)
        i, j, u, v = at_y >> 16, at_x >> 16, at_x >> 8 & 255, at_y >> 8 & 255
        above = picture[i, j] * (256 - u) + picture[i, j + 1] * u
        under = picture[i + 1, j] * (256 - u) + picture[i + 1, j + 1] * u
        check("shrunk", above * (256 - v) + under * v + 32768 >> 16)
    assert next(lines, None) is None


Edge = tuple[int, int, int]


def random_edges(random: Random, nodes: int, count: int) -> list[Edge]:
    return [(random() % nodes, random() % nodes, random() % 10000 + 1) for _ in range(count)]


def lightest(edges: list[Edge], nodes: int) -> csr_array:
    """Weights as a sparse matrix, of parallel edges the smallest one."""
    weights = {(a, b): weight for a, b, weight in sorted(edges, key=lambda edge: -edge[2]) if a != b}
    rows, columns = np.array(list(weights)).T
    return csr_array((list(weights.values()), (rows, columns)), shape=(nodes, nodes))


def test_graph():
    random = Random(11)
    edges = random_edges(random, 3000, 9000)
    large, small = lightest(edges, 3000), lightest(random_edges(random, 110, 700), 110)
    lines = []
    for start in range(6):
        distance = dijkstra(large, indices=start)
        hops = dijkstra(large, indices=start, unweighted=True)
        reached = np.isfinite(distance)
        sums = f"distances {distance[reached].sum():.0f}, edges {hops[reached].sum():.0f}"
        lines.append(f"from {start}: {reached.sum()} reached, {sums}")
    undirected = lightest([(min(a, b), max(a, b), weight) for a, b, weight in edges], 3000)
    trees = connected_components(large, connection="weak")[0]
    lines.append(f"trees {trees} of weight {minimum_spanning_tree(undirected).sum():.0f}")
    lines.append(f"strong components {connected_components(large, connection='strong')[0]}")
    pairs = dijkstra(small)
    lines.append(f"pairs {np.isfinite(pairs).sum()}, distances {pairs[np.isfinite(pairs)].sum():.0f}")
    assert expected("graph").splitlines() == [*lines, "agree"]


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_programs_run_as_expected(path: Path, toolchain, settings, zig_cache, valgrind, tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    fast = settings.model_copy(update={"optimization": "-O2"})
    front_end = FrontEnd(toolchain, fast, zig_cache)
    rows = build_project(path.stem, load_recipe(path), front_end, BuildLimits(10, 0.0, 0, 1), tmp_path)
    objects = []
    for i, row in enumerate(rows):
        bitcode, output = tmp_path / f"{i}.bc", tmp_path / f"{i}.o"
        bitcode.write_bytes(row["bitcode"])
        compile_plain(toolchain, bitcode, fast, object_path=output)
        objects.append(output)
    program = tmp_path / path.stem
    link_program(find_linker(), objects, program, zig_cache, 300.0, toolchain.target)
    run = count_run(valgrind, program, 120.0)
    assert run.stdout.decode() == expected(path.stem)
    assert run.exit_status == 0
    assert 5e6 < run.instructions < 41e6
    assert 0 < run.writes < run.reads < run.instructions
