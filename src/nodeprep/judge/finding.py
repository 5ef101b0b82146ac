"""What the judge of one kind says: before waivers, and before it is a verdict with its evidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`problems` empty: the claim holds. `unknown`: it could not be told, whatever the problems.

    `reboot` False: a claim that may need a reboot is mended without one this time.
    """

    read: str
    problems: tuple[str, ...] = ()
    unknown: bool = False
    action: str = ""
    diff: str = ""
    reboot: bool = True


def unknown(reason: str, *, read: str = "", action: str = "") -> Finding:
    return Finding(read=read, problems=(reason,), unknown=True, action=action)
