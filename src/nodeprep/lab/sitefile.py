"""The inventory of a lab, as text: inventory/lab.yaml is what this gives for the lab `lab`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nodeprep import resources
from nodeprep.lab import names, recipe
from nodeprep.lab.names import NodeName
from nodeprep.lab.state import LabState, NodeState

DEFAULT_BOARD = "a100-sxm4-40g-x4"
NAS_BOARD = "nas"

_SCHEMA = "# yaml-language-server: $schema=../docs/schema/inventory.schema.json"

_HEAD = """\
# The lab: a simulated rack on this machine. `nodeprep lab up{option}` starts it.
# Written by `nodeprep lab inventory{option}`; a site's own inventory is written by hand.
#
# A plain Ansible inventory, the same in form as inventory/la.yaml, which explains more:
#
#   export NODEPREP_BOOTSTRAP_PASSWORD="$(nodeprep lab password{option})"
#   nodeprep provision {file}
{schema}
all:
  vars:
    # Names the state kept for this site: {site}/ has the ledger, the
    # host keys on record and the operator's key. `nodeprep lab down{option}` removes it, because
    # nodes that are started again are other machines, with other host keys.
    nodeprep_site: {lab}
    nodeprep_bootstrap_user: root
    nodeprep_admin_user: nodeprep

    # For plain ansible-playbook: how to log in once first contact is done.
    ansible_user: "{{{{ nodeprep_admin_user }}}}"
    ansible_port: {port}
    ansible_become: true
    ansible_ssh_private_key_file: {site}/id_ed25519
    ansible_ssh_common_args: >-
      -o UserKnownHostsFile={site}/known_hosts
      -o StrictHostKeyChecking=yes
    ansible_python_interpreter: /usr/bin/python3

    node_os: debian12

    # The rack reaches no other network: time and packages come from its gateway.
    base_chrony_sources:
      - server {gateway} iburst
    site_cache_host: ""  # this machine is as near as a cache on nas1 would be
    nvidia_driver_repository_url: http://{gateway}/nvidia
    nvidia_driver_repository_suite: ./
    nvidia_driver_keyring_url: http://{gateway}/nvidia/cuda-keyring_1.1-1_all.deb
    nvidia_driver_keyring_sha256: ""  # the lab makes its own key when its image is built

    # The one NIC that NCCL may use.
    nccl_socket_ifname: ens5f0

  # ansible_host is a forwarder on this machine's loopback, because the lab does not touch the
  # machine's network; node_address is where the nodes find each other.
  children:
"""

_HOST = """\
        {name}:
          ansible_host: {forwarded}
          node_address: {address}
"""


# Containers share the machine's kernel and cannot mount it: the role writes its files, and the
# mount itself is not applicable, as the profile says. Virtual machines do.
_TRAINING_DATA = """\
        nfs_client_mounts:
          - path: /data/training
            device: nas1:/export/training
"""


# What differs on a machine with a kernel of its own, under emulation.
_VIRTUAL = """\
        # Debian's kernel for clouds, and a gibibyte of memory.
        kernel_headers: linux-headers-cloud-amd64
        kernel_min_free_kbytes: 65536
        # Four NVMe disks, two of which carry something: those must stay as they are.
        nvme_cache_volumes:
          - path: /cache
            level: 0
            disks: {count: 2, transport: nvme, size_gb: 1.07}
"""


def default() -> str:
    """The inventory of the lab that `nodeprep lab up` starts: three GPU nodes and a NAS."""
    nodes = [(node, f"lab-{_board(node)}") for node in names.rack_nodes(3, 1)]
    return text(names.DEFAULT_LAB, 0, nodes)


def of(spec: LabState) -> str:
    """The inventory of a lab as it stands."""
    site = str(resources.site_dir(spec.name)).replace(f"{Path.home()}/", "~/", 1)
    nodes = [(one.name, profile(one)) for one in spec.nodes]
    return text(spec.name, spec.index, nodes, site=site)


def profile(node: NodeState) -> str:
    """The hardware class that a node belongs to."""
    return f"lab-{'vm-' if node.tier == 'vm' else ''}{node.board}"


def _board(node: NodeName) -> str:
    return NAS_BOARD if node.kind == "nas" else DEFAULT_BOARD


def text(lab: str, index: int, nodes: Iterable[tuple[NodeName, str]], *, site: str = "") -> str:
    """An inventory for the nodes of lab number `index`, with their profiles.

    `site`: where the site's state lies, when not in the usual place.
    """
    ours = lab == names.DEFAULT_LAB
    option = "" if ours else f" --name {lab}"
    file = "inventory/lab.yaml" if ours else f"{lab}.yaml"
    known = list(nodes)
    head = _HEAD.format(
        lab=lab,
        option=option,
        file=file,
        port=names.SSH_PORT,
        gateway=recipe.GATEWAY,
        site=site or f"~/.local/state/nodeprep/sites/{lab}",
        schema=f"{_SCHEMA}\n" if ours else "",
    )
    gpu = [entry for entry in known if entry[0].kind == "gpu"]
    nas = [entry for entry in known if entry[0].kind == "nas"]
    groups = [
        _group("gpu_nodes", gpu, index, _TRAINING_DATA if nas else ""),
        _group("storage", nas, index, ""),
        _virtual([node for node, profile in known if profile.startswith("lab-vm-")]),
    ]
    return head + "\n".join(group for group in groups if group)


def _virtual(nodes: list[NodeName]) -> str:
    """The virtual machines among the nodes, once more, with what differs on them."""
    if not nodes:
        return ""
    hosts = "".join(f"        {node}: {{}}\n" for node in nodes)
    return f"    virtual_machines:\n      hosts:\n{hosts}      vars:\n{_VIRTUAL}"


def _group(group: str, nodes: list[tuple[NodeName, str]], index: int, variables: str) -> str:
    """A group; where its nodes are of unlike profiles, each names its own."""
    if not nodes:
        return ""
    profiles = {profile for _, profile in nodes}
    alike = len(profiles) == 1
    hosts = "".join(
        _HOST.format(name=node, forwarded=node.forwarded(index), address=node.address)
        + ("" if alike else f"          nodeprep_profile: {profile}\n")
        for node, profile in nodes
    )
    common = f"        nodeprep_profile: {profiles.pop()}\n" if alike else ""
    shared = f"      vars:\n{common}{variables}" if common or variables else ""
    return f"    {group}:\n      hosts:\n{hosts}{shared}"
