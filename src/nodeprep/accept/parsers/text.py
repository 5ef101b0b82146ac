"""What every parser needs: the typed error, cleaning of text, and numbers that may be absent."""

from __future__ import annotations

import math
import re

# CSI sequences (nvidia-smi underlines its headings), OSC sequences, and lone escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_NUMBER = re.compile(r"^[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?$")
# As `Test NCCL failure common.cu:958 'unhandled cuda error'`, `WAIVED`, `ERROR: …` have them.
_COMPLAINT = re.compile(
    r"\b(?:error|failed|failure|fatal|waived|unable|cannot|couldn't|not supported|NCCL WARN)\b",
    re.IGNORECASE,
)
_CAUSE = re.compile(r"NCCL WARN")
# NCCL tells in INFO what it does without, and by which calls an error came up.
_HARMLESS = re.compile(r"NCCL INFO|\bwarning:", re.IGNORECASE)


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
    """An output on one line, for a message: what fits of its start, or of what it complains of.

    Tools that print much say at its end why they gave up, and NCCL some way above that.
    """
    parts = [part.strip() for part in clean(text).splitlines() if part.strip()]
    line = " | ".join(parts)
    if len(line) <= limit:
        return line
    line = " | ".join(_complaints(parts) or parts)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _complaints(lines: list[str]) -> list[str]:
    """Each once; those first that tell a cause, of which the others are the consequence."""
    said = [line for line in lines if _COMPLAINT.search(line) and not _HARMLESS.search(line)]
    return sorted(dict.fromkeys(said), key=lambda line: not _CAUSE.search(line))
