"""What a tool answers: its exit status and the two streams."""

from __future__ import annotations

from typing import NamedTuple


class Result(NamedTuple):
    rc: int = 0
    out: str = ""
    err: str = ""


class Usage(Exception):
    """A tool was asked for something that it does not offer; carries what it then answers."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.err or result.out)
        self.result = result


def lines(rows: list[str]) -> str:
    return "".join(row + "\n" for row in rows)
