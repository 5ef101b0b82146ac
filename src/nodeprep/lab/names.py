"""Names and addresses of a lab and its nodes. Pure: everything else asks here.

A lab called `lab` with index 0 has, for gpu1: the network namespace `np-lab-gpu1`, the address
10.77.0.11 inside, and 127.77.0.11:2222 on this machine's loopback, where the forwarder listens.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from nodeprep.errors import BadInput
from nodeprep.model.base import Frozen

# Containers that share this machine's kernel, or virtual machines with one of their own.
Tier = Literal["fast", "vm"]
DEFAULT_LAB = "lab"
SSH_PORT = 2222
MAX_GPU_NODES = 180
MAX_NAS_NODES = 50
MAX_LABS = 250
PREFIX_LENGTH = 16
_LAB_NAME = re.compile(r"[a-z][a-z0-9]{0,15}")
_OFFSET = {"gpu": 10, "nas": 200}


class NodeName(Frozen):
    """A node of a rack: gpu1, gpu2, …, nas1, …."""

    kind: Literal["gpu", "nas"]
    number: int = Field(ge=1)

    def __str__(self) -> str:
        return f"{self.kind}{self.number}"

    @property
    def address(self) -> str:
        """Inside the lab: 10.77.0.11 for gpu1, 10.77.0.201 for nas1."""
        return f"10.77.0.{_OFFSET[self.kind] + self.number}"

    def forwarded(self, index: int) -> str:
        """On this machine's loopback, for lab number `index`."""
        return f"127.77.{index}.{_OFFSET[self.kind] + self.number}"


def check_lab(name: str) -> str:
    """The name, or BadInput. Letters and digits only: the names of namespaces derive from it."""
    if not _LAB_NAME.fullmatch(name):
        raise BadInput(
            f"lab name {name!r}: wanted a small letter, then small letters or digits, 16 at most"
        )
    return name


def rack_nodes(gpus: int, nas: int) -> tuple[NodeName, ...]:
    """The nodes of a rack of so many, GPU nodes first."""
    problems = []
    if not 0 <= gpus <= MAX_GPU_NODES:
        problems.append(f"--gpus {gpus}: 0 to {MAX_GPU_NODES}")
    if not 0 <= nas <= MAX_NAS_NODES:
        problems.append(f"--nas {nas}: 0 to {MAX_NAS_NODES}")
    if not problems and gpus + nas == 0:
        problems.append("a rack without nodes: give --gpus or --nas")
    if problems:
        raise BadInput("no such rack can be built", problems=tuple(problems))
    return tuple(
        [NodeName(kind="gpu", number=n + 1) for n in range(gpus)]
        + [NodeName(kind="nas", number=n + 1) for n in range(nas)]
    )


def lab_netns(lab: str) -> str:
    return f"np-{lab}"


def node_netns(lab: str, node: NodeName) -> str:
    return f"np-{lab}-{node}"
