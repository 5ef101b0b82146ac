"""What every parser needs: the typed error, cleaning of text, and numbers that may be absent."""

from __future__ import annotations

import math
import re

# CSI sequences (nvidia-smi underlines its headings), OSC sequences, and lone escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_NUMBER = re.compile(r"^[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?$")


class ParseError(ValueError):
    """A tool's output does not hold what it must. `tool` names whose output it was."""

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(f"{tool}: {message}")
        self.tool = tool


def clean(text: str) -> str:
    """Without escape codes and carriage returns."""
    return _ESCAPES.sub("", text).replace("\r", "")


def number(text: str | None) -> float | None:
    """The figure at the start of `41.5 W`; None for N/A, [N/A], ERR!, and anything else.

    A decimal comma is understood: some locales print one.
    """
    word = (text or "").strip().split(maxsplit=1)
    if not word or not _NUMBER.match(word[0]):
        return None
    value = float(word[0].replace(",", "."))
    return value if math.isfinite(value) else None


def whole(text: str | None) -> int | None:
    """Like `number`, for counts: `16x` and `8 MiB` too; None when it is not a whole number."""
    value = number((text or "").strip().removesuffix("x"))
    return int(value) if value is not None and value == int(value) else None


def excerpt(text: str, limit: int = 160) -> str:
    """The start of an output on one line, for a message."""
    line = " | ".join(part.strip() for part in clean(text).splitlines() if part.strip())
    return line if len(line) <= limit else line[: limit - 1] + "…"
