"""Parsers: the real formats, what goes wrong with them, and that garbage is never a result."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeprep.accept.parsers.chrony import parse_tracking
from nodeprep.accept.parsers.fio import parse_fio
from nodeprep.accept.parsers.gdrcopy import parse_gdrcopy_sanity
from nodeprep.accept.parsers.iperf3 import parse_iperf3
from nodeprep.accept.parsers.kernel_log import parse_kernel_log
from nodeprep.accept.parsers.nccl_log import parse_nccl_log
from nodeprep.accept.parsers.nccl_tests import parse_nccl_test
from nodeprep.accept.parsers.nvbandwidth import parse_nvbandwidth
from nodeprep.accept.parsers.nvlink import parse_nvlink
from nodeprep.accept.parsers.smi import parse_smi
from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole
from nodeprep.accept.parsers.topology import detect_board, parse_p2p, parse_topology
from tests.unit.accept.nodes import CLOCK, ROOT, FakeNode, break_board, simulated_node

DATA = ROOT / "tests/data/accept"


def data(name: str) -> str:
    return (DATA / name).read_text()


def said(node: FakeNode, command: str) -> str:
    answer = node.run(f"{command}", sudo=True, timeout_s=9)
    assert answer.rc == 0, answer
    return answer.stdout


@pytest.fixture
def sim(tmp_path: Path) -> Callable[..., str]:
    """What a stand-in prints for a board with a fault."""

    def run(
        tool: str, model: str = "a100-sxm4-40g-x4", fault: Callable[[Any], object] | None = None
    ) -> str:
        node = simulated_node(tmp_path / "node", model)
        if fault:
            break_board(node, fault)
        assert node.sim
        return said(node, f"{node.sim / 'bin'}/{tool}")

    return run


class TestText:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("41.5 W", 41.5), ("41,5 W", 41.5), ("-3", -3.0), ("5e-07", 5e-07), ("N/A", None),
            ("[N/A]", None), ("ERR!", None), ("", None), (None, None), ("nan", None),
            ("inf", None), ("0x10", None), ("1e999", None), ("12abc", None),
        ],
    )  # fmt: skip
    def test_a_number_or_nothing(self, text: str | None, value: float | None) -> None:
        assert number(text) == value

    def test_whole_numbers(self) -> None:
        assert [whole(text) for text in ("16x", "8 MiB", "4.5", "N/A")] == [16, 8, None, None]

    def test_escape_codes_go(self) -> None:
        assert clean("\x1b[4mGPU0\x1b[0m\r\n\x1b]0;title\x07x\x1b") == "GPU0\nx\x1b"

    def test_an_excerpt_is_one_short_line(self) -> None:
        assert len(excerpt("line\n" * 1000)) == 160


class TestTopology:
    @pytest.mark.parametrize(
        ("model", "board"),
        [
            ("a100-sxm4-40g-x4", "mesh"),
            ("a100-pcie-40g-x4", "bridge"),
            ("a100-sxm4-80g-x8", "nvswitch"),
            ("h100-sxm5-80g-x8", "nvswitch"),
        ],
    )
    def test_the_board_is_detected(self, sim: Callable[..., str], model: str, board: str) -> None:
        assert detect_board(parse_topology(sim("nvidia-smi topo -m", model))) == board

    def test_nics_and_underlines_are_no_gpus(self) -> None:
        topology = parse_topology(data("topo_bridge.txt"))
        assert topology.gpus == (0, 1, 2, 3)
        assert detect_board(topology) == "bridge"
        assert topology.links(0, 1) == 12
        assert topology.links(0, 2) == 0

    def test_a_mesh_that_lost_a_link_is_no_mesh(self) -> None:
        text = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV4\tNV4\nGPU1\tNV4\tX\tNV3\nGPU2\tNV4\tNV3\tX\n"
        assert detect_board(parse_topology(text)) == "irregular"

    def test_without_links_it_is_pcie(self) -> None:
        text = "\tGPU0\tGPU1\nGPU0\tX\tPHB\nGPU1\tPHB\tX\n"
        assert detect_board(parse_topology(text)) == "pcie"

    def test_one_gpu_has_no_board(self) -> None:
        text = "\tGPU0\tCPU Affinity\nGPU0\t X \t0-31\n"
        assert detect_board(parse_topology(text)) == "none"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "No devices were found",
            "\tGPU0\tGPU1\nGPU0\tX\tNV4\n",  # the second row is cut off
            "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\n",
            "\tGPU0\tGPU0\nGPU0\tX\tX\n",
        ],
    )
    def test_a_part_of_a_matrix_is_none(self, text: str) -> None:
        with pytest.raises(ParseError):
            parse_topology(text)

    def test_p2p_by_pair(self, sim: Callable[..., str]) -> None:
        good = parse_p2p(sim("nvidia-smi topo -p2p r"))
        assert set(good.cells.values()) == {"OK"}
        assert len(good.cells) == 12


class TestNvlink:
    def test_active_and_inactive(self, sim: Callable[..., str]) -> None:
        def fault(board: Any) -> None:
            board["gpus"][1]["nvlinks"][3]["active"] = False

        gpus = parse_nvlink(sim("nvidia-smi nvlink -s", fault=fault))
        assert [len(gpu.active) for gpu in gpus] == [12, 11, 12, 12]
        assert gpus[1].inactive == (3,)

    def test_a_gpu_without_any_link(self) -> None:
        text = (
            "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-1)\n"
            "Unable to retrieve NVLink information as all links are inActive\n"
            "GPU 1: NVIDIA A100-PCIE-40GB (UUID: GPU-2)\n\t Link 0: 25.781 GB/s\n"
        )
        assert [gpu.links for gpu in parse_nvlink(text)] == [{}, {0: 25.781}]


class TestNcclTests:
    def test_the_table(self) -> None:
        found = parse_nccl_test(data("all_reduce_info.txt"))
        assert len(found.rows) == 4
        assert found.busbw() == pytest.approx(232.0)
        assert found.wrong == 0
        assert len(found.devices) == 4

    def test_the_table_of_older_versions(self) -> None:
        found = parse_nccl_test(data("all_reduce_old.txt"))
        assert found.busbw() == pytest.approx(230.25)
        assert found.wrong == 0
        assert found.devices == ("NVIDIA A100-SXM4-40GB",) * 2

    @pytest.mark.parametrize(("name", "word"), [("info", "      0"), ("old", "5e-07")])
    def test_not_validated_is_not_measured(self, name: str, word: str) -> None:
        text = data(f"all_reduce_{name}.txt").replace(word, "    N/A")
        assert parse_nccl_test(text).wrong is None

    def test_wrong_values_count(self) -> None:
        text = data("all_reduce_info.txt").replace("233.00      0\n", "233.00      3\n")
        assert parse_nccl_test(text).wrong == 3

    @pytest.mark.parametrize("word", ["inf", "-nan", "NaN"])
    def test_a_row_without_a_figure_is_not_left_out(self, word: str) -> None:
        text = data("all_reduce_info.txt").replace("233.00      0\n", f"{word}      0\n")
        with pytest.raises(ParseError, match=f"no figure for .* {word}"):
            parse_nccl_test(text)

    def test_values_out_of_bounds_count(self) -> None:
        text = data("all_reduce_old.txt").replace("values : 0 OK", "values : 7 FAILED")
        assert parse_nccl_test(text).wrong == 7

    def test_small_messages_measure_nothing(self) -> None:
        assert parse_nccl_test(data("all_reduce_info.txt")).busbw(1 << 40) is None

    @given(cut=st.integers(0, 2400))
    def test_a_run_cut_short_has_not_passed(self, cut: int) -> None:
        text = data("all_reduce_info.txt")[:-100][: max(0, cut)]
        try:
            assert parse_nccl_test(text).wrong is None
        except ParseError:
            return


class TestNcclLog:
    def test_what_it_uses(self) -> None:
        log = parse_nccl_log(data("all_reduce_info.txt"))
        assert log.version == "2.16.5+cuda12.0"
        assert log.interfaces == ("ens5f0",)
        assert log.bootstrap == "ens5f0"
        assert log.network == "Socket"
        assert log.transports == {"P2P/IPC": 16}

    def test_several_interfaces_and_a_slow_transport(self) -> None:
        text = (
            "n:1:1 [0] NCCL INFO NET/Socket : Using [0]cni0:10.0.0.1<0> [1]ens5f0:10.7.0.11<0>\n"
            "n:1:1 [0] NCCL INFO Channel 00 : 0[1] -> 1[2] via SHM/direct/direct\n"
            "n:1:1 [0] misc/socket.cc:50 NCCL WARN Net : connect failed\n"
        )
        log = parse_nccl_log(text)
        assert log.interfaces == ("cni0", "ens5f0")
        assert log.transports == {"SHM/direct": 1}
        assert log.warnings == ("Net : connect failed",)


class TestKernelLog:
    def test_xids_have_their_time(self) -> None:
        log = parse_kernel_log(data("journal.txt"))
        assert [(xid.code, xid.bus) for xid in log.xids] == [(79, "0000:31:00"), (94, "0000:17:00")]
        assert [xid.code for xid in log.since(CLOCK - 7200)] == [94]

    @pytest.mark.parametrize(
        "stamp",
        ["2027-01-15T08:00:00,123456+00:00", "2027-01-15T08:00:00+0000", "2027-01-15 08:00:00Z"],
    )
    def test_dmesg_in_iso_time(self, stamp: str) -> None:
        (xid,) = parse_kernel_log(f"{stamp} NVRM: Xid (PCI:0000:17:00): 48, x\n").xids
        assert xid.at == CLOCK

    def test_without_a_time_it_is_recent(self) -> None:
        log = parse_kernel_log("[  12.345678] NVRM: Xid (PCI:0000:17:00): 31, pid=1\n")
        assert [xid.code for xid in log.since(CLOCK)] == [31]

    @pytest.mark.parametrize("text", ["", "-- No entries --\n", "dmesg: read failed\n"])
    def test_an_unreadable_log_is_not_a_quiet_one(self, text: str) -> None:
        with pytest.raises(ParseError):
            parse_kernel_log(text)


class TestNvbandwidth:
    def test_the_slowest_pair(self) -> None:
        test = parse_nvbandwidth(data("nvbandwidth_p2p.txt"))["device_to_device_memcpy_read_ce"]
        assert len(test.cells) == 12
        assert test.slowest == ((0, 1), 92.01)

    def test_one_row_for_the_host(self) -> None:
        test = parse_nvbandwidth(data("nvbandwidth_h2d.txt"))["host_to_device_memcpy_ce"]
        assert test.slowest == ((0, 0), 26.1)

    def test_a_cell_that_is_no_figure_is_refused(self) -> None:
        with pytest.raises(ParseError):
            parse_nvbandwidth(data("nvbandwidth_p2p.txt").replace("92.12", "ERROR"))

    def test_a_row_that_is_too_short_is_refused(self) -> None:
        with pytest.raises(ParseError):
            parse_nvbandwidth(data("nvbandwidth_p2p.txt").replace("     92.13", ""))


class TestSmi:
    def test_a_healthy_board(self, sim: Callable[..., str]) -> None:
        gpus = parse_smi(sim("nvidia-smi -q -x"))
        assert len(gpus) == 4
        first = gpus[0]
        assert first.model == "NVIDIA A100-SXM4-40GB"
        assert first.ecc_on
        assert (first.ecc_uncorrectable, first.sram_aggregate) == (0, 0)
        assert (first.remap_pending, first.remap_failure, first.retired) == (False, False, None)
        assert first.reasons is not None
        assert (first.pcie_width, first.pcie_gen_max) == (16, 4)
        assert first.temperature

    def test_both_spellings_of_the_reasons(self, sim: Callable[..., str]) -> None:
        def fault(board: Any) -> None:
            board["gpus"][0]["throttle"] = ["hw_slowdown"]

        new = sim("nvidia-smi -q -x", fault=fault)
        old = new.replace("clocks_event_reason", "clocks_throttle_reason")
        assert "clocks_throttle_reason_hw" in old
        for text in (new, old):
            assert "hw_slowdown" in (parse_smi(text)[0].reasons or ())

    @pytest.mark.parametrize("word", ["N/A", "[N/A]", "ERR!", "", "[Unknown Error]"])
    def test_what_is_not_told_is_none(self, sim: Callable[..., str], word: str) -> None:
        import re

        text = re.sub(r"(<gpu_temp>)[^<]*", rf"\g<1>{word}", sim("nvidia-smi -q -x"))
        assert parse_smi(text)[0].temperature is None

    def test_before_ampere(self) -> None:
        text = """<nvidia_smi_log><gpu id="00000000:3B:00.0"><ecc_errors><volatile><double_bit>
            <total>2</total></double_bit></volatile></ecc_errors><retired_pages>
            <multiple_single_bit_retirement><retired_count>1</retired_count>
            </multiple_single_bit_retirement><double_bit_retirement><retired_count>11
            </retired_count></double_bit_retirement><pending_blacklist>No</pending_blacklist>
            </retired_pages></gpu></nvidia_smi_log>"""
        (gpu,) = parse_smi(text)
        assert (gpu.ecc_uncorrectable, gpu.retired, gpu.retired_pending) == (2, 12, False)
        assert gpu.reasons is None

    def test_warnings_around_the_document(self, sim: Callable[..., str]) -> None:
        text = sim("nvidia-smi -q -x")
        assert len(parse_smi(f"WARNING: infoROM\n{text}\nWARNING: infoROM\n")) == 4

    @pytest.mark.parametrize("ending", ["", "</gpu>"])
    def test_a_document_cut_short_is_refused(self, sim: Callable[..., str], ending: str) -> None:
        text = sim("nvidia-smi -q -x")
        with pytest.raises(ParseError):
            parse_smi(text[: len(text) // 2] + ending)

    def test_entities_are_refused(self) -> None:
        bomb = '<!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log>&a;</nvidia_smi_log>'
        with pytest.raises(ParseError):
            parse_smi(bomb)


class TestOthers:
    def test_iperf3(self) -> None:
        tcp, udp = parse_iperf3(data("iperf3_tcp.json")), parse_iperf3(data("iperf3_udp.json"))
        assert (tcp.bits_per_second, tcp.retransmits) == (9.35e9, 41)
        assert udp.loss_percent == pytest.approx(0.0003)

    def test_iperf3_that_could_not_connect(self) -> None:
        with pytest.raises(ParseError, match="unable to connect"):
            parse_iperf3('{"start": {}, "error": "error - unable to connect to server"}')

    def test_fio(self) -> None:
        (job,) = parse_fio("fio: a warning\n" + data("fio.json"))
        assert job.read.bytes_per_second == 3.2e9

    def test_a_brace_in_a_warning_begins_no_document(self) -> None:
        (job,) = parse_fio("fio: unknown option {x}\n  {\n" + data("fio.json"))
        assert job.read.bytes_per_second == 3.2e9

    def test_fio_that_failed_half_way(self) -> None:
        said = "fio: pid=4896, err=5/file:ioengines.c:351, func=io_u error, error=Input/output\n"
        text = data("fio.json").replace('"error": 0', '"error": 5')
        with pytest.raises(ParseError, match="error 5"):
            parse_fio(said + text)

    def test_fio_that_moved_nothing(self) -> None:
        text = data("fio.json").replace('"io_bytes": 68719476736', '"io_bytes": 0')
        with pytest.raises(ParseError, match="no bytes"):
            parse_fio(text)

    def test_gdrcopy_in_both_dialects(self) -> None:
        assert parse_gdrcopy_sanity(data("gdrcopy_sanity.txt")).passed == 28
        old = parse_gdrcopy_sanity("95%: Checks: 22, Failures: 1, Errors: 0\n")
        assert (old.total, old.passed, old.failed) == (22, 21, 1)

    @pytest.mark.parametrize(
        "text", ["Total: 0, Passed: 0, Failed: 0, Waived: 0", "Total: 9, Passed: 8, Failed: 0"]
    )
    def test_gdrcopy_counts_must_add_up(self, text: str) -> None:
        with pytest.raises(ParseError):
            parse_gdrcopy_sanity(text)

    def test_chrony(self) -> None:
        good = parse_tracking(data("chrony_tracking.txt"))
        assert good.synchronised
        assert good.stratum == 3
        bad = data("chrony_tracking.txt").replace("Normal", "Not synchronised")
        assert not parse_tracking(bad).synchronised

    @pytest.mark.parametrize("own", ["7F7F0101 ()", "7f7f0101 ()", "127.127.1.1 ()"])
    def test_a_clock_that_follows_itself_follows_nothing(self, own: str) -> None:
        text = data("chrony_tracking.txt").replace("C0000201 (192.0.2.1)", own)
        assert not parse_tracking(text).synchronised

    def test_a_source_that_was_lost_long_ago_is_none(self) -> None:
        text = data("chrony_tracking.txt").replace("0.000500000", "3849.691650391")
        found = parse_tracking(text)
        assert not found.synchronised
        assert found.words.endswith("right to 3849.6924 s")

    @pytest.mark.parametrize("part", ["sum_received", "sum"])
    def test_udp_is_what_arrived(self, part: str) -> None:
        """`sum` is the sender's; what was received is told from iperf3 3.12 on."""
        end = {"sum": {"bits_per_second": 2e9, "lost_percent": 25, "jitter_ms": 0.1}}
        if part == "sum_received":
            end[part] = {"bits_per_second": 1.5e9}
        report = {"start": {"test_start": {"protocol": "UDP"}}, "end": end}
        assert parse_iperf3(json.dumps(report)).bits_per_second == pytest.approx(1.5e9)


PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    "topology": (parse_topology, "topo_bridge.txt"),
    "nvlink": (parse_nvlink, "topo_bridge.txt"),
    "nccl tests": (parse_nccl_test, "all_reduce_info.txt"),
    "nccl log": (parse_nccl_log, "all_reduce_info.txt"),
    "kernel log": (parse_kernel_log, "journal.txt"),
    "nvbandwidth": (parse_nvbandwidth, "nvbandwidth_p2p.txt"),
    "smi": (parse_smi, "topo_bridge.txt"),
    "iperf3": (parse_iperf3, "iperf3_tcp.json"),
    "fio": (parse_fio, "fio.json"),
    "gdrcopy": (parse_gdrcopy_sanity, "gdrcopy_sanity.txt"),
    "chrony": (parse_tracking, "chrony_tracking.txt"),
}


@pytest.mark.parametrize("name", PARSERS)
class TestGarbage:
    @given(text=st.text(max_size=300))
    @settings(max_examples=150)
    def test_any_text_is_an_error(self, name: str, text: str) -> None:
        with pytest.raises(ParseError):
            PARSERS[name][0](text)

    @given(draw=st.data())
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    def test_damage_is_a_typed_error_or_a_result(self, name: str, draw: st.DataObject) -> None:
        parse, source = PARSERS[name]
        text = data(source)
        for _ in range(draw.draw(st.integers(1, 4))):
            at = draw.draw(st.integers(0, len(text)))
            end = draw.draw(st.integers(at, min(len(text), at + 200)))
            patch = draw.draw(
                st.sampled_from(["", "N/A", "ERR!", "-1", "9" * 400, "\x00", "{", "}"])
            )
            text = text[:at] + patch + text[end:]
        try:
            parse(text)
        except ParseError:
            return


def test_garbage_in_the_health_document_is_a_typed_error(tmp_path: Path) -> None:
    node = simulated_node(tmp_path / "node")
    assert node.sim
    text = subprocess.run(
        [node.sim / "bin/nvidia-smi", "-q", "-x"],
        env={"NODEPREP_SIM_BOARD": str(node.sim / "board.json"), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    @given(at=st.integers(0, len(text)), size=st.integers(0, 400), patch=st.text(max_size=6))
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    def damaged(at: int, size: int, patch: str) -> None:
        try:
            parse_smi(text[:at] + patch + text[at + size :])
        except ParseError:
            return

    damaged()
