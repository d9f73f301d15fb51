"""Names of C++ as they stand in the source, by the function that each C++ run-time library has for this.

``__cxa_demangle`` is a part of the Itanium C++ ABI. The library is the one that Arrow is linked with, so it is on every
machine on which this package works.
"""

import ctypes
import functools
from collections.abc import Callable

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")


def demangled(name: str) -> str:
    """A symbol of C++ as a declaration; any other as it is.

    Raises:
        OSError: the machine has no C++ run-time library.
    """
    if not name.startswith("_Z"):
        return name
    pointer = _demangler()(name.encode(errors="replace"), None, None, ctypes.byref(ctypes.c_int()))
    if not pointer:
        return name
    try:
        return ctypes.string_at(pointer).decode(errors="replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(pointer))


@functools.cache
def _demangler() -> Callable[..., int | None]:
    for library in _LIBRARIES:
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return function
    raise OSError(f"none of {', '.join(_LIBRARIES)} can be loaded")
