"""The counts that `gdrcopy_sanity` prints, in both of its dialects; the rates of `copybw`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number

TOOL = "gdrcopy_sanity"
_COUNTS = re.compile(
    r"Total:\s*(\d+),\s*Passed:\s*(\d+),\s*Failed:\s*(\d+)(?:,\s*Waived:\s*(\d+))?"
)
_WAIVED = re.compile(r"^List of waived tests:\n((?:[ \t]+\S+[ \t]*(?:\n|$))+)", re.MULTILINE)
_RATE = re.compile(r"^(?:average )?(write|read) BW:\s*(\S+?)\s*MB/s", re.MULTILINE | re.IGNORECASE)
_CHECK = re.compile(r"\d+%:\s*Checks:\s*(\d+),\s*Failures:\s*(\d+),\s*Errors:\s*(\d+)")


@dataclass(frozen=True)
class GdrcopySanity:
    """`waived_tests`: their names, where the tool lists them (from 2.4 on)."""

    total: int
    passed: int
    failed: int
    waived: int
    waived_tests: tuple[str, ...] = ()


def parse_gdrcopy_sanity(text: str) -> GdrcopySanity:
    """The last count printed. ParseError without one, with none run, or when it does not add up."""
    body = clean(text)
    found: GdrcopySanity | None = None
    for match in _COUNTS.finditer(body):
        total, passed, failed, waived = (int((group or "0")[:9]) for group in match.groups())
        names = _WAIVED.search(body, match.end())
        listed = tuple(names.group(1).split()) if names else ()
        found = GdrcopySanity(total, passed, failed, waived, listed)
    for match in _CHECK.finditer(body) if found is None else ():
        checks, failures, errors = (int(group[:9]) for group in match.groups())
        found = GdrcopySanity(checks, checks - failures - errors, failures + errors, 0)
    if found is None or not found.total:
        raise ParseError(TOOL, f"no tests counted in: {excerpt(text) or 'nothing'}")
    if found.passed < 0 or found.passed + found.failed + found.waived != found.total:
        raise ParseError(TOOL, f"counts that do not add up: {found}")
    return found


def parse_gdrcopy_copybw(text: str) -> dict[str, float]:
    """MB/s of `write` and `read`. ParseError unless both are told."""
    rates = {
        match.group(1).lower(): value
        for match in _RATE.finditer(clean(text))
        if (value := number(match.group(2))) is not None
    }
    if rates.keys() != {"write", "read"}:
        raise ParseError("gdrcopy_copybw", f"no rates in: {excerpt(text) or 'nothing'}")
    return rates
