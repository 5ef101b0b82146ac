"""Parsers of the later levels' tools: the shapes of their releases, and garbage is no result."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.accept.parsers.dcgm import parse_dcgm, plugin
from nodeprep.accept.parsers.dcgmproftester import parse_gemm
from nodeprep.accept.parsers.ethtool import parse_module, parse_settings, parse_statistics, worst
from nodeprep.accept.parsers.gdrcopy import parse_gdrcopy_copybw
from nodeprep.accept.parsers.matrix_load import parse_rounds
from nodeprep.accept.parsers.nccl_tests import parse_nccl_test
from nodeprep.accept.parsers.nvbandwidth import parse_nvbandwidth
from nodeprep.accept.parsers.text import ParseError
from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import dcgmi, driver, ethtool, gdrcopy
from nodeprep.probe import reader
from tests.unit.accept.nodes import ROOT

DATA = ROOT / "tests/data/accept"
BIDIRECTIONAL = "device_to_device_bidirectional_memcpy_read_ce"


def data(name: str) -> str:
    return (DATA / name).read_text()


class TestDcgm:
    def test_three(self) -> None:
        found = parse_dcgm(data("dcgm3_r3.json"))
        assert found.version == "3.3.5"
        assert found.passed_on("memory") == {0, 1, 2, 3}
        assert found.passed_on("pulse_test") == set()
        (warned,) = found.with_status("warn")
        assert warned.gpus == (0, 1, 2, 3)
        assert warned.warnings == ("Persistence mode for GPU 0 is disabled.",)

    def test_four_tells_an_entity_at_a_time(self) -> None:
        found = parse_dcgm(data("dcgm4_r3.json"))
        assert found.version == "4.1.1"
        assert found.passed_on("targeted_stress") == {0, 1, 2, 3}
        (cpu,) = (result for result in found.results if result.test == "cpu_eud")
        assert cpu.gpus == ()

    def test_two_had_plain_texts_and_nulls(self) -> None:
        results = [{"gpu_ids": "0,1", "status": "FAIL", "warnings": ["too slow"], "info": None}]
        test = {"name": "sm_stress", "results": results}
        document = {"test_categories": [None, {"category": "Stress", "tests": [test, None]}]}
        (found,) = parse_dcgm(json.dumps({"DCGM GPU Diagnostic": document})).results
        assert (found.status, found.gpus, found.warnings) == ("fail", (0, 1), ("too slow",))

    def test_figures(self) -> None:
        figures = parse_dcgm(data("dcgm3_r3.json")).figures()
        stress = {f.gpu: f.value for f in figures if f.name == "relative stress level"}
        assert stress == {0: 18244, 1: 18301, 2: 18267, 3: 18290}
        pcie = next(figure for figure in figures if figure.test == "pcie")
        assert (pcie.name, pcie.value, pcie.unit) == ("GPU to Host bandwidth", 25.88, "GB/s")

    @pytest.mark.parametrize(
        "name", ["Targeted Stress", "targeted_stress", "TARGETED-STRESS", " targeted stress "]
    )
    def test_a_test_has_one_name(self, name: str) -> None:
        assert plugin(name) == "targeted_stress"
        assert plugin("GPU Memory") == plugin("memory")

    @pytest.mark.parametrize(
        "text",
        [
            "", "{}", "[]", "{", "null", '{"DCGM Diagnostic": []}', '{"DCGM Diagnostic": {}}',
            '{"DCGM GPU Diagnostic": {"test_categories": "none"}}',
            '{"DCGM GPU Diagnostic": {"runtime_error": "NVVS has died", "test_categories": []}}',
            "Error: unable to establish a connection to the specified host: localhost",
            "[" * 100_000,
        ],
    )  # fmt: skip
    def test_no_diagnosis(self, text: str) -> None:
        with pytest.raises(ParseError):
            parse_dcgm(text)

    def test_a_document_cut_short_is_none(self) -> None:
        text = data("dcgm4_r3.json").rstrip()
        for cut in range(1, len(text), 97):
            with pytest.raises(ParseError):
                parse_dcgm(text[:-cut])

    @pytest.mark.parametrize("level", [1, 2, 3, 4])
    def test_what_the_stand_in_prints(self, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
        board = boards.new("a100-sxm4-40g-x4", "test")
        monkeypatch.setattr(driver, "problem", lambda _: None)
        monkeypatch.setattr(driver, "cuda_problem", lambda _: "")
        monkeypatch.setattr(driver, "version", lambda _: "535.183.06")
        found = parse_dcgm(dcgmi.run(["diag", "-r", str(level), "-j", "-v"], board).out)
        assert found.with_status("fail") == ()
        assert (found.passed_on("memtest") == {0, 1, 2, 3}) == (level == 4)


class TestNvbandwidth:
    def test_both_ways_is_the_total(self) -> None:
        found = parse_nvbandwidth(data("nvbandwidth_bidirectional.txt"))
        assert found[BIDIRECTIONAL].cells[0, 1] == pytest.approx(179.11)
        assert found[f"{BIDIRECTIONAL}_read1"].cells[0, 1] == pytest.approx(89.51)

    def test_older_ones_print_one_matrix(self) -> None:
        text = data("nvbandwidth_p2p.txt").replace("device_to_device_memcpy_read_ce", BIDIRECTIONAL)
        assert len(parse_nvbandwidth(text)[BIDIRECTIONAL].cells) == 12

    def test_a_copy_to_itself_of_no_speed_is_none(self) -> None:
        text = data("nvbandwidth_p2p.txt").replace("  N/A", " 0.00")
        found = parse_nvbandwidth(text)["device_to_device_memcpy_read_ce"]
        assert len(found.cells) == 12

    def test_but_a_pair_of_no_speed_is_one(self) -> None:
        text = data("nvbandwidth_p2p.txt").replace("92.13", " 0.00")
        found = parse_nvbandwidth(text)["device_to_device_memcpy_read_ce"]
        assert found.slowest == ((1, 3), 0.0)

    def test_to_be_drawn(self) -> None:
        found = parse_nvbandwidth(data("nvbandwidth_h2d.txt"))["host_to_device_memcpy_ce"].matrix()
        assert (found["rows"], found["cols"][-1], found["unit"]) == (["host"], "GPU3", "GB/s")


class TestNcclTests:
    def test_in_place_results_of_alltoall_are_never_checked(self) -> None:
        text = data("all_reduce_info.txt")
        lines = [
            line.rpartition("0")[0] + "N/A" if line.split()[:1] and line.split()[0].isdecimal()
            else line
            for line in text.splitlines()
        ]  # fmt: skip
        found = parse_nccl_test("\n".join(lines))
        assert found.wrong is None
        assert found.wrong_out_of_place == 0

    def test_a_curve_to_be_drawn(self) -> None:
        curve = parse_nccl_test(data("all_reduce_info.txt")).curve()
        assert len(curve["x"]) == len(curve["y"]) > 1
        assert (curve["unit"], curve["x_unit"]) == ("GB/s", "B")


class TestEthtool:
    @pytest.mark.parametrize(
        ("text", "read"),
        [
            ("\tSpeed: 10000Mb/s\n\tDuplex: Full\n\tLink detected: yes\n", (10000, "full", True)),
            ("\tSpeed: 1000Mb/s\n\tDuplex: Half\n\tLink detected: yes\n", (1000, "half", True)),
            (
                "\tSpeed: Unknown!\n\tDuplex: Unknown! (255)\n\tLink detected: no\n",
                (None, None, False),
            ),
            ("\tSpeed: 100000Mb/s (auto)\n\tLink detected: yes (SQI 7)", (100000, None, True)),
            ("\tSpeed: Unknown!\n\tLink detected: no (No cable)", (None, None, False)),
            ("\tLink detected: no (Autoneg, No partner detected)", (None, None, False)),
            ("\tSpeed: 65535Mb/s\n\tDuplex: Full\n", (None, "full", None)),
            ("\tSpeed: 4294967295Mb/s\n\tLink detected: yes\n", (None, None, True)),
            ("\tSpeed: 400000Mb/s\n\tLanes: 8\n\tDuplex: Full\n", (400000, "full", None)),
        ],
    )
    def test_what_was_negotiated(self, text: str, read: tuple[Any, ...]) -> None:
        found = parse_settings(f"Settings for ens5f0:\n{text}")
        assert (found.speed_mbps, found.duplex, found.link) == read
        told = reader.parse_link(f"Settings for ens5f0:\n{text}")
        assert (told["speed_mbps"], told["link"]) == (found.speed_mbps, found.link)

    def test_the_stand_in(self) -> None:
        board = boards.new("a100-sxm4-40g-x4", "test")
        found = parse_settings(ethtool.run(["ens5f0"], board).out)
        assert (found.speed_mbps, found.duplex, found.link) == (10000, "full", True)
        counted = parse_statistics(ethtool.run(["-S", "ens5f0"], board).out)
        assert counted.packets == 184467440
        assert set(counted.errors().values()) == set(counted.drops().values()) == {0}

    def test_counters_by_kind_whatever_the_driver_calls_them(self) -> None:
        found = parse_statistics(data("ethtool_mlx5_statistics.txt"))
        assert found.packets == 912400000
        assert worst(found.errors()) == ("rx_symbol_err_phy", 3)
        assert worst(found.drops()) == ("rx_discards_phy", 41)
        assert not {name for name in found.errors() if "csum" in name or "corrected" in name}

    @pytest.mark.parametrize(
        "name",
        ["rx_packets", "tx_packets_phy", "rx_ucast_frames", "rx_ucast_pkts", "rx_unicast",
         "port.rx_unicast", "tx_unicast.nic", "port_rx_packets"],
    )  # fmt: skip
    def test_packets_whatever_the_driver_calls_them(self, name: str) -> None:
        assert parse_statistics(f"     {name}: 912\n     rx_queue_0_packets: 9999\n").packets == 912

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("rx_crc_errors", "error"), ("port.rx_crc_errors", "error"), ("collisions", "error"),
            ("rx_fcs_err_frames", "error"), ("tx_errors", "error"), ("rx_length_errors", "error"),
            ("rx_missed_errors", "drop"), ("rx_fifo_errors", "drop"),
            ("rx_no_dma_resources", "drop"),
            ("port.rx_dropped", "drop"), ("rx_over_errors", "drop"), ("[3]: rx_discards", "drop"),
            ("rx_dropped", ""), ("rx_csum_offload_errors", ""), ("fdir_miss", ""), ("rx_bytes", ""),
            ("rx_queue_0_packets", ""), ("multicast", ""), ("rx_unknown_protocol_drops", ""),
            ("rx_crc_errors.nic", "error"), ("rx_dropped.nic", "drop"), ("rx_wqe_err", "error"),
            ("rx_prio0_buf_discard", "drop"), ("rx_xsk_buff_alloc_err", "drop"),
            ("rx_total_oom_discards", "drop"), ("rx_err_lane_3_phy", ""), ("rx_arfs_err", ""),
            ("rx_corrected_bits_phy", ""), ("rx_steer_missed_packets", ""), ("rx_xdp_drop", ""),
            ("tx_dropped_link_down.nic", ""), ("port.tx_dropped_link_down", ""),
            ("dropped_smbus", ""), ("total_missed_irqs", ""), ("rx_csum_bad.nic", ""),
            ("rx_discard_bytes_cos0", ""), ("rx_discard_packets_cos0", "drop"),
        ],
    )  # fmt: skip
    def test_kinds(self, name: str, kind: str) -> None:
        found = parse_statistics(f"NIC statistics:\n     {name}: 7\n     rx_bytes: 1\n")
        assert [bool(found.errors()), bool(found.drops())] == [kind == "error", kind == "drop"]


class TestGdrcopy:
    def test_the_stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gdrcopy, "_problem", lambda _: "")
        text = gdrcopy.copybw(["-d", "2"], boards.new("a100-sxm4-40g-x4", "test")).out
        rates = parse_gdrcopy_copybw(text)
        assert rates["write"] > 9000
        assert rates["read"] > 500

    @pytest.mark.parametrize("text", ["", "write BW: 9600MB/s", "write BW: n/a\nread BW: 500MB/s"])
    def test_half_a_result_is_none(self, text: str) -> None:
        with pytest.raises(ParseError):
            parse_gdrcopy_copybw(text)


PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "dcgm": (parse_dcgm, data("dcgm4_r3.json")),
    "ethtool": (parse_settings, "Settings for x:\n\tSpeed: 10000Mb/s\n\tDuplex: Full\n"),
    "ethtool -S": (parse_statistics, data("ethtool_mlx5_statistics.txt")),
    "nvbandwidth": (parse_nvbandwidth, data("nvbandwidth_bidirectional.txt")),
    "copybw": (parse_gdrcopy_copybw, "write BW: 9600.1MB/s\nread BW: 530MB/s\n"),
}


class TestGarbage:
    @settings(max_examples=60)
    @given(name=st.sampled_from(sorted(PARSERS)), text=st.text(max_size=300))
    def test_any_text_is_a_typed_error(self, name: str, text: str) -> None:
        parser, _ = PARSERS[name]
        try:
            parser(text)
        except ParseError:
            return
        assert name.startswith("ethtool")  # `a: 1` is a counter

    @settings(max_examples=60)
    @given(name=st.sampled_from(sorted(PARSERS)), draw=st.data())
    def test_damage_is_a_typed_error_or_a_result(self, name: str, draw: st.DataObject) -> None:
        parser, good = PARSERS[name]
        start = draw.draw(st.integers(0, len(good)))
        end = draw.draw(st.integers(start, len(good)))
        filling = draw.draw(st.text(max_size=9))
        try:
            parser(good[:start] + filling + good[end:])
        except ParseError:
            return

    @settings(max_examples=80)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["DCGM Diagnostic", "test_categories", "tests", "results", "status", "gpu_ids",
                     "entity_id", "entity_group", "warnings", "info", "name", "metadata"]
                ),
                inner, max_size=5,
            ),
            max_leaves=25,
        )
    )  # fmt: skip
    def test_any_json_is_no_crash(self, value: Any) -> None:
        try:
            found = parse_dcgm(json.dumps({"DCGM Diagnostic": value}))
        except ParseError:
            return
        assert found.figures() is not None


QSFP = """\
\tIdentifier                                : 0x11 (QSFP28)
\tTransceiver type                          : 100G Ethernet: 100G Base-SR4 or 25GBase-SR
\tVendor name                               : Mellanox
\tVendor PN                                 : MMA1B00-C100D
\tModule temperature                        : 41.50 degrees C / 106.70 degrees F
\tAlarm/warning flags implemented           : Yes
\tTransmit avg optical power (Channel 1)    : 1.0 mW / 0.00 dBm
\tTransmit avg optical power (Channel 2)    : 0.9 mW / -0.46 dBm
\tRcvr signal avg optical power(Channel 1)  : 0.8 mW / -0.97 dBm
\tRcvr signal avg optical power(Channel 2)  : 0.0001 mW / -40.00 dBm
\tLaser bias current high alarm   (Chan 1)  : Off
\tLaser rx power low alarm   (Channel 2)    : On
\tLaser rx power low alarm threshold        : 0.0457 mW / -13.40 dBm
"""
COPPER = """\
\tIdentifier                                : 0x03 (SFP)
\tTransceiver type                          : Passive Cable
\tVendor name                               : OEM
\tOptical diagnostics support               : No
"""
CMIS = """\
\tIdentifier                                : 0x19 (QSFP-DD)
\tTransceiver type                          : 400G Ethernet
\tRx power low alarm                        : [ No, No, Yes, No ]
\tTx fault                                  : None
"""


class TestModule:
    def test_the_worst_lane_counts(self) -> None:
        found = parse_module(QSFP)
        assert (found.rx_dbm, found.tx_dbm, found.celsius) == (-40.0, -0.46, 41.5)
        assert found.raised == ("Laser rx power low alarm   (Channel 2)",)
        assert found.vendor == "Mellanox MMA1B00-C100D"

    def test_a_cable_of_copper_sees_no_light(self) -> None:
        found = parse_module(COPPER)
        assert (found.kind, found.rx_dbm, found.raised) == ("Passive Cable", None, ())

    def test_cmis_tells_by_lane(self) -> None:
        assert parse_module(CMIS).raised == ("Rx power low alarm",)

    def test_one_lane_without_light_is_the_worst(self) -> None:
        text = QSFP.replace("0.0001 mW / -40.00 dBm", "0.0000 mW / -inf dBm")
        assert parse_module(text).rx_dbm == -40.0

    def test_lost_signals_are_told_by_lane(self) -> None:
        text = QSFP.replace("(Channel 2)    : On", "(Channel 2)    : Off")
        lost = "\tRx loss of signal    : [ No, Yes, No, No ]\n\tTx loss of lock      : None\n"
        assert parse_module(text + lost).raised == ("Rx loss of signal",)

    def test_no_light_at_all(self) -> None:
        text = QSFP.replace("0.0001 mW / -40.00 dBm", "0 mW / -inf dBm")
        text = text.replace("0.8 mW / -0.97 dBm", "0 mW / -inf dBm")
        assert parse_module(text).rx_dbm is None

    @pytest.mark.parametrize("text", ["", "netlink error: Operation not supported\n", "\x00{"])
    def test_what_tells_of_no_module_is_no_module(self, text: str) -> None:
        with pytest.raises(ParseError, match="no module"):
            parse_module(text)

    @given(st.text())
    def test_whatever_is_printed_does_no_harm(self, text: str) -> None:
        with contextlib.suppress(ParseError):
            parse_module(text)


class TestRounds:
    def test_each_gpu_in_the_order_of_time(self) -> None:
        text = (
            "gpu 1 TFLOPS 128.31 result 5b8c01f2\ngpu 0 TFLOPS 7.00 result 00000000\n"
            "gpu 1 TFLOPS 127.00 result 5b8c01f3\n"
        )
        assert parse_rounds(text) == {
            1: ((128.31, "5b8c01f2"), (127.0, "5b8c01f3")),
            0: ((7.0, "00000000"),),
        }

    @pytest.mark.parametrize(
        "text", ["", "gpu 0 TFLOPS nan result 5b8c01f2", "gpu 0 TFLOPS 12.1 result 5b8c"]
    )
    def test_no_round_is_no_result(self, text: str) -> None:
        with pytest.raises(ParseError, match="no rounds"):
            parse_rounds(text)

    @given(st.text())
    def test_whatever_is_printed_does_no_harm(self, text: str) -> None:
        with contextlib.suppress(ParseError):
            parse_rounds(text)


class TestGemm:
    @pytest.mark.parametrize(
        ("line", "tflops"),
        [
            ("TensorEngineActive: generated ???, dcgm 0.000 (27605.2 gflops)", {0: (27.6052,)}),
            (
                "Worker 3:0[1004]: TensorEngineActive: generated ???, dcgm 0.000 (250362.2 gflops)",
                {3: (250.3622,)},
            ),
            (
                "Worker 1:0 [1004]: TensorEngineActive: generated ???, dcgm 0 (1.89e+05 gflops).",
                {1: (189.0,)},
            ),
        ],
    )
    def test_the_shapes_of_its_releases(self, line: str, tflops: dict[int, Any]) -> None:
        assert parse_gemm(f"Skipping WatchFields()\n{line}\n") == tflops

    @pytest.mark.parametrize("text", ["", "Skipping WatchFields()", "(x gflops)"])
    def test_no_rate_is_no_result(self, text: str) -> None:
        with pytest.raises(ParseError, match="no rates"):
            parse_gemm(text)

    @given(st.text())
    def test_whatever_is_printed_does_no_harm(self, text: str) -> None:
        with contextlib.suppress(ParseError):
            parse_gemm(text)
