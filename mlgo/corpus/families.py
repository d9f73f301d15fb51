"""Inline code that many projects compile, by the names of its functions: the standard library, and bindings to Python.

Its functions are in nearly every project, instantiated with the project's own types. So they are seen in training
whatever the projects are, and count as projects of their own: neither as seen nor as unseen.

Names of C++ are mangled as the Itanium ABI says (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling): an
entity's own scope comes first, template arguments later. A function of a user's type in a container of the standard
library is of the library; a user's function that takes such a container is not; a lambda is of the function it is in.
"""

import re

OWN, STANDARD, BINDINGS = "own", "standard", "bindings"
"""Families: a project's own code, the standard library, and code that binds C and C++ to Python."""

# Thunks and local names are of the function that they name; [rVKRO]* are qualifiers of a member function. St, Sa, Ss,
# Sb, Si, So and Sd are std and its best-known members. The operators new and delete are those that are given a place.
_SCOPE = r"_Z(?:T[hvc][\dn_hv]*_)*Z*(?:N[rVKRO]*)?"
_STANDARD = re.compile(
    rf"{_SCOPE}(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)|_Z(?:n[wa][mj]Pv|d[la]PvS_)$|__clang_call_terminate$"
    r"|_mm\d*_|__bswap_\d|__uint\d+_identity$"
)
_BINDINGS = re.compile(
    rf"{_SCOPE}(?:8pybind11|8nanobind|\d+__Pyx_)"
    # What is left out, such as __pyx_pf_ and _cffi_f_, does what the project's own declarations say.
    r"|__Pyx_|CYTHON_|__pyx_(?![a-z]{1,2}_|[gs]etprop_|specialmethod_|fuse_)|_cffi_(?!f_|d_|const_|var_)"
    r"|_?Py(?:|Bytes|ByteArray|Cell|CFunction|DateTime|Dict|Float|List|Long|Mapping|Mem|Module|Object|Set|Tuple|Type"
    r"|Unicode|Vectorcall|Weakref)_[A-Za-z_]+$"
)
_SIMPLE = re.compile(r"_ZZ*L?(\d+)")  # L: internal linkage


def family_of(name: str) -> str:
    """Family of a function by its symbol."""
    if simple := _SIMPLE.match(name):  # in no class and no namespace: helpers of a header are in both languages
        name = name[simple.end() : simple.end() + int(simple[1])]
    if _STANDARD.match(name):
        return STANDARD
    return BINDINGS if _BINDINGS.match(name) else OWN
