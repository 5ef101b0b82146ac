"""`chronyc -n tracking`: whether the clock follows a source, and how far off it is."""

from __future__ import annotations

from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "chronyc tracking"
# What chronyd calls its own clock, which it serves under `local` when it has no source: 127.127.1.1
_OWN = ("7F7F01", "127.127.1.")


@dataclass(frozen=True)
class Tracking:
    """`offset_s`: how far the system clock is from the source, in seconds, without its sign."""

    reference: str
    stratum: int | None
    offset_s: float | None
    leap: str

    @property
    def synchronised(self) -> bool:
        if self.reference.upper().startswith(_OWN):
            return False
        return self.leap in ("Normal", "Insert second", "Delete second")


def parse_tracking(text: str) -> Tracking:
    """ParseError without a leap status: chronyd did not answer."""
    fields = {
        key.strip(): value.strip()
        for key, sep, value in (line.partition(":") for line in clean(text).splitlines())
        if sep
    }
    leap = fields.get("Leap status", "")
    if not leap:
        raise ParseError(TOOL, f"no leap status in: {excerpt(text) or 'nothing'}")
    return Tracking(
        reference=fields.get("Reference ID", ""),
        stratum=whole(fields.get("Stratum")),
        offset_s=number(fields.get("System time")),
        leap=leap,
    )
