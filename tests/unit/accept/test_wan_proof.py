"""What the WAN carries: told always, judged only where the profile has a gate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodeprep.accept.parsers.ping import parse_ping
from nodeprep.accept.parsers.text import ParseError
from nodeprep.model.claim import File
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.accept.nodes import Answer, accepted, document, job, simulated_node
from tests.unit.accept.test_role_proofs import CLAIMS, REAL, Rack

ENDPOINTS = "# Written by Ansible.\nfra.example.com 5201\nsfo.example.com 5301\n"
PING = """\
PING fra.example.com (192.0.2.77) 56(84) bytes of data.

--- fra.example.com ping statistics ---
50 packets transmitted, {got} received, {loss}% packet loss, time 9812ms
rtt min/avg/max/mdev = 141.1/142.5/150.9/1.2 ms
"""
REFUSED = json.dumps({"start": {}, "error": "unable to connect to server: Connection refused"})
NO_BBR = json.dumps({"start": {}, "error": "unable to set TCP_CONGESTION: No such file"})


def tcp(gbps: float) -> str:
    ends = {"bits_per_second": gbps * 1e9, "retransmits": 7}
    return json.dumps({"start": {"test_start": {"protocol": "TCP"}},
                       "end": {"sum_sent": ends, "sum_received": ends}})  # fmt: skip


@pytest.fixture
def rack(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Rack:
    rack = Rack(simulated_node(tmp_path / "board"), monkeypatch)
    rack.node.answers = {
        "iperf3 -c .*-C bbr": Answer(tcp(3.1)),
        "iperf3 -c .*-C cubic": Answer(tcp(0.9)),
        "ping -n -q -c 50": Answer(PING.format(got=50, loss=0)),
        **rack.node.answers,
    }
    return rack


def gated(**gates: dict[str, object]) -> Profile:
    known = REAL.model_dump()
    asked = {name.replace("_", "."): {"source": "a test", **gate} for name, gate in gates.items()}
    return Profile.model_validate({**known, "gates": {**known["gates"], **asked}})


def proven(rack: Rack, on: Profile = REAL, endpoints: str = ENDPOINTS) -> Verdict:
    chosen = File(role="base", name="/etc/nodeprep/wan-endpoints", content=endpoints)
    claims = (*CLAIMS, chosen) if endpoints else CLAIMS
    found = accepted(job(document("base", on=on, claims=claims), level="stress"), rack.node)
    return found.proof("wan.paths")


def test_without_a_gate_it_is_told(rack: Rack) -> None:
    found = proven(rack)
    assert found.verdict is Outcome.PASS
    assert "fra.example.com: bbr 3.1 Gbit/s, cubic 0.9 Gbit/s, 142 ms, 0 % lost" in found.read
    notes = found.detail["notes"]
    assert "to sfo.example.com bbr is better: bbr 3.1, cubic 0.9 Gbit/s" in notes


def test_without_endpoints_nothing_is_run(rack: Rack) -> None:
    assert proven(rack, endpoints="").read == "none is chosen"
    assert not any("iperf3" in command for command, _, _ in rack.node.ran)


def test_a_gate_without_endpoints_is_unknown(rack: Rack) -> None:
    on = gated(wan_rtt={"fail": 200, "unit": "ms", "better": "lower"})
    found = proven(rack, on, endpoints="")
    assert found.verdict is Outcome.UNKNOWN
    assert "base_wan_endpoints" in found.action


@pytest.mark.parametrize(
    ("name", "gate", "outcome"),
    [
        ("wan_throughput", {"fail": 2.0, "unit": "Gbit/s"}, Outcome.PASS),
        ("wan_throughput", {"fail": 5.0, "unit": "Gbit/s"}, Outcome.FAIL),
        ("wan_rtt", {"fail": 200, "unit": "ms", "better": "lower"}, Outcome.PASS),
        ("wan_rtt", {"fail": 100, "unit": "ms", "better": "lower"}, Outcome.FAIL),
        ("wan_loss", {"fail": 1, "unit": "%", "better": "lower"}, Outcome.PASS),
    ],
)
def test_a_gate_judges(rack: Rack, name: str, gate: dict[str, object], outcome: Outcome) -> None:
    found = proven(rack, gated(**{name: gate}))
    assert found.verdict is outcome
    if outcome is Outcome.FAIL:
        assert "base_tcp_congestion_control" in found.action


def test_loss_is_the_worst_of_the_endpoints(rack: Rack) -> None:
    rack.says("-W 2 sfo.example.com", PING.format(got=45, loss=10))
    found = proven(rack, gated(wan_loss={"fail": 1, "unit": "%", "better": "lower"}))
    assert found.verdict is Outcome.FAIL
    assert "to sfo.example.com" in found.reason


@pytest.mark.parametrize(
    ("pattern", "answer", "why"),
    [
        ("iperf3 -c fra", Answer(REFUSED, rc=1), "Connection refused"),
        ("iperf3 -c .* -C bbr", Answer(NO_BBR, rc=1), "unable to set TCP_CONGESTION"),
        ("iperf3", Answer(rc=127), "iperf3 is missing"),
        ("iperf3", Answer(rc=124, timed_out=True), "did not end"),
        ("ping -n -q", Answer(), "ping"),
    ],
)
def test_what_cannot_be_measured_is_said_and_blocks_only_where_a_gate_asks(
    rack: Rack, pattern: str, answer: Answer, why: str
) -> None:
    rack.node.answers = {pattern: answer, **rack.node.answers}
    found = proven(rack)
    assert found.verdict is Outcome.PASS
    assert why in found.read
    asked = gated(
        wan_throughput={"fail": 0.5, "unit": "Gbit/s"},
        wan_rtt={"fail": 200, "unit": "ms", "better": "lower"},
    )
    # One congestion control is enough to know what the way carries.
    enough = pattern.endswith("bbr")
    assert proven(rack, asked).verdict is (Outcome.PASS if enough else Outcome.UNKNOWN)


@pytest.mark.parametrize("text", ["", "ping: unknown host", "50 packets transmitted"])
def test_a_ping_without_its_end_is_none(text: str) -> None:
    with pytest.raises(ParseError, match="no closing lines"):
        parse_ping(text)


def test_a_ping_that_nobody_answered_has_no_times() -> None:
    text = "50 packets transmitted, 0 received, +3 errors, 100% packet loss, time 9812ms\n"
    assert (parse_ping(text).rtt_ms, parse_ping(text).loss_percent) == (None, 100.0)
