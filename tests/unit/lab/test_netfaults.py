"""Faults of cables: their arguments, and the program that drops datagrams."""

from __future__ import annotations

import ipaddress

import pytest

from nodeprep.errors import BadInput
from nodeprep.lab import hostfaults, netfaults, recipe
from nodeprep.lab.names import NodeName
from nodeprep.lab.state import LabDir, LabState, NodeState

DROPPED, PASSED = 2, 2**32 - 1
RANDOM = 2**32 - 0x1000 + 56


def frame(kind: int = 0x0800, protocol: int = 17) -> bytes:
    return bytes(12) + kind.to_bytes(2, "big") + bytes(9) + bytes([protocol]) + bytes(40)


def ran(program: str, packet: bytes, random: int) -> int:
    """What the kernel would return: classic BPF, as far as the program uses it."""
    lines = [tuple(map(int, line.split())) for line in program.split(",")[1:]]
    at, accumulator = 0, 0
    while True:
        code, true, false, k = lines[at]
        at += 1
        if code == 0x06:
            return k
        if code == 0x20:
            accumulator = random if k == RANDOM else int.from_bytes(packet[k : k + 4], "big")
        elif code == 0x80:
            accumulator = len(packet)
        elif code in (0x28, 0x30):
            accumulator = int.from_bytes(packet[k : k + (2 if code == 0x28 else 1)], "big")
        else:
            met = accumulator == k if code == 0x15 else accumulator > k
            at += true if met else false


@pytest.mark.parametrize(("share", "random", "told"), [
    (0.1, 2**32 // 10 - 5, DROPPED), (0.1, 2**32 // 10 + 5, PASSED),
    (1.0, 2**32 - 1, DROPPED), (1.0, 0, DROPPED),
])  # fmt: skip
def test_that_share_of_datagrams_is_dropped(share: float, random: int, told: int) -> None:
    assert ran(netfaults.lossy(share), frame(), random) == told


@pytest.mark.parametrize("packet", [frame(protocol=6), frame(protocol=1), frame(kind=0x0806),
                                    frame(kind=0x86DD)])  # fmt: skip
def test_nothing_else_is(packet: bytes) -> None:
    assert ran(netfaults.lossy(1.0), packet, 0) == PASSED


@pytest.fixture
def lab(tmp_path, monkeypatch: pytest.MonkeyPatch) -> LabDir:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path))
    found = LabDir("small")
    nodes = tuple(NodeState(name=NodeName(kind="gpu", number=n), board="x") for n in (1, 2))
    found.save(LabState(name="small", index=1, base="", sim="", nodes=nodes))
    return found


@pytest.mark.parametrize(
    ("fault", "given", "complaint"),
    [
        ("bad_pair", {}, "with whom"),
        ("bad_pair", {"peer": "gpu1"}, "the node itself"),
        ("bad_pair", {"peer": "gpu9; reboot"}, "no node"),
        ("bad_pair", {"peer": "gpu2", "mbps": "fast"}, "not a number"),
        ("slow_link", {"mbps": "0"}, "no rate"),
        ("slow_link", {"mbps": "inf"}, "no rate"),
        ("udp_loss", {"percent": "101"}, "between 0 and 100"),
        ("mtu_blackhole", {"bytes": "nan"}, "no size"),
        ("mtu_blackhole", {"bytes": "9000"}, "no size"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_touched(
    lab: LabDir, fault: str, given: dict[str, str], complaint: str
) -> None:
    chosen = hostfaults.CATALOGUE[fault]
    with pytest.raises(BadInput, match=complaint):
        chosen.inject(lab, lab.load().node("gpu1"), hostfaults.arguments(chosen, given))


@pytest.mark.parametrize(("length", "told"), [(1414, PASSED), (1415, DROPPED), (60000, DROPPED)])
@pytest.mark.parametrize("kind", [0x0800, 0x86DD])
def test_what_is_too_large_is_dropped_cut_or_not(length: int, told: int, kind: int) -> None:
    packet = frame(kind=kind).ljust(length, b"\0")
    assert ran(netfaults.no_larger(1414), packet, 0) == told


@pytest.mark.parametrize("at", [26, 30])
def test_the_operators_way_to_the_node_is_not_cut(at: int) -> None:
    gateway = ipaddress.IPv4Address(recipe.GATEWAY).packed
    packet = frame()[:at] + gateway
    assert ran(netfaults.no_larger(1414), packet.ljust(1500, b"\0"), 0) == PASSED
