"""The job of the worker between nodes: what it reads from stdin."""

from __future__ import annotations

from nodeprep.accept.between.measure import Seconds
from nodeprep.model.base import Frozen
from nodeprep.model.node import Connection


class Member(Frozen):
    """A node of the measurement. `address`: by which other nodes find it."""

    name: str
    address: str
    connection: Connection
    udp_mbps: float  # what it can be expected to receive without loss
    gpus: int = 0
    standing: bool = False  # it is in already, and may be at work
    spare: bool = False  # stands outside the run: so many of those as `Job.spares` take part


class Collective(Frozen):
    """all_reduce over these nodes, in the order of their ring; `least`: GB/s that are good.

    `new`: those that are to be judged.
    """

    names: tuple[str, ...]
    new: tuple[str, ...]
    least: float


class Job(Frozen):
    """`rounds`: pairs of names; those of one round run side by side.

    `keeper`: the socket of who holds the run's connections. It knows no spares.
    """

    members: tuple[Member, ...]
    rounds: tuple[tuple[tuple[str, str], ...], ...] = ()
    collective: Collective | None = None
    keeper: str | None = None
    spares: int = 3
    seconds: Seconds = Seconds()
    concurrency: int = 32


# How long each test sends, by level. At poc a link is proven, later its endurance.
SECONDS = {
    "poc": Seconds(),
    "stress": Seconds(tcp=10, udp=5, ceiling=2),
    "burnin": Seconds(tcp=60, udp=30, ceiling=10),
}
