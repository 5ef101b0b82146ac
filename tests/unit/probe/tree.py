"""A node that is a folder: files under a root, and tools that are scripts on a PATH."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from nodeprep.probe import reader

MOUNTINFO = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro\n"
DPKG = "dpkg\tamd64\t1.21\tinstall\tinstalled\tok\n"


class Tree:
    """Written to by a test, then read by the reader as if it were `/`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.write("/proc/self/mountinfo", MOUNTINFO)
        self.write("/proc/meminfo", "MemTotal:       527000000 kB\n")
        self.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        self.write("/etc/group", "root:x:0:\n")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def link(self, name: str, target: str) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def tool(self, name: str, out: str = "", *, rc: int = 0, err: str = "", sh: str = "") -> None:
        """A tool that prints, or runs a line of shell."""
        kept = self.bin / f"{name}.out"
        kept.write_text(out, encoding="utf-8")
        line = sh or f"/bin/cat '{kept}'; printf '%s' '{err}' >&2; exit {rc}"
        script = self.bin / name
        script.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        script.chmod(0o755)

    def request(self, *claims: dict[str, Any], **other: Any) -> dict[str, Any]:
        named = [{"id": f"r/{c['kind']}:{c['name']}", **c} for c in claims]
        return {
            "node": "gpu-01",
            "claims": named,
            "hardware": False,
            "root": str(self.root),
            "path": f"{self.bin}:/usr/bin:/bin" if other.pop("system", False) else str(self.bin),
            **other,
        }

    def read(self, *claims: dict[str, Any], **other: Any) -> dict[str, Any]:
        """The whole answer, through the JSON that a node would send."""
        answer = reader.read(self.request(*claims, **other))
        whole: dict[str, Any] = json.loads(json.dumps(answer))
        return whole

    def data(self, kind: str, name: str, **claim: Any) -> dict[str, Any]:
        found = self.read({"kind": kind, "name": name, **claim})["readings"][f"r/{kind}:{name}"]
        assert not found.get("error"), found
        data: dict[str, Any] = found["data"]
        return data

    def error(self, kind: str, name: str, **claim: Any) -> str:
        found = self.read({"kind": kind, "name": name, **claim})["readings"][f"r/{kind}:{name}"]
        assert not found.get("data"), found
        text: str = found["error"]
        return text

    def hardware(self) -> dict[str, Any]:
        found: dict[str, Any] = self.read(hardware=True)["hardware"]
        return found


def run(program: bytes, python: str = sys.executable) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [python, "-I", "-"], input=program, capture_output=True, check=False, timeout=60
    )
