"""Proofs of the NAS: it answers from this node, and what is claimed to be mounted can be read."""

from __future__ import annotations

import pytest

from nodeprep.accept.proof import Proof
from nodeprep.accept.wanted import mounts
from nodeprep.model.claim import Mount
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile

ROLE = "nfs_client"
PORT = 2049
# As an argument list it needs no shell of the node's; prints only once connected.
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], {port}), 5); print('open')"


@pytest.fixture
def claimed(proof: Proof, document: Document) -> tuple[Mount, ...]:
    """A site without a NAS claims no mount: then all of none can be read."""
    found = mounts(document, ROLE)
    if not found:
        proof.holds(True, wanted="every claimed mount", read="no mount is claimed")
    return found


@pytest.mark.proof("nfs.server", timeout_s=60)
def test_the_server_answers(proof: Proof, claimed: tuple[Mount, ...]) -> None:
    for server in dict.fromkeys(_server(mount) for mount in claimed):
        script = CONNECT.format(port=PORT)
        said = proof.run(["python3", "-c", script, server], accept=(0, 1), or_nothing=True)
        proof.holds(
            said.strip() == "open",
            wanted=f"{server} accepts connections to port {PORT}",
            read=f"{server} {'answers' if said.strip() == 'open' else 'does not answer'}",
            source="the claimed mounts",
            action="check the NAS, its firewall and the route to it",
        )


@pytest.mark.proof("nfs.read", timeout_s=120)
def test_what_is_mounted_can_be_read(
    proof: Proof, profile: Profile, claimed: tuple[Mount, ...]
) -> None:
    if claimed and not profile.platform.nfs_mount:
        proof.not_applicable(profile.platform.why, profile="platform.nfs_mount")
    for mount in claimed:
        # Listing it sets off an automount; a dead server is ended by the time limit.
        proof.run(["ls", "-A", "-d", f"{mount.name}/."], timeout_s=40)
        kind = proof.run(["stat", "-f", "-c", "%T", mount.name], timeout_s=40).strip()
        proof.holds(
            kind.startswith("nfs"),
            wanted=f"{mount.name} is NFS",
            read=f"{mount.name} is {kind}",
            source="the claimed mounts",
            action="start the mount unit, and read its journal",
        )


def _server(mount: Mount) -> str:
    """nas:/training, or [fd00::1]:/training."""
    return mount.device.rpartition(":/")[0].strip("[]")
