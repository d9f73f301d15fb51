"""What SuperPMI may be asked in streaming mode, as one line of text.

    request = index *( "!" key "=" value ) LF        index: decimal, the first method is 1

Source: streamingsuperpmi.cpp and commandline.cpp in src/coreclr/tools/superpmi/superpmi of dotnet/runtime. Some lines
get no reply at all there (an option without ``=``), end the process (index 0), may crash it (an empty line) or are cut
in two (more than 2,047 bytes). They are refused here, because a client that sent one would wait for nothing.
"""

import re
from collections.abc import Mapping, Sequence
from numbers import Integral

from mlgo.errors import SuperPmiError

METRICS, HOOK = "JitMetrics", "JitRLHook"
DECISIONS, FEATURE_NAMES = "JitRLHookCSEDecisions", "JitRLHookEmitFeatureNames"
RESERVED = frozenset({METRICS, HOOK, DECISIONS, FEATURE_NAMES})
"""Options that requests set themselves (src/coreclr/jit/jitconfigvalues.h)."""

_MAX_INDEX = (1 << 31) - 1
_MAX_LINE_BYTES = 2046
"""With its line feed and the final zero it fits SuperPMI's buffer of 2,048 bytes."""
_KEY = re.compile(r"[A-Za-z0-9_]{1,1023}")
_VALUE = re.compile(r"[ -~]*")


def check_option(key: str, value: str) -> None:
    """Refuse an option of the JIT that cannot be written on the command line or in a request.

    Args:
        key: name without the prefix ``DOTNET_``; case counts.
        value: printable ASCII without ``!`` and ``#``. The JIT reads integers to base 16.

    Raises:
        SuperPmiError: it cannot.
    """
    if not _KEY.fullmatch(key):
        raise SuperPmiError(f"JIT option {key[:80]!r}: a name has 1 to 1023 letters, digits or underscores")
    if not _VALUE.fullmatch(value) or "!" in value or "#" in value:
        raise SuperPmiError(f"JIT option {key}={value[:80]!r}: a value is printable ASCII without '!' and '#'")


def check_free_options(options: Mapping[str, str]) -> None:
    """Refuse options of the user that cannot be written, or that requests set themselves.

    Raises:
        SuperPmiError: one of them is not allowed.
    """
    for key, value in options.items():
        check_option(key, value)
        if key in RESERVED:
            raise SuperPmiError(f"JIT option {key} is set by each request; leave it out of jit_options")


def request(index: int, *options: tuple[str, str]) -> str:
    """Compile a method under these options, and no others of earlier requests.

    Args:
        index: number of the method in the collection, from 1.
        options: names and values, in order; without any further ones the JIT's own heuristic decides.

    Returns:
        A line without its line feed.

    Raises:
        SuperPmiError: SuperPMI would not answer it.
    """
    if isinstance(index, bool) or not isinstance(index, Integral) or not 1 <= index <= _MAX_INDEX:
        raise SuperPmiError(f"method index {index!r}: the first method of a collection is 1")
    for key, value in options:
        check_option(key, value)
    line = "!".join([str(index), *(f"{key}={value}" for key, value in options)])
    if len(line) > _MAX_LINE_BYTES:
        raise SuperPmiError(
            f"a request of {len(line)} bytes for method {index}; SuperPMI takes {_MAX_LINE_BYTES}: give fewer decisions"
        )
    return line


def hook_request(index: int, decisions: Sequence[int], *, feature_names: bool) -> str:
    """Compile a method with given common subexpressions eliminated.

    Args:
        index: number of the method, from 1.
        decisions: positions of candidates, from 0, in the order in which they shall be performed; empty for none.
        feature_names: whether the reply shall name the features.

    Raises:
        SuperPmiError: SuperPMI would not answer it, or a decision is negative (the JIT would then negate all later
            ones, ``ConfigIntArray`` in src/coreclr/jit/utils.cpp).
    """
    for decision in decisions:
        if isinstance(decision, bool) or not isinstance(decision, Integral) or decision < 0:
            raise SuperPmiError(f"decision {decision!r} for method {index}: candidates are numbered from 0")
    options = [(METRICS, "1"), (HOOK, "1")]
    if feature_names:
        options.append((FEATURE_NAMES, "1"))
    if len(decisions):
        options.append((DECISIONS, ",".join(str(int(decision)) for decision in decisions)))
    return request(index, *options)
