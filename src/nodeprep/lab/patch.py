"""What changed between two JSON documents, and how to take just that back. Pure."""

from __future__ import annotations

from typing import Any

# Where a value lies, and what was there: ["gpus", 2, "ecc"], value. `absent`: nothing was.
Change = dict[str, Any]


def changes(before: Any, after: Any) -> list[Change]:
    """What must be set to make `before` of `after`. A list of another length counts as a whole."""
    found: list[Change] = []
    _walk(before, after, [], found)
    return found


def _walk(before: Any, after: Any, at: list[str | int], found: list[Change]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in before:
                found.append({"at": [*at, key], "absent": True})
            elif key not in after:
                found.append({"at": [*at, key], "value": before[key]})
            else:
                _walk(before[key], after[key], [*at, key], found)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            _walk(old, new, [*at, number], found)
    elif before != after or type(before) is not type(after):
        found.append({"at": at, "value": before})


def undone(document: dict[str, Any], undo: list[Change]) -> dict[str, Any]:
    """The document with changes taken back; what else changed meanwhile stays.

    Changes the document in place and returns it. A place that is gone is passed over.
    """
    for change in reversed(undo):
        *way, last = change["at"]
        try:
            place: Any = document
            for step in way:
                place = place[step]
            if change.get("absent"):
                del place[last]
            else:
                place[last] = change["value"]
        except (KeyError, IndexError, TypeError):
            continue
    return document
