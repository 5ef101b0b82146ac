"""A lab's network: namespaces, a bridge and veth pairs. The machine's own stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

from nodeprep.errors import ToolFailure
from nodeprep.lab import names, recipe
from nodeprep.lab.shell import run

_BRIDGE = "rack"
_NETNS = Path("/run/netns")


def namespaces() -> set[str]:
    """Every named network namespace of this machine."""
    text = run(["ip", "-json", "netns", "list"]).strip()
    return {entry["name"] for entry in json.loads(text)} if text else set()


def namespaces_of(lab: str) -> set[str]:
    top = names.lab_netns(lab)
    return {name for name in namespaces() if name == top or name.startswith(f"{top}-")}


def make_lab(lab: str) -> None:
    """The lab's namespace with its bridge, at 10.77.0.1."""
    netns = names.lab_netns(lab)
    if netns in namespaces():
        return
    inside = ["ip", "-n", netns]
    run(["ip", "netns", "add", netns])
    run([*inside, "link", "set", "lo", "up"])
    run([*inside, "link", "add", _BRIDGE, "type", "bridge"])
    run([*inside, "address", "add", f"{recipe.GATEWAY}/{names.PREFIX_LENGTH}", "dev", _BRIDGE])
    run([*inside, "link", "set", _BRIDGE, "up"])
    # There is no world outside: say so at once, instead of letting connections hang.
    run([*inside, "route", "add", "unreachable", "default"])
    forward = "net.ipv4.ip_forward=1"
    run(["ip", "netns", "exec", netns, "sysctl", "--quiet", "--write", forward])


def make_node(lab: str, node: names.NodeName) -> None:
    """The node's namespace with its NIC, plugged into the bridge. systemd-networkd sets it up."""
    netns, top = names.node_netns(lab, node), names.lab_netns(lab)
    if netns in namespaces():
        return
    run(["ip", "netns", "add", netns])
    try:
        pair = ["type", "veth", "peer", "name", recipe.NIC, "netns", netns]
        run(["ip", "-n", top, "link", "add", str(node), *pair])
        run(["ip", "-n", top, "link", "set", str(node), "master", _BRIDGE, "up"])
    except ToolFailure:
        run(["ip", "netns", "delete", netns])
        raise


def make_port(lab: str, node: names.NodeName, queues: int) -> None:
    """The port of a virtual machine: a tap with so many queues, plugged into the bridge."""
    top = names.lab_netns(lab)
    if _has_link(top, str(node)):
        return
    run(["ip", "-n", top, "tuntap", "add", str(node), "mode", "tap",
         *(["multi_queue"] if queues > 1 else [])])  # fmt: skip
    run(["ip", "-n", top, "link", "set", str(node), "master", _BRIDGE, "up"])


def remove(lab: str) -> None:
    """Every namespace of the lab. Cables first: a namespace dies late, its names must not."""
    found = namespaces_of(lab)
    top = names.lab_netns(lab)
    if top in found:
        for name in found - {top}:
            cable = name.removeprefix(f"{top}-")
            if _has_link(top, cable):
                run(["ip", "-n", top, "link", "delete", cable])
    for name in sorted(found, reverse=True):
        run(["ip", "netns", "delete", name])


def _has_link(netns: str, link: str) -> bool:
    text = run(["ip", "-n", netns, "-json", "link", "show"])
    return any(entry.get("ifname") == link for entry in json.loads(text or "[]"))


def path_of(netns: str) -> Path:
    return _NETNS / netns
