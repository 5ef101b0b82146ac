"""Faults of a node's cable and switch port. They live on the lab's side of the cable, so that the
node sees nothing of them but what it feels: no setting of its own changes.

Linux's netem would do all of this, but few kernels of small machines have it: htb shapes, and
classic BPF filters drop at random, or what is too large.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from nodeprep.errors import BadInput, ToolFailure
from nodeprep.lab import names, recipe
from nodeprep.lab.shell import run
from nodeprep.lab.state import LabDir, NodeState

Args = Mapping[str, str]

_PREFERENCE_LOSS = "10"
_PREFERENCE_SIZE = "15"
_PREFERENCE_TURN = "20"  # frames from the node are turned round through an ifb to be shaped
_QUEUE = "262144"  # bytes that wait where it is slow: a port's buffer
_FULL_MTU = 1500
_LEAST_MTU = 576
_ETHERNET = 14  # bytes of a frame before its packet
_SHOT, _GO_ON = 2, 2**32 - 1  # TC_ACT_SHOT, TC_ACT_UNSPEC


def slow_link(lab: LabDir, one: NodeState, args: Args) -> None:
    _shape(lab, one, float(args["mbps"]), peer="")


def bad_pair(lab: LabDir, one: NodeState, args: Args) -> None:
    peer = _peer(lab, one, args["peer"])
    _shape(lab, one, float(args["mbps"]), peer=peer.address)


def unshape(lab: LabDir, one: NodeState, _args: Args) -> None:
    netns, port, turn = _places(lab, one)
    _tc(netns, "filter", "del", "dev", port, "ingress", "pref", _PREFERENCE_TURN, check=False)
    _tc(netns, "qdisc", "del", "dev", port, "root", check=False)
    _ip(netns, "link", "delete", turn, check=False)


def mtu_blackhole(lab: LabDir, one: NodeState, args: Args) -> None:
    size = float(args["bytes"])
    if not _LEAST_MTU <= size < _FULL_MTU:
        raise BadInput(f"mtu_blackhole: bytes={args['bytes']} is no size below {_FULL_MTU}")
    netns, port, _ = _places(lab, one)
    _tc(netns, "qdisc", "add", "dev", port, "clsact", check=False)
    for way in ("ingress", "egress"):
        _tc(
            netns, "filter", "add", "dev", port, way, "pref", _PREFERENCE_SIZE,
            "bpf", "direct-action", "bytecode", no_larger(int(size) + _ETHERNET),
        )  # fmt: skip


def mtu_back(lab: LabDir, one: NodeState, _args: Args) -> None:
    netns, port, _ = _places(lab, one)
    for way in ("ingress", "egress"):
        _tc(netns, "filter", "del", "dev", port, way, "pref", _PREFERENCE_SIZE, check=False)


def no_larger(size: int) -> str:
    """Classic BPF: drop frames of more than so many bytes, and what will be cut into such.

    A port with a small MTU would let pass what TCP hands over uncut (GSO). What comes from the
    gateway or goes there passes: the operator's way to the node is another one.
    """
    gateway = int(ipaddress.IPv4Address(recipe.GATEWAY))
    program = (
        (0x80, 0, 0, 0),  # the frame's length
        (0x25, 0, 7, size),  # greater, or go on
        (0x28, 0, 0, 12),  # the Ethernet type
        (0x15, 0, 4, 0x0800),  # IPv4, or drop
        (0x20, 0, 0, 26),  # from
        (0x15, 3, 0, gateway),
        (0x20, 0, 0, 30),  # to
        (0x15, 1, 0, gateway),
        (0x06, 0, 0, _SHOT),
        (0x06, 0, 0, _GO_ON),
    )
    return _bytecode(program)


def udp_loss(lab: LabDir, one: NodeState, args: Args) -> None:
    """Of what comes to the node; what it sends arrives. DNS and NTP are UDP too."""
    share = float(args["percent"]) / 100
    if not 0 < share <= 1:
        raise BadInput(f"udp_loss: percent={args['percent']} is not between 0 and 100")
    netns, port, _ = _places(lab, one)
    _tc(netns, "qdisc", "add", "dev", port, "clsact", check=False)
    _tc(
        netns, "filter", "add", "dev", port, "egress", "pref", _PREFERENCE_LOSS,
        "bpf", "direct-action", "bytecode", lossy(share),
    )  # fmt: skip


def udp_back(lab: LabDir, one: NodeState, _args: Args) -> None:
    netns, port, _ = _places(lab, one)
    _tc(netns, "filter", "del", "dev", port, "egress", "pref", _PREFERENCE_LOSS, check=False)


def lossy(share: float) -> str:
    """Classic BPF: drop this share of all IPv4 UDP packets, at random."""
    random = 2**32 - 0x1000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM: a fresh 32-bit number
    program = (
        (0x28, 0, 0, 12),  # the Ethernet type
        (0x15, 0, 5, 0x0800),  # IPv4, or go on
        (0x30, 0, 0, 23),  # the IP protocol
        (0x15, 0, 3, 17),  # UDP, or go on
        (0x20, 0, 0, random),
        (0x25, 1, 0, min(int(share * 2**32), 2**32 - 1)),  # greater: go on
        (0x06, 0, 0, _SHOT),
        (0x06, 0, 0, _GO_ON),
    )
    return _bytecode(program)


def _bytecode(program: tuple[tuple[int, int, int, int], ...]) -> str:
    """As tc reads it."""
    return f"{len(program)}," + ",".join(" ".join(map(str, line)) for line in program)


def _peer(lab: LabDir, one: NodeState, text: str) -> names.NodeName:
    if not text:
        raise BadInput("bad_pair: with whom? Give --arg peer=NODE")
    peer = lab.load().node(text).name
    if peer == one.name:
        raise BadInput(f"bad_pair: {text} is the node itself")
    return peer


def _shape(lab: LabDir, one: NodeState, mbps: float, *, peer: str) -> None:
    """Both ways, at the node's port: all its traffic, or that with one peer's address."""
    netns, port, turn = _places(lab, one)
    if not 0 < mbps <= 100_000:
        raise BadInput(f"mbps={mbps:g} is no rate")
    if "htb" in _tc(netns, "qdisc", "show", "dev", port):
        raise BadInput(
            f"{one.name}: its port is slowed down already",
            hint=f"nodeprep lab inject {one.name} --clear",
        )
    try:
        _limit(netns, port, mbps, ("src", peer) if peer else None)
        _ip(netns, "link", "add", turn, "type", "ifb")
        _ip(netns, "link", "set", turn, "up")
        _limit(netns, turn, mbps, ("dst", peer) if peer else None)
        _tc(netns, "qdisc", "add", "dev", port, "clsact", check=False)
        _tc(
            netns, "filter", "add", "dev", port, "ingress", "pref", _PREFERENCE_TURN,
            "protocol", "all", "u32", "match", "u32", "0", "0",
            "action", "mirred", "egress", "redirect", "dev", turn,
        )  # fmt: skip
    except ToolFailure:
        unshape(lab, one, {})
        raise


def _limit(netns: str, device: str, mbps: float, match: tuple[str, str] | None) -> None:
    """A class of that rate; without `match` for everything, else for frames of that address."""
    rate = f"{mbps:g}mbit"
    _tc(netns, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb",
        "default", "0" if match else "10")  # fmt: skip
    _tc(netns, "class", "add", "dev", device, "parent", "1:", "classid", "1:10", "htb",
        "rate", rate, "burst", "64k", "cburst", "64k")  # fmt: skip
    _tc(netns, "qdisc", "add", "dev", device, "parent", "1:10", "bfifo", "limit", _QUEUE)
    if match:
        side, address = match
        _tc(netns, "filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "u32",
            "match", "ip", side, f"{address}/32", "flowid", "1:10")  # fmt: skip


def _places(lab: LabDir, one: NodeState) -> tuple[str, str, str]:
    """The lab's namespace, the node's port in it, and the name of its ifb."""
    return names.lab_netns(lab.name), str(one.name), f"{one.name}-out"


def _tc(netns: str, *words: str, check: bool = True) -> str:
    return _quietly(["tc", "-n", netns, *words], check=check)


def _ip(netns: str, *words: str, check: bool = True) -> str:
    return _quietly(["ip", "-n", netns, *words], check=check)


def _quietly(argv: list[str], *, check: bool) -> str:
    try:
        return run(argv)
    except ToolFailure:
        if check:
            raise
        return ""
