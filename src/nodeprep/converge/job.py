"""The job of the converge worker: which roles on which nodes, and how to reach them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr

from nodeprep.model.base import Frozen
from nodeprep.model.node import Connection


class NodeJob(Frozen):
    """One node: its roles, and in each the ids of the claims that do not hold.

    disks        by claim, what was planned and confirmed to be done to which disks
    connection   how to log in; None leaves it to the inventory
    """

    roles: tuple[str, ...]
    unmet: dict[str, tuple[str, ...]] = {}
    disks: dict[str, dict[str, Any]] = {}
    connection: Connection | None = None


class Job(Frozen):
    """One run of the playbook. `private_data_dir` is laid out as ansible-runner does it.

    forks   nodes at a time; each costs about 21 MB
    check   Ansible's check mode: say what would change, change nothing
    """

    inventory: Path
    playbook: Path
    roles_path: tuple[Path, ...]
    nodes: dict[str, NodeJob]
    private_data_dir: Path
    vault_password: SecretStr | None = None
    forks: int = Field(default=20, ge=1, le=500)
    check: bool = False

    @property
    def busy(self) -> dict[str, NodeJob]:
        """The nodes on which a role is to run."""
        return {name: node for name, node in self.nodes.items() if node.roles}

    @property
    def roles(self) -> tuple[str, ...]:
        """Every role that some node needs, each once."""
        return tuple(dict.fromkeys(role for node in self.nodes.values() for role in node.roles))
