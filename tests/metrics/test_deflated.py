"""Gzip in parts."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirekafka.metrics.deflated_parts import DeflatedParts

parts = st.lists(
    st.one_of(st.text(), st.builds(lambda text: text * 20_000, st.text(min_size=1, max_size=3)))
)


@pytest.mark.long
@settings(deadline=None)  # The machine may be busy.
@given(texts=st.lists(parts, max_size=4))
def test_the_parts_are_what_gzip_reads_however_they_change(texts: list[list[str]]) -> None:
    deflated = DeflatedParts()
    for text in texts:
        assert gzip.decompress(deflated.gzip(text)).decode() == "".join(text)
        assert gzip.decompress(deflated.gzip(text)).decode() == "".join(text)


def test_only_large_parts_of_the_last_text_are_kept() -> None:
    deflated = DeflatedParts()
    deflated.gzip(["a" * 20_000, "b", "c" * 20_000])
    deflated.gzip(["a" * 20_000, "b"])
    assert list(deflated._known) == ["a" * 20_000]
