"""How one pair is measured: what is run where, and that nothing unmeasured becomes a figure."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.accept.between.measure import PairTest, Seconds, clock, source_offset_ms
from nodeprep.accept.parsers.text import ParseError
from nodeprep.errors import Unreachable
from tests.unit.accept.nodes import Answer

TRACKING = "Reference ID : 0A4D0001 (10.77.0.1)\nStratum : 2\n{line}\nLeap status : {leap}\n"


def tracking(line: str, leap: str = "Normal") -> str:
    return TRACKING.format(line=line, leap=leap)


def tcp(gbps: float = 9.4) -> str:
    ends = {"bits_per_second": gbps * 1e9, "retransmits": 0}
    return json.dumps({"start": {"test_start": {"protocol": "TCP"}},
                       "end": {"sum_sent": ends, "sum_received": ends}})  # fmt: skip


def udp(loss: float = 0.0, packets: int = 4_300_000) -> str:
    total = {"bits_per_second": 5e9, "jitter_ms": 0.01, "packets": packets, "lost_percent": loss}
    return json.dumps({"start": {"test_start": {"protocol": "UDP"}}, "end": {"sum": total}})


@dataclass
class Fake:
    """A node: `answers` by the first pattern found in a command, else as a healthy one."""

    name: str
    answers: dict[str, Answer | Exception] = field(default_factory=dict)
    carries: int = 1500
    hears: int = 4_300_000  # datagrams, from one look to the next
    heard: int = 0
    ran: list[str] = field(default_factory=list)

    def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
        assert timeout_s > 0
        self.ran.append(command)
        for pattern, answer in self.answers.items():
            if re.search(pattern, command):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return self._healthy(command)

    def _healthy(self, command: str) -> Answer:
        if "/mtu" in command:
            return Answer("1500\n")
        if size := re.search(r"-M do -s (\d+)", command):
            return Answer(rc=0 if int(size[1]) + 28 <= self.carries else 1)
        if "/proc/net/snmp" in command:
            self.heard += self.hears
            return Answer(f"Udp: InDatagrams NoPorts\nUdp: {self.heard} 0\nUdpLite: 0\n")
        if "iperf3 -s" in command:
            return Answer(f"{101 + len(self.ran)}\n")
        if "iperf3 -c" in command:
            return Answer(udp() if " -u " in command else tcp())
        if command.startswith("kill"):
            return Answer()
        return Answer(rc=127, stderr="not found")


def measured(a: Fake | None = None, b: Fake | None = None, **seconds: int):  # type: ignore[no-untyped-def]
    a, b = a or Fake("gpu1"), b or Fake("gpu2")
    test = PairTest(
        a, b, ("10.0.0.1", "10.0.0.2"), number=3, seconds=Seconds(udp=10, **seconds), udp_mbps=5000
    )  # fmt: skip
    return test.run()


def test_a_healthy_pair_has_every_figure_both_ways() -> None:
    found = measured()
    assert found.troubles == {}
    assert found.tcp == (9.4, 9.4)
    assert found.loss == (0.0, 0.0)
    assert found.jitter == (0.01, 0.01)
    assert (found.mtu, found.path_mtu, found.offered) == ((1500, 1500), 1500, 5.0)


def test_the_way_back_is_measured_by_the_server() -> None:
    asked = Fake("gpu2", {"iperf3 -c .* -R": Answer(tcp(1.0))})
    assert measured(b=asked).tcp == (1.0, 9.4)


def test_servers_end_by_themselves_and_have_a_port_each() -> None:
    serving, asking = Fake("gpu1"), Fake("gpu2")
    measured(serving, asking)
    servers = [command for command in serving.ran if "iperf3 -s" in command]
    assert len(servers) == 4
    assert all("timeout -k 1 " in command and "iperf3 -s -1" in command for command in servers)
    ports = [re.findall(r"-p (\d+)", command) for command in asking.ran if "iperf3" in command]
    assert len({port for one in ports for port in one}) == 4


def test_udp_is_sent_at_the_rate_and_in_datagrams_that_fit() -> None:
    asking = Fake("gpu2", carries=1400)
    measured(b=asking)
    sent = [command for command in asking.ran if " -u " in command]
    assert len(sent) == 2
    assert all("-b 5000M" in command and "-l 1372" in command for command in sent)


@pytest.mark.parametrize("carries", [1499, 1400, 1372, 577])
def test_the_path_mtu_is_found_to_the_byte(carries: int) -> None:
    found = measured(b=Fake("gpu2", carries=carries))
    assert found.path_mtu == carries
    assert found.mtu == (1500, 1500)


def test_as_much_as_possible_is_sent_only_where_the_level_asks_for_it() -> None:
    asking = Fake("gpu2")
    assert measured(b=asking).ceiling == (None, None)
    assert not any("-b 0" in command for command in asking.ran)
    assert measured(ceiling=20).ceiling == pytest.approx((2.53, 2.53), abs=0.01)


class TestUnknown:
    def test_a_silent_peer(self) -> None:
        found = measured(b=Fake("gpu2", {"ping": Answer(rc=1)}))
        assert found.path_mtu is None
        assert "does not answer a ping" in found.troubles["path_mtu"].why

    @pytest.mark.parametrize("which", [0, 1])
    def test_a_missing_tool_is_told_with_the_node_that_lacks_it(self, which: int) -> None:
        pair = [Fake("gpu1"), Fake("gpu2")]
        pair[which].answers["iperf3"] = Answer(rc=127)
        found = measured(*pair)
        assert (found.tcp, found.loss) == ((None, None), (None, None))
        assert {t.node for t in found.troubles.values()} == {pair[which].name}
        assert found.troubles["tcp"].why == "iperf3 is missing"

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            (Answer(timed_out=True, rc=124), "did not end"),
            (Answer("", rc=0), "no JSON"),
            (Answer("garbage"), "no JSON"),
            (Answer(tcp()[:60]), "truncated"),
            (Answer('{"error": "unable to connect to server"}', rc=1), "unable to connect"),
            (Answer(json.dumps({"start": {}, "end": {}})), "protocol"),
        ],
    )
    def test_what_iperf3_did_not_say(self, answer: Answer, why: str) -> None:
        serving = Fake("gpu1")
        found = measured(serving, Fake("gpu2", {"iperf3 -c": answer}))
        assert (found.tcp, found.loss) == ((None, None), (None, None))
        assert why in found.troubles["tcp"].why

    def test_a_server_whose_client_failed_is_not_left_behind(self) -> None:
        serving = Fake("gpu1")
        measured(serving, Fake("gpu2", {"iperf3 -c": Answer(rc=1)}))
        started = sum("iperf3 -s" in command for command in serving.ran)
        killed = [command for command in serving.ran if re.match(r"kill \d+ ", command)]
        assert len(killed) == len(set(killed)) == started

    def test_a_first_datagram_that_was_lost_is_sent_again(self) -> None:
        hangs = [Answer(timed_out=True, rc=124)] * 2

        class Lossy(Fake):
            def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
                if " -u " in command and hangs:
                    return hangs.pop()
                return super().run(command, sudo=sudo, timeout_s=timeout_s)

        assert measured(b=Lossy("gpu2")).loss == (0.0, 0.0)

    def test_a_server_that_does_not_listen(self) -> None:
        found = measured(Fake("gpu1", {"iperf3 -s": Answer(rc=1)}))
        assert "does not listen" in found.troubles["tcp"].why
        assert found.troubles["tcp"].node == "gpu1"

    @pytest.mark.parametrize("packets", [0, 100])
    def test_no_loss_of_what_never_came(self, packets: int) -> None:
        found = measured(b=Fake("gpu2", {" -u ": Answer(udp(0.0, packets))}))
        assert found.loss == (None, None)
        assert "datagrams were sent" in found.troubles["loss"].why

    @pytest.mark.parametrize("hears", [0, 1, 3_000_000])
    def test_no_loss_is_not_believed_where_less_arrived(self, hears: int) -> None:
        found = measured(b=Fake("gpu2", hears=hears))
        assert found.loss == (None, None)
        assert f"0 % were lost, yet {hears} of 4300000" in found.troubles["loss"].why

    def test_what_was_lost_need_not_arrive(self) -> None:
        asking = Fake("gpu2", {" -u .* -R": Answer(udp(50.0))}, hears=2_150_000)
        assert measured(b=asking).loss == (50.0, 0.0)

    @pytest.mark.parametrize("text", ["", "Udp: InDatagrams\n", "Udp: a\nUdp: 1\n"])
    def test_a_kernel_that_does_not_count(self, text: str) -> None:
        found = measured(b=Fake("gpu2", {"snmp": Answer(text)}))
        assert found.loss == (None, None)
        assert found.troubles["loss"].node == "gpu2"

    def test_a_connection_that_breaks_in_between(self) -> None:
        found = measured(b=Fake("gpu2", {" -u ": Unreachable("the connection broke")}))
        assert found.tcp == (9.4, 9.4)
        assert found.troubles["loss"].why == "the connection broke"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(["start", "end", "sum", "sum_received", "protocol", "packets",
                         "test_start", "lost_percent", "bits_per_second"]), inner),
)  # fmt: skip


@given(st.text() | JSON.map(json.dumps))
def test_garbage_of_iperf3_is_no_figure_and_no_crash(text: str) -> None:
    found = measured(b=Fake("gpu2", {"iperf3 -c": Answer(text)}))
    assert (found.tcp, found.loss) == ((None, None), (None, None))
    assert {"tcp", "loss"} <= found.troubles.keys()


class TestClock:
    @pytest.mark.parametrize(
        ("line", "ms"),
        [
            ("System time : 0.000120 seconds fast of NTP time", 0.12),
            ("System time : 0.080000 seconds slow of NTP time", -80.0),
        ],
    )
    def test_fast_is_ahead_and_slow_is_behind(self, line: str, ms: float) -> None:
        assert source_offset_ms(tracking(line)) == pytest.approx(ms)

    @pytest.mark.parametrize(
        "text",
        ["", "506 Cannot talk to daemon", tracking("System time : 0.0 seconds fast", "Not synch"),
         tracking("System time : n/a", "Normal")],
    )  # fmt: skip
    def test_no_source_no_offset(self, text: str) -> None:
        with pytest.raises(ParseError):
            source_offset_ms(text)

    @given(st.text() | st.text().map(tracking))
    def test_garbage_is_no_offset(self, text: str) -> None:
        with contextlib.suppress(ParseError):
            assert math.isfinite(source_offset_ms(text))

    def test_it_is_seen_from_here_too_within_the_time_that_asking_took(self) -> None:
        times: Callable[[], float] = iter([100.0, 100.2]).__next__
        said = tracking("System time : 0.000000 seconds fast of NTP time")
        node = Fake("gpu1", {"date": Answer("101.1\n"), "chronyc": Answer(said)})
        found = clock(node, times)
        assert found.source_ms == 0.0
        assert found.here_ms == pytest.approx(1000.0)
        assert found.error_ms == pytest.approx(100.0)

    def test_without_chrony_it_is_unknown(self) -> None:
        found = clock(Fake("gpu1", {"date": Answer("100.0\n")}), lambda: 100.0)
        assert found.source_ms is None
        assert found.trouble == "chronyc is missing"
