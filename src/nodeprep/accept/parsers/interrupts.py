"""`/proc/interrupts`: how often each interrupt was served by each CPU."""

from __future__ import annotations

import re

from nodeprep.accept.parsers.text import ParseError, clean

TOOL = "/proc/interrupts"


def parse_interrupts(text: str) -> dict[int, dict[int, int]]:
    """Counts by interrupt and CPU. Lines of exceptions (NMI, LOC, …) are left out."""
    head, _, rest = clean(text).lstrip("\n").partition("\n")
    cpus = [int(word[3:]) for word in head.split() if re.fullmatch(r"CPU\d{1,5}", word)]
    if not cpus:
        raise ParseError(TOOL, "no line tells of the CPUs")
    found: dict[int, dict[int, int]] = {}
    for line in rest.splitlines():
        number, colon, counts = line.partition(":")
        words = counts.split()[: len(cpus)]
        whole = len(words) == len(cpus) and all(re.fullmatch(r"\d{1,19}", word) for word in words)
        if colon and whole and re.fullmatch(r"\d{1,9}", number.strip()):
            found[int(number)] = dict(zip(cpus, map(int, words), strict=True))
    if not found:
        raise ParseError(TOOL, "no interrupt is counted")
    return found
