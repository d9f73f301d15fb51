"""Names of C++, against c++filt of binutils."""

import shutil
import subprocess

import pytest

from mlgo.objects.symbols import demangled

NAMES = """
_Z1fv _ZN3app5twiceEi _ZNKSt6vectorIiSaIiEE4sizeEv _ZN12_GLOBAL__N_11fEv _ZTV4Base _ZTIN3app5ErrorE _ZGVZ1fvE1x
_ZZN1a1bEvENKUlvE_clEv _Z3addIdET_S0_S0_ _ZN1AC2Ev _ZThn16_N1D1fEv main i _Zbad [text]
_ZNSt3__16vectorINS_12basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEEENS4_IS6_EEE9push_backEOS6_"""
ODD = ["", "_Z1fv\udc80", "_Z" + "P" * 100_000, "_ZN" + "1a" * 100_000 + "Ev", "_Z\0"]


def test_by_hand():
    assert demangled("_ZN3app5twiceEi") == "app::twice(int)"
    assert demangled("i") == "i"  # a type to the library, a function of C here


@pytest.mark.skipif(not shutil.which("c++filt"), reason="needs c++filt")
@pytest.mark.parametrize("name", NAMES.split())
def test_as_binutils(name):
    run = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True)
    assert demangled(name) == run.stdout.strip()


@pytest.mark.parametrize("name", [*NAMES.split(), *ODD], ids=range(len(NAMES.split()) + len(ODD)))
def test_odd_names_stay_or_become_text(name):
    assert isinstance(demangled(name), str)
