"""A plan: the claims that do not hold on a node, by the roles that own them."""

from __future__ import annotations

from typing import Literal

from nodeprep.model.base import Frozen
from nodeprep.model.verdict import Outcome, Verdict


class DiskRef(Frozen):
    """A disk by what does not move: a name under /dev/disk/by-id, and what must be behind it."""

    id: str
    serial: str | None
    wwn: str | None
    size_bytes: int


class DiskWrite(Frozen):
    """What converging a claim does to disks. Empty `disks`: to what is there by then.

    action  create: an array on `disks`; assemble: an array that lies on them already, which
            writes nothing; cache: a volume on the first of `disks`, cached by the second;
            activate: a volume that lies on them already, which writes nothing; format: a
            filesystem, on `disks` or on the claim's array or volume
    """

    claim: str
    action: Literal["create", "assemble", "cache", "activate", "format"]
    disks: tuple[DiskRef, ...] = ()


class NodePlan(Frozen):
    """What provision would do to one node. Empty `roles`: nothing.

    verdicts   of every claim, in the order of the document
    roles      that own a claim which does not hold, in the playbook's order
    disks      that would be written, by id, in words; `writes` says the same to Ansible
    reboot     the reason, or empty
    conflicts  why the packages do not fit together, or no disk may be taken; a plan with one is
               not run
    """

    node: str
    verdicts: tuple[Verdict, ...] = ()
    roles: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    writes: tuple[DiskWrite, ...] = ()
    reboot: str = ""
    conflicts: tuple[str, ...] = ()

    @property
    def unmet(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.verdict.blocks)

    @property
    def failing(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.verdict is Outcome.FAIL)

    @property
    def empty(self) -> bool:
        return not self.roles and not self.conflicts
