"""TOSA, written and run: operators by hand, as the specification of TOSA 1.0 defines them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.deploy.export.form import check_form, recorded_questions
from mlgo.deploy.export.tosa import Tosa, parse_tosa, tosa_text
from mlgo.errors import PolicyError
from tests.deploy.export.cases import CASES, TIES

NUMBERS = "tensor<1x3xf32>"


def module(*lines, argument=NUMBERS, result=NUMBERS):
    numbered = [f"    %{place} = {line}" for place, line in enumerate(lines)]
    head = (
        f'  func.func @main(%arg0: {argument} {{tf_saved_model.index_path = ["x"]}}) -> '
        f'({result} {{tf_saved_model.index_path = ["y"]}}) {{'
    )
    return "\n".join(["module {", head, *numbered, f"    return %{len(lines) - 1} : {result}", "  }", "}", ""])


def run(text, *values, dtype=np.float32):
    return parse_tosa(text).run({"x": np.array([values], dtype)}).tolist()


TWO = f'"tosa.const"() <{{values = dense<[[1.0, -2.5e+00, 4.0]]> : {NUMBERS}}}> : () -> {NUMBERS}'
SAME = '"tosa.const"() <{values = dense<2.0> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>'
TRUTHS = "tensor<1x3xi1>"


@pytest.mark.parametrize(
    ("operator", "other", "result", "expected"),
    [
        ("add", TWO, NUMBERS, [[4.0, -0.5, 5.0]]),
        ("sub", TWO, NUMBERS, [[2.0, 4.5, -3.0]]),
        ("minimum", TWO, NUMBERS, [[1.0, -2.5, 1.0]]),
        ("maximum", TWO, NUMBERS, [[3.0, 2.0, 4.0]]),
        ("greater", SAME, TRUTHS, [[True, False, False]]),
        ("greater_equal", SAME, TRUTHS, [[True, True, False]]),
        ("equal", SAME, TRUTHS, [[False, True, False]]),
    ],
)
def test_two_inputs(operator, other, result, expected):
    text = module(other, f'"tosa.{operator}"(%arg0, %0) : ({NUMBERS}, {other.split()[-1]}) -> {result}', result=result)
    assert run(text, 3.0, 2.0, 1.0) == expected


def test_axes_of_length_one_are_stretched():
    shift = '"tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>'
    product = f'"tosa.mul"(%arg0, %0, %1) : ({NUMBERS}, tensor<1x1xf32>, tensor<1xi8>) -> {NUMBERS}'
    assert run(module(SAME, shift, product), 1.0, -2.0, 0.5) == [[2.0, -4.0, 1.0]]


def test_convolution_over_single_places_is_a_product_of_matrices():
    kernel, places = "tensor<2x1x1x3xf32>", "tensor<1x1x1x3xf32>"
    bits = np.array([1, 2, 3, 0, -1, 0.5], "<f4").tobytes().hex().upper()
    text = module(
        f'"tosa.const"() <{{values = dense<"0x{bits}"> : {kernel}}}> : () -> {kernel}',
        '"tosa.const"() <{values = dense<[10.0, 20.0]> : tensor<2xf32>}> : () -> tensor<2xf32>',
        '"tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>',
        '"tosa.const_shape"() <{values = dense<[1, 1, 1, 3]> : tensor<4xindex>}> : () -> !tosa.shape<4>',
        f'"tosa.reshape"(%arg0, %3) : ({NUMBERS}, !tosa.shape<4>) -> {places}',
        f'"tosa.conv2d"(%4, %0, %1, %2, %2) <{{acc_type = f32}}> : ({places}, {kernel}, tensor<2xf32>, tensor<1xf32>, '
        "tensor<1xf32>) -> tensor<1x1x1x2xf32>",
        result="tensor<1x1x1x2xf32>",
    )
    assert run(text, 1.0, 1.0, 2.0) == [[[[19.0, 20.0]]]]  # 1 + 2 + 6 + 10, -1 + 1 + 20


def test_the_first_of_the_largest():
    text = module(f'"tosa.argmax"(%arg0) <{{axis = 1 : i32}}> : ({NUMBERS}) -> tensor<1xi64>', result="tensor<1xi64>")
    assert run(text, 1.0, 5.0, 5.0) == [1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'"tosa.erf"(%arg0) : ({NUMBERS}) -> {NUMBERS}', "line 3 of the module is not understood"),
        (f'"tosa.abs"(%7) : ({NUMBERS}) -> {NUMBERS}', "line 3 of the module is not understood"),
        (f'"tosa.abs"(%arg0) : ({NUMBERS}) -> tensor<3xf32>', r"%0 is float32 \[1, 3\], the text says tensor<3xf32>"),
        (f'"tosa.abs"(%arg0) : ({NUMBERS}) -> tensor<1x3xi64>', "the text says tensor<1x3xi64>"),
        (f'"tosa.argmax"(%arg0) : ({NUMBERS}) -> tensor<1xi64>', "names no axis"),
        (f'"tosa.const"() <{{values = dense<[1.0]> : {NUMBERS}}}> : () -> {NUMBERS}', "%0 has other numbers"),
        (f'"tosa.const"() <{{values = dense<"0xABC"> : {NUMBERS}}}> : () -> {NUMBERS}', "%0 has other numbers"),
    ],
)
def test_what_is_wrong_is_named(line, message):
    with pytest.raises(PolicyError, match=message):
        run(module(line), 1.0, 2.0, 3.0)


def test_inputs_of_unequal_rank_are_refused():
    flat = '"tosa.const"() <{values = dense<2.0> : tensor<1xf32>}> : () -> tensor<1xf32>'
    with pytest.raises(PolicyError, match=r"%1: inputs of tosa\.add have unequal rank"):
        run(module(flat, f'"tosa.add"(%arg0, %0) : ({NUMBERS}, tensor<1xf32>) -> {NUMBERS}'), 1.0, 2.0, 3.0)


POLICY, TRACE, _ = TIES["regalloc-evict"]()
TEXT = tosa_text(POLICY, TRACE)
QUESTION = {name: values[:1] for name, values in recorded_questions(TRACE, POLICY).items()}


@given(st.data())
def test_damaged_text_is_refused_or_runs(data):
    lines = TEXT.splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    start = data.draw(st.integers(0, len(lines[place])))
    lines[place] = lines[place][:start] + data.draw(st.text(max_size=3)) + lines[place][start + 2 :]
    try:
        parse_tosa("\n".join(lines)).run(QUESTION)
    except PolicyError:
        pass


@pytest.mark.parametrize("task", CASES)
def test_arguments_are_the_policys_features(task):
    policy, make_trace, inputs, outputs = CASES[task]
    head = tosa_text(policy, make_trace()).splitlines()[1]
    kinds = {"int64": "i64", "float32": "f32"}
    found = re.findall(r'(tensor<\S+>) \{tf_saved_model\.index_path = \["(\w+)"\]\}', head)
    assert {name: kind for kind, name in found} == {
        name: f"tensor<{'x'.join(map(str, shape))}x{kinds[dtype]}>"
        for name, (dtype, shape) in {**inputs, **outputs}.items()
    }


def test_another_policys_module_is_refused(tmp_path):
    policy, make_trace, *_ = CASES["inline-size"]
    Tosa().write(policy, make_trace(), tmp_path / "tosa")
    tied, trace, _ = TIES["inline-size"]()
    with pytest.raises(PolicyError, match="of other features; export again"):
        check_form(Tosa(), tmp_path / "tosa", tied, trace)
