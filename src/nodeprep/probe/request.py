"""The reader's two ends on the controller: the program sent, and what is made of its answer.

`program` gives the bytes for the stdin of `python3 -I -` on a node (run as root), `parse` finds the
answer in whatever came back on stdout: banners before it, escape codes, megabytes of noise.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nodeprep.errors import ReadingFailed
from nodeprep.model.claim import (
    NIC_GROUPS,
    Claim,
    File,
    Filesystem,
    Module,
    Mount,
    Nic,
    Output,
)
from nodeprep.model.reading import NodeReading
from nodeprep.probe import reader

# What a node is told of a claim. Never a file's content: the hash is enough to compare.
_TOLD = {
    File: ("sha256", "secret"),
    Module: ("built", "file"),
    Filesystem: ("uuid", "array", "volume"),
    Mount: ("device",),
    Nic: NIC_GROUPS,
    Output: ("argv", "timeout_s"),
}
_HEAD = re.compile(re.escape(reader.BEGIN.encode()) + rb" (\d{1,9}) ([0-9a-f]{8})\s*\n")
_EXCERPT = 300


def program(
    claims: Iterable[Claim],
    hardware: bool,
    node: str,
    *,
    deadline_s: float = reader.DEADLINE_S,
    path: str = "",
    root: str = "",
) -> bytes:
    """The reader with its request, as one Python script for stdin.

    deadline_s  seconds after which the node answers with what it has
    path, root  for tests: where the node's tools are, and a tree that stands in for its `/`
    """
    request = {
        "node": node,
        "claims": [_told(claim) for claim in claims if claim.applies],
        "hardware": hardware,
        "deadline_s": deadline_s,
        "path": path,
        "root": root,
    }
    text = json.dumps(request, separators=(",", ":"))
    return _source() + f"exec(READER)\nmain({_packed(text.encode())}.decode())\n".encode()


def _told(claim: Claim) -> dict[str, Any]:
    told = {"id": claim.id, "kind": claim.kind, "name": claim.name}
    return told | {key: getattr(claim, key) for key in _TOLD.get(type(claim), ())}


@functools.cache
def _source() -> bytes:
    text = Path(reader.__file__).read_bytes()
    # Compiled from its own name, so that a traceback tells where it came from.
    return (
        "import base64, zlib\n"
        f"READER = compile({_packed(text)}, 'nodeprep-reader', 'exec', dont_inherit=True)\n"
    ).encode()


def _packed(data: bytes) -> str:
    """An expression for `data`: a quarter of its size, and no quote or line end can break it."""
    return f"zlib.decompress(base64.b64decode({base64.b64encode(zlib.compress(data, 9))!r}))"


def parse(stdout: bytes | str, node: str) -> NodeReading:
    """The reading of `node` in its output; the last whole one, should there be several.

    Raises ReadingFailed, with a shortened excerpt of what was said instead.
    """
    raw = stdout.encode("utf-8", "replace") if isinstance(stdout, str) else stdout
    heads = list(_HEAD.finditer(raw))
    for head in reversed(heads):
        line = raw[head.end() : head.end() + int(head[1])]
        if f"{zlib.crc32(line):08x}".encode() == head[2]:
            return _validated(line, node)
    torn = "its answer breaks off or is damaged" if heads else "it gave no reading"
    raise ReadingFailed(
        f"{node}: {torn}; {_excerpt(raw)}",
        hint="log in by hand and run `python3 -c 'print(1)'`: it must print 1 and nothing broken",
    )


def _validated(line: bytes, node: str) -> NodeReading:
    try:
        reading = NodeReading.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReadingFailed(f"{node}: its answer is malformed: {where}: {first['msg']}") from None
    if reading.node != node:
        raise ReadingFailed(f"{node}: answered as {reader.shorten(reading.node, 80)!r}")
    return reading


def _excerpt(raw: bytes) -> str:
    """The end of what was printed: that is where the error stands."""
    text = reader.shorten(raw[-8192:].decode("utf-8", "replace"), 8192)
    if not text:
        return "it printed nothing"
    return "it printed: " + (text if len(text) <= _EXCERPT else "…" + text[-_EXCERPT:])
