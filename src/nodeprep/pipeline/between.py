"""The proofs between nodes: after each node's own, and before it is decided who is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodeprep import workers
from nodeprep.accept.between import verdicts
from nodeprep.accept.between.figures import ClockFigures, PairFigures
from nodeprep.accept.between.measurements import ALL
from nodeprep.accept.between.rounds import Pair, Round, involving, only, rounds
from nodeprep.errors import ToolFailure
from nodeprep.model.event import Event, What
from nodeprep.model.lifecycle import State
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Verdict
from nodeprep.pipeline.run import Run, Work, keep_json

_MODULE = "nodeprep.accept.between.worker"
_STANDING = (State.ACCEPTED, State.JOINED)
_RECEIVER_MBPS = 5000  # above it a single-threaded iperf3 loses what the network did not
_SLOWEST_MBPS = 100  # of a NIC that the profile does not tell of
_NO_GATES = "the profile has no gates for what is between nodes (network.tcp, …)"
_ALONE = "no other node is in this run: there is nobody to measure with"


def between(run: Run, works: Sequence[Work]) -> dict[str, tuple[Verdict, ...]]:
    """Verdicts by name of the nodes to be accepted.

    Each is measured with every other one, and with the nodes of the run that are accepted already;
    among those nothing is measured again, so that a job on them is disturbed by newcomers alone.
    """
    new = {work.name: work for work in works if work.going and _takes_part(work)}
    others = (work for work in run.going() if work.name not in {one.name for one in works})
    standing = [w for w in others if w.before in _STANDING and _takes_part(w)]
    members = [*new.values(), *standing]
    found = {w.name: verdicts.not_applicable(_NO_GATES) for w in works if not _takes_part(w)}
    if len(members) < 2:
        return found | {name: verdicts.not_applicable(_ALONE) for name in new}
    measured = _Measured(run, members)
    plan = involving(rounds([work.name for work in members]), new)
    measured.run(plan)
    again = verdicts.suspicious(measured.fleet())
    if again:
        run.note(f"between nodes: {len(again)} bad or unknown pairs are measured once more")
        measured.run(only(plan, again))
    measured.keep()
    return found | verdicts.judge(measured.fleet(), [*new])


def _takes_part(work: Work) -> bool:
    """Nodes whose profile says what they owe each other; one gate makes the others due."""
    gates = work.document.node.profile.gates
    return any(measurement.gate in gates for measurement in ALL)


class _Measured:
    """What the worker told so far."""

    def __init__(self, run: Run, members: Sequence[Work]) -> None:
        self._run = run
        self._members = {work.name: work for work in members}
        self._pairs: dict[Pair, PairFigures] = {}
        self._clocks: dict[str, ClockFigures] = {}
        self._lost: dict[str, str] = {}
        self._ended = False

    def run(self, plan: Sequence[Round]) -> None:
        """One worker over these rounds; what it tells of a pair replaces what was known."""
        from nodeprep.accept.between.job import SECONDS  # noqa: PLC0415 - with its parsers

        job = {
            "members": [_member(work) for name, work in self._members.items() if self._goes(name)],
            "rounds": [[pair for pair in one if all(map(self._goes, pair))] for one in plan],
            "seconds": SECONDS[self._run.options.level].model_dump(),
        }
        self._ended = False
        try:
            workers.run(_MODULE, job, self._feed, log=self._run.log("between"))
        except ToolFailure as failure:
            self._run.note(f"between nodes: {failure.message}")
        if not self._ended:
            self._run.note("between nodes: the measurement did not come to its end")
        for pair in (pair for one in plan for pair in one):
            self._pairs.setdefault(pair, PairFigures(a=pair[0], b=pair[1]))

    def _goes(self, name: str) -> bool:
        return name not in self._lost

    def _feed(self, event: Event) -> None:
        work = self._members.get(event.node)
        if event.what is What.ERROR and work is not None:
            self._lost[work.name] = str(event.data.get("message", ""))
            self._run.failed(work, event.data)
        if event.what is not What.DONE:
            self._run.feed(event)
        elif "pair" in event.data:
            figures = PairFigures.model_validate(event.data["pair"])
            again = figures.pair in self._pairs
            self._pairs[figures.pair] = figures.model_copy(update={"again": again})
        elif "clock" in event.data:
            clock = ClockFigures.model_validate(event.data["clock"])
            self._clocks[clock.node] = clock
        else:
            self._ended = True

    def fleet(self) -> verdicts.Fleet:
        silent = {name: ClockFigures(node=name, trouble="not measured") for name in self._members}
        return verdicts.Fleet(
            gates={name: work.document.node.profile.gates for name, work in self._members.items()},
            pairs=tuple(self._pairs.values()),
            clocks=tuple((silent | self._clocks).values()),
            lost=self._lost,
            baselines={name: self._baseline(name) for name in self._members},
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
                "lost": self._lost,
            },
        )


def _member(work: Work) -> dict[str, Any]:
    node = work.document.node
    return {
        "name": node.name,
        "address": node.address or node.connection.host,
        "connection": node.connection.model_dump(mode="json"),
        "udp_mbps": udp_mbps(node.profile),
    }


def udp_mbps(profile: Profile) -> float:
    """The rate of UDP at which loss is judged: the profile's, else half of what the NIC carries."""
    gate = profile.gates.get("network.udp.rate")
    if gate is not None:
        return gate.fail * 1000
    speed = max((nic.speed_mbps for nic in profile.parts.nics), default=_SLOWEST_MBPS)
    return float(min(speed / 2, _RECEIVER_MBPS))
