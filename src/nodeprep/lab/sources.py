"""Where the machine itself gets Debian packages: apt's one-line and deb822 files, parsed.

What is found is used while an image is built and written nowhere that is kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nodeprep.lab import recipe

_DEBIAN = {"bullseye", "bookworm", "trixie", "forky", "sid", "stable", "testing"}


@dataclass(frozen=True)
class Source:
    """One address of packages: http://…/debian, ("bookworm", "bookworm-updates"), ("main",)."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def parse_one_line(text: str) -> tuple[Source, ...]:
    """`deb [options] URI suite component…`, the form of sources.list."""
    found = []
    for raw in text.splitlines():
        line = raw.split("#", 1)[0].strip()
        if not line.startswith(("deb ", "deb\t")):
            continue
        rest = line[3:].strip()
        if rest.startswith("["):
            _, closed, rest = rest.partition("]")
            if not closed:
                continue
        words = rest.split()
        if len(words) >= 2:
            found.append(Source(words[0], (words[1],), tuple(words[2:])))
    return tuple(found)


def parse_deb822(text: str) -> tuple[Source, ...]:
    """Stanzas of `Types:`, `URIs:`, `Suites:`, `Components:`, the form of *.sources."""
    found = []
    for fields in _stanzas(text):
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").strip().lower() in {"no", "false", "0", "off"}:
            continue
        suites = tuple(fields.get("suites", "").split())
        components = tuple(fields.get("components", "").split())
        found += [Source(uri, suites, components) for uri in fields.get("uris", "").split()]
    return tuple(found)


def _stanzas(text: str) -> Iterable[dict[str, str]]:
    fields: dict[str, str] = {}
    key = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, key = {}, ""
        elif line[0] in " \t":
            if key:
                fields[key] += " " + line.strip()
        else:
            name, colon, value = line.partition(":")
            if colon:
                key = name.strip().lower()
                fields[key] = value.strip()


def of_machine(root: Path = Path("/etc/apt")) -> tuple[Source, ...]:
    """Every enabled binary source of this machine."""
    found: list[Source] = []
    one_line = [root / "sources.list", *sorted((root / "sources.list.d").glob("*.list"))]
    for path in one_line:
        if path.is_file():
            found += parse_one_line(path.read_text(errors="replace"))
    for path in sorted((root / "sources.list.d").glob("*.sources")):
        found += parse_deb822(path.read_text(errors="replace"))
    return tuple(found)


def for_image(known: Iterable[Source]) -> str:
    """The sources.list to build an image with: the machine's mirror of Debian, or Debian's own."""
    archive, security = recipe.ARCHIVE, recipe.SECURITY
    for source in reversed(tuple(known)):
        folder = source.uri.rstrip("/").rsplit("/", 1)[-1]
        if "main" not in source.components or not folder.startswith("debian"):
            continue  # another vendor's repository for the same suite
        for suite in source.suites:
            base, _, pocket = suite.partition("-")
            base = base.split("/")[0]
            if base not in _DEBIAN:
                continue
            if pocket == "security":
                security = source.uri
            elif pocket == "":
                archive = source.uri
    suite = recipe.SUITE
    lines = (
        (archive, suite),
        (archive, f"{suite}-updates"),
        (security, f"{suite}-security"),
    )
    return "".join(
        f"deb [signed-by={shlex.quote(recipe.KEYRING)}] {uri} {name} main\n" for uri, name in lines
    )
