"""Where the machine gets packages, and what an image is built from."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.lab import recipe, sources
from nodeprep.lab.sources import Source

ONE_LINE = """
# deb http://old.example/debian bookworm main
deb [arch=amd64 signed-by=/x.gpg] http://mirror.example/debian/ bookworm main contrib
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main # security
"""
DEB822 = """\
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm
  bookworm-updates
Components: main
# a comment
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://src.example/debian
Suites: bookworm
Components: main
"""


def test_one_line_sources() -> None:
    assert sources.parse_one_line(ONE_LINE) == (
        Source("http://mirror.example/debian/", ("bookworm",), ("main", "contrib")),
        Source("http://mirror.example/debian-security", ("bookworm-security",), ("main",)),
    )


def test_deb822_sources_leave_out_what_is_disabled_or_source_only() -> None:
    assert sources.parse_deb822(DEB822) == (
        Source("http://mirror.example/debian", ("bookworm", "bookworm-updates"), ("main",)),
    )


def test_both_forms_are_found_on_a_machine(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://a.example/debian bookworm main\n")
    (parts / "b.list").write_text("deb http://b.example/debian bookworm main\n")
    (parts / "c.sources").write_text(DEB822)
    (parts / "d.sources.save").write_text(DEB822)
    assert [source.uri.split("/")[2] for source in sources.of_machine(tmp_path)] == [
        "a.example",
        "b.example",
        "mirror.example",
    ]


def test_an_image_is_built_from_the_machines_mirror() -> None:
    text = sources.for_image(sources.parse_one_line(ONE_LINE))
    lines = text.splitlines()
    assert [line.split()[2:] for line in lines] == [
        ["http://mirror.example/debian/", "bookworm", "main"],
        ["http://mirror.example/debian/", "bookworm-updates", "main"],
        ["http://mirror.example/debian-security", "bookworm-security", "main"],
    ]
    assert all(f"signed-by={recipe.KEYRING}" in line for line in lines)


def test_a_mirror_of_another_release_serves_too() -> None:
    trixie = Source("http://mirror.example/debian", ("trixie",), ("main",))
    assert "http://mirror.example/debian bookworm main" in sources.for_image([trixie])


def test_other_vendors_and_other_distributions_are_no_mirror_of_debian() -> None:
    others = (
        Source("http://archive.example/ubuntu", ("jammy",), ("main",)),
        Source("http://vendor.example", ("bookworm",), ("main",)),
        Source("http://vendor.example/linux/debian", ("bookworm",), ("stable",)),
    )
    text = sources.for_image(others)
    assert "example" not in text
    assert f"{recipe.ARCHIVE} bookworm main" in text


def test_the_first_mirror_wins() -> None:
    both = [Source(f"http://{n}.example/debian", ("bookworm",), ("main",)) for n in ("one", "two")]
    assert "two.example" not in sources.for_image(both)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    for source in (*sources.parse_one_line(text), *sources.parse_deb822(text)):
        assert source.uri


_WORD = st.from_regex(r"[a-z0-9./:-]{1,12}", fullmatch=True)


@given(st.lists(st.tuples(_WORD, _WORD, st.lists(_WORD, min_size=1, max_size=3)), max_size=4))
def test_what_is_written_in_either_form_is_read_back(
    entries: list[tuple[str, str, list[str]]],
) -> None:
    wanted = tuple(Source(uri, (suite,), tuple(parts)) for uri, suite, parts in entries)
    lines = "".join(f"deb {uri} {suite} {' '.join(parts)}\n" for uri, suite, parts in entries)
    stanzas = "\n".join(
        f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: {' '.join(parts)}\n"
        for uri, suite, parts in entries
    )
    assert sources.parse_one_line(lines) == wanted
    assert sources.parse_deb822(stanzas) == wanted
