"""Text from nodes, made fit to be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.report.safe import clean, encodable, one_line


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07after", "after"),
        ("a\r\nb", "a\nb"),
        ("a\x00b\x7fc\u202ed", "a\ufffdb\ufffdc\ufffdd"),
        ("ü 漢 …", "ü 漢 …"),
    ],
)
def test_escapes_go_and_controls_are_marked(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text(st.characters()))
def test_nothing_unfit_is_left(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert clean(cleaned) == cleaned
    assert not any(ord(c) < 32 and c not in "\t\n" for c in cleaned)


def test_a_long_line_is_cut_with_a_mark() -> None:
    assert one_line("a  b\nc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


def test_undecodable_bytes_are_replaced() -> None:
    assert encodable("a\udcffb") == "a?b"
