"""Makes events of what the callback plugin writes, and remembers how each node fared. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nodeprep.model.event import Event, What

_ESCAPES = re.compile(
    r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)|[\x00-\x08\x0b-\x1f\x7f]"
)
_CAP = 2000  # characters of a message
_TEXT_CAP = 300  # characters of a task's text
_LAST_LINES = 8  # of what a failed command printed
_BORING = (
    "set_fact", "include_vars", "assert", "validate_argument_spec", "meta", "include_tasks",
    "include_role",
)  # fmt: skip
# What Ansible puts before the words that tell.
_PREFIX = re.compile(
    r"^(Task failed: |Action failed: |Module failed: |Failed to connect to the host via ssh: |"
    r"Data could not be sent to remote host .*?over ssh: )+",
    re.DOTALL,
)
# Of a node that was not reached: type, what is said, what to do.
_NOT_REACHED = (
    ("HostKeyChanged", r"IDENTIFICATION HAS CHANGED",
     "compare the fingerprint with the provider's console before you trust it"),
    ("HostKeyUnknown", r"host key is known|Host key verification failed",
     "nodeprep provision does first contact, which records it"),
    ("LoginRefused", r"Permission denied", "nodeprep provision does first contact again"),
)  # fmt: skip
# Of a node on which a task failed: what is said, what to do.
_NODE_FAULTS = (
    (r"No space left on device|enough free space", "its disk is full: make room on it"),
    (r"Read-only file system", "a filesystem is read-only: look at its disk, then at dmesg"),
    (r"lock apt for exclusive operation|Could not get lock|held by process",
     "another apt or dpkg did not end in time: see what it does"),
    (r"dpkg was interrupted", "run `dpkg --configure -a` on it"),
    (r"Temporary failure resolving|Could not resolve|Name or service not known",
     "it resolves no names: check its DNS"),
    (r"Failed to fetch|Failed to update (apt )?cache|Could not connect|Connection timed out",
     "it does not reach a package mirror: check its network, and the addresses in the inventory"),
    (r"no repository of this node has",
     "set a version that is there in the inventory, or a repository that has the wanted one"),
    (r"No package matching|Unable to locate package|no available installation candidate",
     "no repository of the node has that package or version: check /etc/apt and the inventory"),
)  # fmt: skip


class Stream:
    """Feeds on lines, gives events. `unfinished` at the end: the nodes of which no word came."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._changed: dict[str, list[str]] = {name: [] for name in nodes}
        self._failed: set[str] = set()
        self._finished: set[str] = set()

    def feed(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if line["what"] == "stats":
            self._stats(line["hosts"])
        elif line["node"] in self._changed:
            yield from self._result(line["node"], line)

    def _stats(self, hosts: Mapping[str, Mapping[str, int]]) -> None:
        for name, counts in hosts.items():
            self._finished.add(name)
            if counts.get("failures") or counts.get("unreachable"):
                self._failed.add(name)

    def _result(self, node: str, line: Mapping[str, Any]) -> Iterator[Event]:
        status = line["status"]
        if line["action"] == "debug" and status == "ok":
            yield Event(what=What.NOTE, node=node, data={"text": _clean(line.get("msg", ""))})
            return
        if line["action"] in _BORING and status == "ok":
            return
        if status == "changed":
            self._changed[node].append(f"{line['role']}: {line['task']}")
        text = _message(line) if status in ("failed", "unreachable") else _what_changed(line)
        yield Event(
            what=What.TASK,
            node=node,
            data={
                "role": line["role"],
                "task": line["task"],
                "status": "failed" if status == "unreachable" else status,
                "text": text[:_TEXT_CAP],
                "seconds": line["seconds"],
            },
        )
        if status in ("failed", "unreachable"):
            self._failed.add(node)
            yield self.error(node, *_fault(line))

    def error(self, node: str, kind: str, message: str, hint: str = "") -> Event:
        """An ERROR event; the node has failed."""
        self._failed.add(node)
        return Event(
            what=What.ERROR, node=node, data={"type": kind, "message": message, "hint": hint}
        )

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Nodes that neither finished nor said why not."""
        return tuple(n for n in self._changed if n not in self._finished and n not in self._failed)

    def done(self) -> Iterator[Event]:
        """The DONE event of every node."""
        for node, changed in self._changed.items():
            data = {"changed": changed, "failed": node in self._failed}
            yield Event(what=What.DONE, node=node, data=data)


def _fault(line: Mapping[str, Any]) -> tuple[str, str, str]:
    """Type, message and hint of what went wrong."""
    message = _message(line)
    if line["status"] == "unreachable":
        for kind, said, hint in _NOT_REACHED:
            if re.search(said, message):
                return kind, message, hint
        return "Unreachable", message, "is it up, and its port open to this machine?"
    where = ": ".join(part for part in (line["role"], line["task"]) if part)
    hint = next((hint for said, hint in _NODE_FAULTS if re.search(said, message)), "")
    return "NodeFault" if hint else "ToolFailure", f"{where}: {message}"[:_CAP], hint


def _message(line: Mapping[str, Any]) -> str:
    """Why a task failed, with the last lines of what its command printed."""
    failed = [item for item in line.get("items", ()) if item["failed"]]
    texts = [_one_message(item) for item in failed] or [_one_message(line)]
    return "; ".join(texts)[:_CAP]


def _one_message(result: Mapping[str, Any]) -> str:
    if "censored" in result:
        return "it failed; what it said is hidden, because the task handles a secret"
    said = (result.get(key) for key in ("stderr", "module_stderr", "stdout", "module_stdout"))
    last = "\n".join(_clean(next((s for s in said if s), "")).strip().splitlines()[-_LAST_LINES:])
    message = _PREFIX.sub("", _clean(result.get("msg", ""))).strip()
    label = _clean(result.get("label", ""))
    parts = [label, message, last if last not in message else ""]
    return ": ".join(part for part in parts if part) or "it failed without a word"


def _what_changed(line: Mapping[str, Any]) -> str:
    if line["status"] != "changed":
        return ""
    labels = [_clean(item["label"]) for item in line.get("items", ()) if item["label"]]
    if line["action"] == "debug":
        return _clean(line.get("msg", ""))
    return ", ".join(labels)


def _clean(text: Any) -> str:
    """Without escape codes and control characters."""
    return _ESCAPES.sub("", str(text))
