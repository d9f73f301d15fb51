"""Families of functions by their symbols; the mangled names are those of real objects, read with ``c++filt``."""

import pytest

from mlgo.corpus.functions import BINDINGS, OWN, STANDARD, family_of


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("main", OWN),
        ("_ZN4Node4StatEP13DiskInterface", OWN),  # Node::Stat(DiskInterface*)
        ("_ZNSt3__16vectorIP4NodeNS_9allocatorIS2_EEE5clearB9nie220108Ev", STANDARD),  # std::__1::vector<Node*>::clear
        ("_ZNKSt3__15dequeIP4NodeNS_9allocatorIS2_EEE5emptyB9nie220108Ev", STANDARD),
        ("_ZSt4swapIiEvRT_S1_", STANDARD),  # std::swap<int>, of libstdc++
        ("_ZNSaIcEC2Ev", STANDARD),  # std::allocator<char>::allocator
        ("_ZN9__gnu_cxx13new_allocatorIcEC2Ev", STANDARD),
        ("_ZnwmPv", STANDARD),  # operator new(unsigned long, void*)
        ("_ZdlPvS_", STANDARD),
        ("_ZdlPvm", OWN),  # a program may replace this one
        ("__clang_call_terminate", STANDARD),
        ("_mm_add_ps", STANDARD),
        ("__bswap_32", STANDARD),
        ("_ZThn16_NSt3__114basic_iostreamIcNS_11char_traitsIcEEED0Ev", STANDARD),  # a thunk to a destructor
        ("_ZZNSt3__14sortIPiEEvT_S2_ENKUlvE_clEv", STANDARD),  # a lambda in std::sort
        ("_ZZN4Node4StatEvENKUlvE_clEv", OWN),  # a lambda in a function of the project
        ("_Z4showRKNSt3__16vectorIiNS_9allocatorIiEEEE", OWN),  # show(std::vector<int> const&)
        ("_ZN4showENSt3__16vectorIiNS_9allocatorIiEEEE", OWN),
        ("_ZThn8_N4NodeD1Ev", OWN),
        ("_ZN5StateC2Ev", OWN),  # the length 5 is no abbreviation of std
        ("_ZN8pybind116handleC2Ev", BINDINGS),
        ("_ZN8pybind11L10initializeEv", BINDINGS),
        ("_ZNK8pybind116handle7inc_refEv", BINDINGS),
        ("__Pyx_PyObject_Call", BINDINGS),
        ("__pyx_pw_6uvloop_4loop_4Loop_1run", OWN),  # what the project's .pyx file says
        ("__pyx_find_code_object", BINDINGS),
        ("__pyx_CommonTypesMetaclass_init", BINDINGS),
        ("__pyx_tp_dealloc_4lupa_5lua54_FastRLock", OWN),
        ("__pyx_getprop_5kenlm_15FullScoreReturn_log_prob", OWN),
        ("__pyx_specialmethod___pyx_pw_4lupa_5lua54_10_LuaThread_3__next__", OWN),
        ("_ZL12__Pyx_NewRefP7_object", BINDINGS),  # the same in C++: __Pyx_NewRef(_object*)
        ("_ZL22__pyx_find_code_objecti", BINDINGS),
        ("_ZL18__pyx_pymod_createP7_objectP11PyModuleDef", BINDINGS),
        ("_Z17CYTHON_UNUSED_VARIP7_objectEvRKT_", BINDINGS),
        ("_ZN19__Pyx_FakeReferenceIP7_objectEC2Ev", BINDINGS),  # constructor of a class template of Cython
        ("_ZL40__pyx_f_11marisa_trie_5_Trie__encode_keyP29__pyx_obj_11marisa_trie__TrieP7_object", OWN),
        ("_ZL43__pyx_pw_5kenlm_15FullScoreReturn_3__repr__P7_object", OWN),
        ("_ZL9Py_INCREFP7_object", BINDINGS),
        ("_ZL16PyTuple_SET_ITEMP7_objectlS0_", BINDINGS),
        ("_ZL10_mm_add_psDv4_fS_", STANDARD),
        ("_ZL4showP7_object", OWN),
        ("_ZN3lib12__Pyx_NewRefEv", OWN),  # a name in the project's namespace
        ("_ZL99", OWN),
        ("_cffi_to_c_i32", BINDINGS),
        ("_cffi_f_ZSTD_compress", OWN),  # calls what the project declares
        ("Py_INCREF", BINDINGS),
        ("_Py_NewRef", BINDINGS),
        ("PyTuple_SET_ITEM", BINDINGS),
        ("PyUnicode_GET_LENGTH", BINDINGS),
        ("PyInit_thing", OWN),
        ("PyScs_solve", OWN),
    ],
)
def test_families(name, family):
    assert family_of(name) == family
