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


class Job(Frozen):
    """`rounds`: pairs of names; those of one round run side by side."""

    members: tuple[Member, ...]
    rounds: tuple[tuple[tuple[str, str], ...], ...]
    seconds: Seconds = Seconds()
    concurrency: int = 32


# How long each test sends, by level. At poc a link is proven, later its endurance.
SECONDS = {
    "poc": Seconds(),
    "stress": Seconds(tcp=10, udp=5, ceiling=2),
    "burnin": Seconds(tcp=60, udp=30, ceiling=10),
}
