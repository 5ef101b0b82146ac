"""A world without nodes: stands in for the worker processes, and remembers what was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodeprep.errors import ToolFailure
from nodeprep.model.event import Event, What

Feed = Callable[[Event], None]
Node = Mapping[str, Any]


@dataclass
class World:
    """`broken`: claim ids that do not hold, by node; converging mends them, save `stubborn`."""

    broken: dict[str, set[str]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)  # nodes on which nothing holds yet
    stubborn: set[str] = field(default_factory=set)
    errors: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    consequences: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    bad_proof: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)  # nodes of which a worker says nothing
    boot: str = "boot-1"
    interrupt: str = ""
    jobs: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def run(self, module: str, job: Mapping[str, Any], feed: Feed, *, log: Path) -> None:
        kind = str(job.get("job", "converge"))
        nodes = job["nodes"]
        names = tuple(nodes if isinstance(nodes, dict) else [node["name"] for node in nodes])
        self.jobs.append((kind, names))
        if kind == self.interrupt:
            raise KeyboardInterrupt
        each = nodes.items() if isinstance(nodes, dict) else [(n["name"], n) for n in nodes]
        for name, node in each:
            if name in self.mute:
                continue
            if (kind, name) in self.errors:
                feed(Event(what=What.ERROR, node=name, data=self.errors[kind, name]))
                if (kind, name) in self.consequences:
                    feed(Event(what=What.ERROR, node=name, data=self.consequences[kind, name]))
            else:
                getattr(self, kind)(name, node, feed)

    def run_each(
        self, module: str, jobs: Sequence[Mapping[str, Any]], feeds: Sequence[Feed], **_: Any
    ) -> list[ToolFailure | None]:
        names = tuple(job["document"]["node"]["name"] for job in jobs)
        self.jobs.append(("accept", names))
        for name, job, feed in zip(names, jobs, feeds, strict=True):
            if name not in self.mute:
                self.accept(name, job, feed)
        return [None] * len(jobs)

    def contact(self, name: str, node: Node, feed: Feed) -> None:
        feed(Event(what=What.DONE, node=name, data={"bootstrapped": True, "changed": []}))

    def read(self, name: str, node: Node, feed: Feed) -> None:
        ids = {f"{c['role']}/{c['kind']}:{c['name']}": c for c in node["claims"]}
        bad = set(ids) if name in self.fresh else self.broken.get(name, set())
        readings = {i: {"data": _bad(c) if i in bad else _good(c)} for i, c in ids.items()}
        host = {"hostname": name, "os_id": "debian", "os_version": "12", "boot_id": self.boot}
        data = {"node": name, "host": host, "readings": readings, "hardware": {}}
        feed(Event(what=What.READING, node=name, data=data))

    def converge(self, name: str, node: Node, feed: Feed) -> None:
        asked = {claim for ids in node["unmet"].values() for claim in ids}
        self.broken[name] = (self.broken.get(name, set()) - asked) | (asked & self.stubborn)
        self.fresh.discard(name)
        changed = [f"{role}: Converge" for role in node["roles"]]
        feed(Event(what=What.DONE, node=name, data={"changed": changed, "failed": False}))

    def accept(self, name: str, job: Mapping[str, Any], feed: Feed) -> None:
        outcome = "fail" if name in self.bad_proof else "pass"
        proof = {"claim": "greet/proof:voice", "role": "greet", "verdict": outcome,
                 "wanted": "loud", "read": "quiet", "reason": "it is quiet"}  # fmt: skip
        for verdict in (*job["claims"], proof):
            feed(Event(what=What.VERDICT, data=verdict))
        feed(Event(what=What.DONE, data={"collected": 1, "counts": {}}))

    def asked(self, kind: str) -> list[str]:
        return [name for job, names in self.jobs if job == kind for name in names]


def _good(claim: Node) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "file": {"exists": True, "sha256": claim.get("sha256"), "mode": "0644",
                 "owner": "root", "group": "root"},
        "package": {"version": claim.get("version"), "held": True},
        "sysctl": {"running": claim.get("value"), "persisted": claim.get("value"),
                   "persisted_in": "/etc/sysctl.d/x.conf"},
        "module": {"loaded": True, "builtin": False},
    }  # fmt: skip
    return kinds[claim["kind"]]


def _bad(claim: Node) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "file": {"exists": False},
        "package": {"version": None, "held": False},
        "sysctl": {"running": "99", "persisted": None, "persisted_in": None},
        "module": {"loaded": False, "builtin": False},
    }
    return kinds[claim["kind"]]
