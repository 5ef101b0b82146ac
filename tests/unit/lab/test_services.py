"""Names and time, as nodes ask for them on the wire."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.lab import services

NAMES = {"gpu1": "10.77.0.11"}
_A, _AAAA = 1, 28


def query(name: str, kind: int = _A) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    head = struct.pack(">HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0)
    return head + labels + b"\0" + struct.pack(">HH", kind, 1)


def header(reply: bytes) -> tuple[int, int, int]:
    """Number of the query, response code, count of answers."""
    number, flags, _, answers = struct.unpack(">HHHH", reply[:8])
    assert flags & 0x8000
    return number, flags & 0xF, answers


@pytest.mark.parametrize("name", ["gpu1", "gpu1.lab", "GPU1.lab"])
def test_a_node_has_an_address(name: str) -> None:
    reply = services.answer(query(name), NAMES)
    assert header(reply) == (0x1234, 0, 1)
    assert reply[-4:] == bytes([10, 77, 0, 11])


def test_a_node_has_no_ipv6_address_and_yet_exists() -> None:
    assert header(services.answer(query("gpu1", _AAAA), NAMES)) == (0x1234, 0, 0)


@pytest.mark.parametrize("name", ["gpu9", "example.com", "gpu1.example.com"])
def test_any_other_name_does_not_exist(name: str) -> None:
    assert header(services.answer(query(name), NAMES)) == (0x1234, 3, 0)


def test_an_answer_is_not_answered() -> None:
    assert services.answer(services.answer(query("gpu1"), NAMES), NAMES) == b""


@given(st.binary(max_size=80))
def test_any_datagram_is_survived(datagram: bytes) -> None:
    services.answer(datagram, NAMES)
    services.time_answer(datagram, 0.0)


def test_time_is_told_to_a_client() -> None:
    sent = bytes([0x23]) + bytes(39) + b"sent-at!"
    reply = services.time_answer(sent, 1000.5)
    assert len(reply) == 48
    assert reply[0] & 7 == 4, "mode: server"
    assert reply[24:32] == b"sent-at!", "the client's own stamp comes back"
    assert struct.unpack(">II", reply[40:]) == (2208988800 + 1000, 2**31)


def test_time_is_not_told_to_another_server() -> None:
    assert services.time_answer(bytes([0x24]) + bytes(47), 0.0) == b""
