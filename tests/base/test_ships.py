"""The record of what ships: its text, what contradicts itself, and what counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.ships import Ships
from mlgo.errors import ConfigError


def test_a_text_is_read():
    found = Ships.of("form=whole,folding=all,unwind=no,level=-Os")
    assert (found.form, found.folding, found.unwind, found.level) == ("whole", "all", False, "-Os")
    assert found.relocation is found.exports is found.sections is None
    assert Ships.of("thin") == Ships(form="thin")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("form=whole,thin", "form stands there twice"),
        ("icf=all", "icf Extra inputs are not permitted; names are form, level"),
        ("folding=yes", "folding Input should be 'none', 'safe' or 'all'"),
        ("", "form Input should be"),
        ("whole,", "form stands there twice"),
        ("sections=no,folding=all", "folding=all contradicts sections=no"),
        ("relocation=shared,exports=entry", "exports=entry contradicts relocation=shared"),
        ("program,relocation=shared", "form=program contradicts relocation=shared"),
    ],
)
def test_a_text_that_is_wrong_is_refused_by_name(text, message):
    with pytest.raises(ConfigError, match=message):
        Ships.of(text)


def test_a_record_over_what_a_build_says():
    build = Ships(relocation="fixed", sections=False, folding="none", unwind=True)
    assert Ships.of("whole,unwind=no").over(build) == Ships(
        form="whole", relocation="fixed", sections=False, folding="none", unwind=False
    )
    with pytest.raises(ConfigError, match="folding=all contradicts sections=no"):
        Ships(folding="all").over(build)


_RECORDS = st.builds(
    Ships,
    form=st.sampled_from([None, "objects", "thin", "whole"]),
    level=st.sampled_from([None, "-Oz", "-Os", "-O2", "-O3"]),
    relocation=st.sampled_from([None, "fixed", "pie", "shared"]),
    exports=st.sampled_from([None, "listed", "all"]),
    sections=st.sampled_from([None, True]),
    folding=st.sampled_from([None, "none", "safe", "all"]),
    unwind=st.sampled_from([None, True, False]),
)


@given(_RECORDS)
def test_the_text_of_a_record_is_read_as_the_record(record):
    assert record == Ships() or Ships.of(str(record)) == record


@given(_RECORDS, _RECORDS, _RECORDS)
def test_records_over_one_another_do_not_depend_on_grouping(first, second, third):
    assert first.over(second).over(third) == first.over(second.over(third))
    assert first.over(first) == first


def test_unwind_tables_count_unless_the_record_says_otherwise():
    sizes = {"text": 100, "read_only": 20, "unwind": 7, "total": 127, "compressed": 80}
    assert [Ships(unwind=one).total(sizes) for one in (None, True, False)] == [127, 127, 120]


def test_options_of_a_record():
    record = Ships.of("relocation=fixed,sections=yes,exports=all,folding=safe")
    assert record.code_options == ["-fno-pic", "-ffunction-sections", "-fdata-sections"]
    assert record.lld_options == ["-no-pie", "--export-dynamic", "--gc-sections", "--icf=safe"]
    assert record.link_words == ["-no-pie", "-Wl,--export-dynamic", "-Wl,--gc-sections", "-Wl,--icf=safe"]
    assert Ships.of("whole,unwind=no").lld_options == Ships.of("whole").code_options == []
    assert Ships(sections=False).code_options == ["-fno-function-sections", "-fno-data-sections"]
