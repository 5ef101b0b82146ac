"""The proofs between nodes: after each node's own, and before it is decided who is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodeprep import workers
from nodeprep.accept.between import verdicts
from nodeprep.accept.between.figures import ClockFigures, GroupFigures, PairFigures
from nodeprep.accept.between.measurements import ALL
from nodeprep.accept.between.rounds import Pair, Round, involving, only, rounds
from nodeprep.errors import ToolFailure
from nodeprep.model.event import Event, What
from nodeprep.model.lifecycle import State
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Verdict
from nodeprep.pipeline.run import Run, Work, keep_json

_MODULE = "nodeprep.accept.between.worker"
_STANDING = (State.ACCEPTED, State.JOINED)
_RECEIVER_MBPS = 5000  # above it a single-threaded iperf3 loses what the network did not
_SLOWEST_MBPS = 100  # of a NIC that the profile does not tell of
_NO_GATES = "the profile has no gates for what is between nodes (network.tcp, …)"
_ALONE = "the inventory has no other node that it could be measured with"
_NOBODY = "no other node is in this run, and of the inventory's others none is accepted yet"
_TOGETHER = "provision it together with another node: then the pair is measured"
_SPARES = 3  # nodes outside the run that a newcomer is measured with; two tell whose fault it is
_ASKED = 8  # nodes outside the run that are asked whether they are idle
_COLLECTIVE = "nccl.all_reduce.inter_node.busbw"


def between(run: Run, works: Sequence[Work]) -> dict[str, tuple[Verdict, ...]]:
    """Verdicts by name of the nodes to be accepted.

    Each is measured with every other one, and with the nodes of the run that are accepted already;
    among those nothing is measured again, so that a job on them is disturbed by newcomers alone.
    A newcomer that is alone in its run is measured with accepted nodes of the inventory. Nodes
    that are at work are left alone. docs/adr/0005 says why.
    """
    new = {work.name: work for work in works if work.going and _takes_part(work.document)}
    found = {
        w.name: verdicts.not_applicable(_NO_GATES) for w in works if not _takes_part(w.document)
    }
    if not new:
        return found
    judged = {work.name for work in works}
    others = [work for work in run.going() if work.name not in judged]
    standing = [w for w in others if w.before in _STANDING and _takes_part(w.document)]
    spare: list[Document] = []
    if len(new) + len(standing) < 2:
        rest = _rest(run)
        if not rest:
            return found | {name: verdicts.not_applicable(_ALONE) for name in new}
        spare = [d for d in rest if run.ledger.state(d.node.name).state in _STANDING][:_ASKED]
        if not spare:
            return found | {name: verdicts.unknown(_NOBODY, _TOGETHER) for name in new}
        names = ", ".join(document.node.name for document in spare)
        run.note(f"between nodes: measured with nodes outside this run ({names})")
    measured = _Measured(run, list(new.values()), standing, spare)
    plan = involving(rounds(measured.names), new)
    measured.run(plan)
    again = verdicts.suspicious(measured.fleet())
    if again:
        run.note(f"between nodes: {len(again)} bad or unknown pairs are measured once more")
        measured.run(only(plan, again))
    measured.collective()
    measured.keep()
    return found | verdicts.judge(measured.fleet(), [*new])


def _takes_part(document: Document) -> bool:
    """Nodes whose profile says what they owe each other; one gate makes the others due."""
    gates = document.node.profile.gates
    return any(measurement.gate in gates for measurement in ALL)


def _rest(run: Run) -> list[Document]:
    """The inventory's nodes that are not in this run."""
    from nodeprep.inventory import load  # noqa: PLC0415 - only where --limit left somebody out

    site = load(run.site.inventory, vault_password_file=run.options.vault_password_file)
    return [d for d in site.documents if d.node.name not in run.works and _takes_part(d)]


class _Measured:
    """What the worker told so far of newcomers, and of others that are in already."""

    def __init__(
        self, run: Run, new: Sequence[Work], standing: Sequence[Work], spare: Sequence[Document]
    ) -> None:
        self._run = run
        self._works = {work.name: work for work in (*new, *standing)}
        self._new = {work.name: work.document for work in new}
        self._standing = {work.name: work.document for work in standing}
        self._spare = {document.node.name: document for document in spare}
        self._documents = {**self._new, **self._standing, **self._spare}
        self._pairs: dict[Pair, PairFigures] = {}
        self._clocks: dict[str, ClockFigures] = {}
        self._groups: list[GroupFigures] = []
        self._lost: dict[str, str] = {}
        self._aside: dict[str, str] = {}
        self._held: dict[str, str] = {}
        self._ended = False

    @property
    def names(self) -> list[str]:
        return list(self._documents)

    def run(self, plan: Sequence[Round]) -> None:
        """One worker over these rounds; what it tells of a pair replaces what was known."""
        from nodeprep.accept.between.job import SECONDS  # noqa: PLC0415 - with its parsers

        self._work(
            self.names,
            rounds=[[pair for pair in one if all(map(self._goes, pair))] for one in plan],
            seconds=SECONDS[self._run.options.level].model_dump(),
        )
        for pair in (pair for one in plan for pair in one):
            if not set(pair) & self._aside.keys():
                self._pairs.setdefault(pair, PairFigures(a=pair[0], b=pair[1]))

    def collective(self) -> None:
        """all_reduce over all that have GPUs, without who would only make it slow."""
        able = {n: d for n, d in self._documents.items() if self._goes(n) and not _gpuless(d)}
        able = {n: d for n, d in able.items() if _COLLECTIVE in d.node.profile.gates}
        if not able.keys() & self._new.keys():
            return
        for name, found in verdicts.judge(self.fleet(), [*self._new]).items():
            blocking = [v for v in found if v.verdict.blocks and not verdicts.is_collective(v)]
            if blocking:
                self._held[name] = f"not tried, because {blocking[0].claim} did not pass"
        new = [name for name in self._new if name in able and name not in self._held]
        others = [name for name in able if name not in self._new]
        names = [*new, *others[:_SPARES]]
        if not new or len(names) < 2:
            return
        gates = [able[name].node.profile.gates[_COLLECTIVE].fail for name in names]
        self._work(names, collective={"names": names, "new": new, "least": min(gates)})

    def _work(self, names: Sequence[str], **what: Any) -> None:
        job = {
            "members": [self._member(name) for name in names if self._goes(name)],
            "spares": _SPARES,
            "keeper": self._run.keeper,
            **what,
        }
        self._ended = False
        try:
            workers.run(_MODULE, job, self._feed, log=self._run.log("between"))
        except ToolFailure as failure:
            self._run.note(f"between nodes: {failure.message}")
        if not self._ended:
            self._run.note("between nodes: the measurement did not come to its end")

    def _member(self, name: str) -> dict[str, Any]:
        return _member(self._documents[name]) | {
            "standing": name not in self._new,
            "spare": name in self._spare,
        }

    def _goes(self, name: str) -> bool:
        return name not in self._lost and name not in self._aside

    def _feed(self, event: Event) -> None:
        if event.what is What.ERROR and event.node in self._documents:
            self._lose(event)
        if event.what is not What.DONE:
            self._run.feed(event)
        elif "pair" in event.data:
            figures = PairFigures.model_validate(event.data["pair"])
            again = figures.pair in self._pairs
            self._pairs[figures.pair] = figures.model_copy(update={"again": again})
        elif "clock" in event.data:
            clock = ClockFigures.model_validate(event.data["clock"])
            self._clocks[clock.node] = clock
        elif "group" in event.data:
            self._groups.append(GroupFigures.model_validate(event.data["group"]))
        elif "aside" in event.data:
            self._aside[event.data["aside"]] = str(event.data["why"])
        else:
            self._ended = True

    def _lose(self, event: Event) -> None:
        """Of a node outside the run nothing is decided here: it is only left out."""
        why = str(event.data.get("message", ""))
        if event.node in self._spare:
            self._aside[event.node] = why
        else:
            self._lost[event.node] = why
            self._run.failed(self._works[event.node], event.data)

    def fleet(self) -> verdicts.Fleet:
        part = {name: d for name, d in self._documents.items() if name not in self._aside}
        silent = {name: ClockFigures(node=name, trouble="not measured") for name in part}
        clocks = silent | self._clocks
        return verdicts.Fleet(
            gates={name: document.node.profile.gates for name, document in part.items()},
            pairs=tuple(p for p in self._pairs.values() if set(p.pair) <= part.keys()),
            clocks=tuple(clocks[name] for name in part),
            groups=tuple(self._groups),
            lost=self._lost,
            baselines={name: self._baseline(name) for name in part},
            aside=self._aside,
            held=self._held,
            gpuless=[name for name, document in part.items() if _gpuless(document)],
            simulated=[name for name, work in self._works.items() if _simulated(work)],
        )

    def _baseline(self, name: str) -> Mapping[str, float]:
        last = self._run.ledger.last_accepted(name)
        return last.measurements if last else {}

    def keep(self) -> None:
        """All figures, for who wants to know more than the verdicts say."""
        keep_json(
            self._run.folder / "between.json",
            {
                "pairs": [figures.model_dump(mode="json") for figures in self._pairs.values()],
                "clocks": [figures.model_dump(mode="json") for figures in self._clocks.values()],
                "groups": [figures.model_dump(mode="json") for figures in self._groups],
                "lost": self._lost,
                "aside": self._aside,
            },
        )


def _gpuless(document: Document) -> bool:
    return document.node.profile.parts.gpus is None


def _simulated(work: Work) -> bool:
    return bool(work.reading and work.reading.host.simulated)


def _member(document: Document) -> dict[str, Any]:
    node = document.node
    gpus = node.profile.parts.gpus
    return {
        "name": node.name,
        "address": node.address or node.connection.host,
        "connection": node.connection.model_dump(mode="json"),
        "udp_mbps": udp_mbps(node.profile),
        "gpus": gpus.count if gpus else 0,
    }


def udp_mbps(profile: Profile) -> float:
    """The rate of UDP at which loss is judged: the profile's, else half of what the NIC carries."""
    gate = profile.gates.get("network.udp.rate")
    if gate is not None:
        return gate.fail * 1000
    speed = max((nic.speed_mbps for nic in profile.parts.nics), default=_SLOWEST_MBPS)
    return float(min(speed / 2, _RECEIVER_MBPS))
