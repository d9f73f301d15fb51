"""The logit of one observation in C has the bits of NumPy's, and where C cannot be had, NumPy answers."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.scratch import SHARED
from mlgo.base.types import TensorSpec
from mlgo.errors import PolicyError, ToolchainError
from mlgo.host.log import Header
from mlgo.policy import native
from mlgo.policy.exact import ExactNetwork, exact_network
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import ExploringAdvisor, Policy
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY

INT64 = np.dtype(np.int64)
RELEASED = REPOSITORY / "data" / "released" / "marginal-s0"


@pytest.fixture(autouse=True, scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the library."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SHARED, str(folder))
        native._library.cache_clear()
        assert native._library() is not None
        yield folder / "native"
    native._library.cache_clear()


def header_for(features: tuple[str, ...], dtype: np.dtype = INT64) -> Header:
    """Of a compiler that sends these features in another order, and one more."""
    specs = [TensorSpec(name, INT64, (1,)) for name in reversed(features)]
    return Header((TensorSpec("another", dtype, (1,)), *specs), TensorSpec("decision", INT64, (1,)))


def policy_of(widths: tuple[int, ...], groups: int, seed: int, *, has_units: bool = True) -> Policy:
    rng = np.random.default_rng(seed)
    names, shape = tuple(f"f{i}" for i in range(widths[0])), Architecture(widths, groups)
    centre, scale = rng.normal(size=(2, widths[0])).astype(np.float32)
    unit = np.float32(2.0) ** rng.integers(-3, 12, widths[0]).astype(np.float32) if has_units else None
    weights = rng.normal(size=shape.num_params).astype(np.float32)
    return Policy("inline-size", Normalisation(names, centre, np.abs(scale) + np.float32(0.01), unit), shape, weights)


def exact_of(policy: Policy) -> ExactNetwork:
    header = header_for(policy.normalisation.features)
    found = exact_network(policy.actions, header, policy.normalisation, policy.layers)
    assert found is not None
    return found


def native_of(policy: Policy) -> Callable[[bytes], np.float32]:
    found = native.native_logit(exact_of(policy))
    assert found is not None
    return found


def questions(rng: np.random.Generator, num: int, policy: Policy) -> np.ndarray:
    """Raw numbers, int64 [num, num_features + 1], in the order of `header_for`: small ones, huge ones, many zeros."""
    shape = (num, len(policy.normalisation.features) + 1)
    numbers = (rng.exponential(size=shape) * 10 ** rng.uniform(-1, 5, shape)).astype(np.int64)
    return numbers * rng.integers(-1, 3, shape).clip(-1, 1) * (rng.random((num, 1)) < 0.95)


@pytest.mark.parametrize("num_chunks", [2, pytest.param(50, marks=pytest.mark.slow)])  # up to a million
def test_decisions_of_the_released_policy_and_of_others(num_chunks):
    others = [policy_of((38, 258, 130, 18, 1), 2, 1), policy_of((38, 64, 32, 1), 1, 2), policy_of((38, 1), 1, 3)]
    for policy, num in ((load_policy(RELEASED), num_chunks), *((one, 1) for one in others)):
        exact, in_c, rng = exact_of(policy), native_of(policy), np.random.default_rng(0)
        for _ in range(num):
            numbers = questions(rng, 20_000, policy)
            found = np.array([in_c(row.tobytes()) for row in numbers])
            # By products of matrices, whose rounding is another; where that could change the sign, one by one.
            many = policy.model.logits(policy.normalisation(numbers[:, exact.columns]))
            rounding = 2e-3 * np.abs(many).mean()
            assert np.abs(found - many).max() < rounding
            close = np.abs(many) < rounding
            assert np.array_equal(found[~close] > 0, many[~close] > 0)
            close[:100] = True
            assert found[close].tolist() == [exact.logit(row.tobytes()) for row in numbers[close]]


numbers_of_any_size = st.one_of(st.integers(-3, 3), st.integers(-5000, 5000), st.integers(-(2**63), 2**63 - 1))


@given(st.data(), st.integers(1, 4), st.lists(st.integers(1, 20), max_size=3), st.integers(1, 3), st.booleans())
def test_the_same_bits(data, num_features, hidden, groups, has_units):
    widths = (num_features, *(groups * units for units in hidden), 1)
    policy = policy_of(widths, groups, data.draw(st.integers(0, 2**32)), has_units=has_units)
    exact, in_c = exact_of(policy), native_of(policy)
    row = st.lists(numbers_of_any_size, min_size=num_features + 1, max_size=num_features + 1)
    for numbers in data.draw(st.lists(row, min_size=1, max_size=10)):
        payload = np.array(numbers, np.int64).tobytes()
        assert in_c(payload) == exact.logit(payload)
        assert type(in_c(payload)) is type(exact.logit(payload)) is np.float32


def test_sums_go_from_the_first_term_to_the_last():
    policy = policy_of((6, 9, 6, 1), 3, 5)
    numbers = np.arange(7) * 100
    values = [float(one) for one in policy.normalisation(numbers[exact_of(policy).columns])]
    for matrix, bias in policy.layers:
        blocks = matrix[None] if matrix.ndim == 2 else matrix
        inputs = np.array(values, np.float32).reshape(len(blocks), -1)
        sums = []
        for block, own in zip(blocks, inputs, strict=True):
            for column in block.T:
                total = np.float32(0)
                for weight, value in zip(column, own, strict=True):
                    total += weight * value
                sums.append(total)
        values = [max(np.float32(0), one + shift) for one, shift in zip(sums, bias, strict=True)]
    last = sums[0] + bias[0]
    assert (
        exact_of(policy).logit(numbers.tobytes()) == native_of(policy)(numbers.tobytes()) == pytest.approx(last, 1e-5)
    )


def test_a_logarithm_that_float64_cannot_round_is_asked_of_numpy():
    """One that is nearly in the middle between two float32 numbers."""
    policy = policy_of((1, 1), 1, 0)
    asked = []
    network = ExactNetwork(np.zeros(1, np.int32), np.ones((3, 1), np.float32), policy.layers)
    one = type("Spy", (), {"logit": lambda self, payload: asked.append(payload), **network._asdict()})()
    in_c, step = native.native_logit(one), 2.0**-48
    near = np.arange(2**22, dtype=np.int64)
    sizes = np.log1p(near.astype(np.float64))
    is_unsure = (sizes * (1 - step)).astype(np.float32) != (sizes * (1 + step)).astype(np.float32)
    for number in near[is_unsure]:
        in_c(number.tobytes())
    assert asked == [number.tobytes() for number in near[is_unsure]]
    assert in_c(np.int64(7).tobytes()) == network.logit(np.int64(7).tobytes())


def test_what_is_sampled_is_the_same(monkeypatch):
    policy = policy_of((5, 8, 1), 1, 3)
    header = header_for(policy.normalisation.features)
    rows = [row.tobytes() for row in questions(np.random.default_rng(1), 3000, policy)]
    advisor = ExploringAdvisor(policy, temperature=2.0, flip_share=0.1, seed=4)
    in_c = list(map(advisor.respond_to(header), rows))
    monkeypatch.setattr(native, "_library", lambda: None)
    assert list(map(advisor.respond_to(header), rows)) == in_c
    assert len(set(in_c)) == 2


def test_weights_that_are_not_finite_and_layers_that_are_huge_are_numpys():
    for weights in (np.array([1, np.inf, 0], np.float32), np.array([1, np.nan, 0], np.float32)):
        assert native.native_logit(exact_of(policy_of((2, 1), 1, 0).with_weights(weights))) is None
    assert native.native_logit(exact_of(policy_of((2, native._WIDEST + 1, 1), 1, 0))) is None


def test_headers_of_another_kind_are_numpys():
    policy = policy_of((2, 1), 1, 0)
    mixed = header_for(("f0", "f1"), np.dtype(np.float32))
    assert exact_network(policy.actions, mixed, policy.normalisation, policy.layers) is None
    payload = np.array([(0.5, 3, 4)], mixed.record).tobytes()
    same = np.array([0, 3, 4], np.int64).tobytes()
    assert policy.logits_for(mixed)(payload) == pytest.approx(exact_of(policy).logit(same), abs=1e-5)
    with pytest.raises(PolicyError, match=r"the compiler lacks 1 of the policy's features \(f1\)"):
        policy.respond_to(header_for(("f0",)))


def garbage(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A file with the right hash that is no library."""
    (library,) = folder.glob("*.so")
    library.write_bytes(b"x" * 5000 + hashlib.sha256(b"x" * 5000).digest())


def a_folder(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (library,) = folder.glob("*.so")
    library.unlink()
    library.mkdir()


def open_to_others(folder: Path, patch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o777)


def a_file(folder: Path, patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def unwritable(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv(SHARED, "/proc/none")


def no_compiler(folder: Path, patch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise ToolchainError("ziglang is not installed")

    patch.setattr(native, "find_linker", missing)


def compiler_fails(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(native, "find_linker", lambda: Path("/bin/false"))


def other_source(folder: Path, patch: pytest.MonkeyPatch) -> None:
    source = folder.parent / "other.c"
    source.write_text("int other;\n")
    patch.setattr(native, "_SOURCE", source)


@pytest.fixture
def damaged(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own with a whole library, which is loaded anew."""
    shutil.copytree(compiled, tmp_path / "native")
    (tmp_path / "native").chmod(0o700)
    monkeypatch.setenv(SHARED, str(tmp_path))
    native._library.cache_clear()
    yield tmp_path / "native"
    native._library.cache_clear()


@pytest.mark.parametrize(
    "damage",
    [garbage, a_folder, open_to_others, a_file, unwritable, no_compiler, compiler_fails, other_source],
    ids=lambda damage: damage.__name__,
)
def test_without_a_library_numpy_gives_the_same_answers(damaged, compiled, monkeypatch, damage):
    policy = policy_of((5, 8, 1), 1, 3)
    header = header_for(policy.normalisation.features)
    rows = [row.tobytes() for row in questions(np.random.default_rng(1), 100, policy)]
    damage(damaged, monkeypatch)  # before it is loaded, which a process does once with a path
    assert list(map(policy.logits_for(header), rows)) == list(map(exact_of(policy).logit, rows))
    assert native._library() is None


@pytest.mark.parametrize("length", [0, 10, 3000, -1])
def test_part_of_a_library_is_replaced(damaged, length):
    (library,) = damaged.glob("*.so")
    whole = library.read_bytes()
    library.write_bytes(whole[:length])
    assert native._library() is not None
    assert library.read_bytes() == whole


PROGRAM = """
import numpy as np
from mlgo.policy import native
from mlgo.policy.exact import ExactNetwork
layers = [(np.ones((2, 1), np.float32), np.zeros(1, np.float32))]
print(native.native_logit(ExactNetwork(np.arange(2), np.ones((3, 2), np.float32), layers))(bytes(16)))
"""


def test_processes_that_start_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv(SHARED, str(tmp_path))
    running = [subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["-2.0\n"] * 3
    assert [path.suffix for path in (tmp_path / "native").iterdir()] == [".so"]
