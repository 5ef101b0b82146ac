"""`python -m nodeprep.accept.between.worker`: measures between nodes, from a job to events.

One connection a node, in one process: gevent changes the whole of it, so the parent stays out.

    NOTE   a word a round
    DONE   {"pair": PairFigures}, {"clock": ClockFigures}, {"group": GroupFigures}, or {"aside":
           a node's name, "why": …} for one that is in already and takes no part; the last one
           {"ended": true}
    ERROR  a node that cannot be reached; its pairs are then left out, the others go on
"""

from __future__ import annotations

import gc
import sys

from gevent import monkey

if __name__ == "__main__":
    # Before anything imports sockets or threads.
    monkey.patch_all(ssl=False, subprocess=False, signal=False)
    gc.disable()
    # paramiko loads a task runner for `Match exec` in ~/.ssh/config, which nodeprep never reads.
    sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gevent.pool import Pool

from nodeprep.accept.between.collective import LIMIT_S, AllReduce
from nodeprep.accept.between.figures import ClockFigures, GroupFigures, PairFigures, Trouble
from nodeprep.accept.between.job import Collective, Job
from nodeprep.accept.between.measure import PairTest, clock, why_busy
from nodeprep.accept.between.search import Group, search
from nodeprep.errors import EXIT_BAD_INPUT, EXIT_GOOD, NodeprepError, told
from nodeprep.model.event import Event, What
from nodeprep.remote import KeptRemote, Remote, connected, kept, remotes

Emit = Callable[[Event], None]


def measure(job: Job, nodes: Mapping[str, Any], emit: Emit) -> None:
    """All rounds between the connected `nodes`; pairs of others are left out."""
    nodes = _taking_part(job, nodes, emit)
    if job.collective is not None:
        _collective(job, job.collective, nodes, emit)
    if not job.rounds:
        return
    clocks = Pool(job.concurrency).imap_unordered(_clock, nodes.values())
    for found in clocks:
        emit(_done("clock", found))
    for number, pairs in enumerate(job.rounds):
        running = [pair for pair in pairs if set(pair) <= set(nodes)]
        names = ", ".join(f"{a}-{b}" for a, b in running)
        told = f"between nodes, round {number + 1} of {len(job.rounds)}: {names or 'nobody'}"
        emit(Event(what=What.NOTE, data={"text": told}))
        tests = [_pair(job, nodes, pair, number) for pair in running]
        for figures in Pool(job.concurrency).imap_unordered(_run, tests):
            emit(_done("pair", figures))


def _taking_part(job: Job, nodes: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Without those that are at work: their figures say nothing, and their jobs would suffer."""
    standing = [m for m in job.members if m.standing and m.name in nodes]
    asked = Pool(job.concurrency).imap(lambda m: (m, _busy(nodes[m.name])), standing)
    aside: dict[str, str] = {}
    spares = job.spares
    for member, busy in asked:
        why = busy
        if member.spare and not busy:
            spares -= 1
            why = "" if spares >= 0 else "not needed"
        if why:
            aside[member.name] = why
            emit(Event(what=What.DONE, data={"aside": member.name, "why": why}))
    return {name: node for name, node in nodes.items() if name not in aside}


def _busy(node: Remote | KeptRemote) -> str:
    try:
        return why_busy(node)
    except Exception as problem:  # noqa: BLE001 - one node must not end the others
        return f"{type(problem).__name__}: {problem}"


def _collective(job: Job, wanted: Collective, nodes: Mapping[str, Any], emit: Emit) -> None:
    """all_reduce over the groups that `search` asks for, until it knows enough."""
    names = [name for name in wanted.names if name in nodes]
    asking = search(names, wanted.new)
    try:
        step = next(asking)
        while True:
            told = ", ".join("-".join(group) if len(group) == 2 else f"{len(group)} together"
                             for group in step)  # fmt: skip
            emit(Event(what=What.NOTE, data={"text": f"all_reduce between nodes: {told}"}))
            found = _reduced(job, nodes, step)
            unknown = [one.group for one in found if one.busbw is None]
            # Whatever came to nothing once may have been an accident: as with pairs, it counts
            # when it happens again.
            again = {one.group: one for one in _reduced(job, nodes, unknown)}
            found = [again.get(one.group, one) for one in found]
            for figures in found:
                emit(_done("group", figures))
            step = asking.send({one.group: _good(one, wanted.least) for one in found})
    except StopIteration:
        return


def _reduced(job: Job, nodes: Mapping[str, Any], groups: Sequence[Group]) -> list[GroupFigures]:
    tests = [_all_reduce(job, nodes, group) for group in groups]
    return list(Pool(job.concurrency).imap_unordered(_reduce, tests))


def _all_reduce(job: Job, nodes: Mapping[str, Any], group: Group) -> AllReduce:
    members = {m.name: m for m in job.members if m.name in group}
    return AllReduce(
        [nodes[name] for name in group],
        {name: member.address for name, member in members.items()},
        gpus=min(member.gpus for member in members.values()),
        limit_s=LIMIT_S,
    )


def _reduce(test: AllReduce) -> GroupFigures:
    try:
        return test.run()
    except Exception as problem:  # noqa: BLE001 - one group must not end the others
        return test.nothing(Trouble(why=f"{type(problem).__name__}: {problem}"))


def _good(found: GroupFigures, least: float) -> bool | None:
    return None if found.busbw is None else found.busbw >= least and not found.wrong


def _pair(job: Job, nodes: Mapping[str, Any], pair: tuple[str, str], number: int) -> PairTest:
    a, b = (next(m for m in job.members if m.name == name) for name in pair)
    return PairTest(
        nodes[a.name],
        nodes[b.name],
        (a.address, b.address),
        number=number,
        seconds=job.seconds,
        udp_mbps=min(a.udp_mbps, b.udp_mbps),
    )


def _run(test: PairTest) -> PairFigures:
    try:
        return test.run()
    except Exception as problem:  # noqa: BLE001 - one pair must not end the others
        why = f"{type(problem).__name__}: {problem}"
        return test.nothing(Trouble(why=why))


def _clock(node: Remote | KeptRemote) -> ClockFigures:
    try:
        return clock(node, time.time)
    except Exception as problem:  # noqa: BLE001
        return ClockFigures(node=node.name, trouble=f"{type(problem).__name__}: {problem}")


def _done(what: str, found: PairFigures | ClockFigures | GroupFigures) -> Event:
    return Event(what=What.DONE, data={what: found.model_dump(mode="json")})


def main() -> int:
    """0 when it came to its end, whatever was measured; 4 for a job that is none."""
    gc.freeze()
    gc.enable()
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is not an event

    def emit(event: Event) -> None:
        try:
            stream.write(event.line())
            stream.flush()
        except BrokenPipeError:  # the parent is gone: nobody wants the rest
            os._exit(1)

    try:
        job = Job.model_validate_json(sys.stdin.read())
    except ValueError as problem:
        print(f"the job is none: {type(problem).__name__}", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        _all(job, emit)
    except KeyboardInterrupt:
        return 130
    emit(Event(what=What.DONE, data={"ended": True}))
    return EXIT_GOOD


def _all(job: Job, emit: Emit) -> None:
    opened = connected(_reached(job), concurrency=job.concurrency)
    nodes: dict[str, Remote | KeptRemote] = {}
    for name, found in opened.items():
        if isinstance(found, NodeprepError):
            emit(_error(name, found))
        else:
            nodes[name] = found
    try:
        measure(job, nodes, emit)
    finally:
        for remote in nodes.values():
            remote.close()


def _reached(job: Job) -> dict[str, Remote | KeptRemote]:
    """Nodes outside the run have no connection yet that anybody keeps."""
    own = {m.name: m.connection for m in job.members if m.spare or not job.keeper}
    theirs = {m.name: m.connection.user for m in job.members if m.name not in own}
    return {**(kept(theirs, job.keeper) if job.keeper else {}), **remotes(own)}


def _error(name: str, error: NodeprepError) -> Event:
    return Event(what=What.ERROR, node=name, data=told(error))


if __name__ == "__main__":
    sys.exit(main())
