"""Proof of RDMA: every such NIC has an address that RoCEv2 can use, so that NCCL finds one."""

from __future__ import annotations

import pytest

from nodeprep.accept.proof import Proof
from nodeprep.model.profile import Profile

# Each address of the NIC's device that is there, with its type: `gid index: type`.
GIDS = """\
link=$(rdma link show | sed -n 's,^link \\([^ ]*\\) .* netdev {nic}\\( .*\\)*$,\\1,p')
cd /sys/class/infiniband/${{link%/*}}/ports/${{link#*/}}/gid_attrs/types || exit 1
for one in *; do type=$(cat $one 2>/dev/null) && echo "gid $one: $type"; done; echo read"""


@pytest.mark.proof("rdma.address", timeout_s=30)
def test_every_rdma_nic_has_an_address_of_rocev2(proof: Proof, profile: Profile) -> None:
    nics = [nic.name for nic in profile.parts.nics if nic.rdma]
    if not nics:
        why = "no NIC of the profile has RDMA"
        without = tuple(nic.model_dump() for nic in profile.parts.nics)
        proof.not_applicable(why, profile="parts.nics", values=(without,))
    for nic in nics:
        lines = proof.run(GIDS.format(nic=nic), accept=(0, 1)).strip().splitlines()
        types = [line.rpartition(": ")[2] for line in lines if line.startswith("gid ")]
        proof.holds(
            None if lines[-1:] != ["read"] else "RoCE v2" in types,
            wanted=f"{nic} has an address (GID) of type RoCE v2",
            read=f"{nic}: {', '.join(sorted(set(types))) or 'no address'}",
            source="without one NCCL falls back to sockets, or hangs",
            action="is an IP address set on it? then: rdma link, show_gids, dmesg",
        )
