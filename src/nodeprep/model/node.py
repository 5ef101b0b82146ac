"""A node as the inventory describes it, and its compiled desired state."""

from __future__ import annotations

from pydantic import Field

from nodeprep.model.base import Frozen
from nodeprep.model.claim import Claim
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Waiver


class Connection(Frozen):
    """How to reach a node. Holds no secret: passwords travel apart, on a child's stdin."""

    host: str
    port: int = Field(default=22, ge=1, le=65535)
    user: str  # the admin user that first contact creates, then logs in as
    bootstrap_user: str = "root"
    key_file: str  # private key of the operator
    known_hosts: str  # the site's file; strict once a key is recorded
    connect_timeout_s: int = Field(default=10, ge=1, le=300)


class Node(Frozen):
    """One host of the inventory, resolved."""

    name: str
    site: str
    groups: tuple[str, ...] = ()
    address: str = ""  # inside the site, as other nodes reach it
    connection: Connection
    profile: Profile
    waivers: tuple[Waiver, ...] = ()


class Document(Frozen):
    """One node's desired state, every value filled in: what plan, drift and acceptance read.

    `roles` in the order of the playbook. `digest` is the hash of everything but the connection:
    a node accepted under this digest need not be accepted again while nothing drifted.
    """

    node: Node
    roles: tuple[str, ...]
    claims: tuple[Claim, ...]
    digest: str = ""

    def claims_of(self, role: str) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if claim.role == role)
