"""`chronyc -n tracking`: whether the clock follows a source, and how far off it is."""

from __future__ import annotations

from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "chronyc tracking"
# What chronyd calls its own clock, which it serves under `local` when it has no source: 127.127.1.1
_OWN = ("7F7F01", "127.127.1.")
# chrony's own maxdistance: beyond it nobody takes a source for one. The leap status of a clock that
# lost its source stays Normal; only how wrong it may be grows.
_MOST_S = 3.0


@dataclass(frozen=True)
class Tracking:
    """`offset_s`: how far the system clock is from the source, in seconds, without its sign.

    error_s  how far from true time it may be at most (root delay / 2 + root dispersion)
    """

    reference: str
    stratum: int | None
    offset_s: float | None
    leap: str
    error_s: float | None = None

    @property
    def synchronised(self) -> bool:
        if self.reference.upper().startswith(_OWN) or (self.error_s or 0.0) > _MOST_S:
            return False
        return self.leap in ("Normal", "Insert second", "Delete second")

    @property
    def words(self) -> str:
        error = "" if self.error_s is None else f", right to {self.error_s:.4f} s"
        return f"leap status {self.leap}, reference {self.reference or 'none'}{error}"


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
    delay, dispersion = (number(fields.get(f"Root {part}")) for part in ("delay", "dispersion"))
    return Tracking(
        reference=fields.get("Reference ID", ""),
        stratum=whole(fields.get("Stratum")),
        offset_s=number(fields.get("System time")),
        leap=leap,
        error_s=None if delay is None or dispersion is None else abs(delay) / 2 + dispersion,
    )
