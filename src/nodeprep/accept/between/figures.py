"""What was measured between nodes: the shape that the worker reports and the judge reads.

A figure that is None was not measured; `troubles` says why. Both ways of a pair are told apart,
because cables and queues fail one way: `(a to b, b to a)`.
"""

from __future__ import annotations

from nodeprep.model.base import Frozen

Both = tuple[float | None, float | None]
NOTHING: Both = (None, None)


class Trouble(Frozen):
    """Why something was not measured. `node`: the one of the two that is known to be the reason."""

    why: str
    node: str = ""


class PairFigures(Frozen):
    """One pair.

    tcp       Gbit/s of payload that arrived       loss      percent of UDP datagrams, at `offered`
    jitter    ms, of the same datagrams            offered   Gbit/s of UDP that was sent
    ceiling   Gbit/s of UDP that arrived when as much as possible was sent; no gate judges it
    mtu       bytes, of the interfaces of a and b  path_mtu  bytes that a do-not-fragment ping had
    troubles  by what was not measured: tcp, loss, path_mtu
    again     measured once more, because the first time was bad
    """

    a: str
    b: str
    round: int = 0
    tcp: Both = NOTHING
    loss: Both = NOTHING
    jitter: Both = NOTHING
    offered: float | None = None
    ceiling: Both = NOTHING
    mtu: tuple[int | None, int | None] = (None, None)
    path_mtu: int | None = None
    troubles: dict[str, Trouble] = {}
    again: bool = False

    @property
    def pair(self) -> tuple[str, str]:
        return (self.a, self.b)


class GroupFigures(Frozen):
    """One all_reduce over a group, in the order of its ring.

    busbw   GB/s of bus bandwidth with large messages; None: `trouble` says why
    wrong   values that came out wrong
    """

    group: tuple[str, ...]
    busbw: float | None = None
    wrong: int = 0
    trouble: Trouble | None = None


class ClockFigures(Frozen):
    """One node's clock.

    source_ms  ms ahead of the source that chrony follows; None: `trouble` says why
    here_ms    ms ahead of the machine that measures, known to `error_ms`
    """

    node: str
    source_ms: float | None = None
    here_ms: float | None = None
    error_ms: float = 0.0
    trouble: str = ""
