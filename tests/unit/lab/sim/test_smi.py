"""nvidia-smi: the formats of branch 535, from one board."""

from __future__ import annotations

import csv
import io
import re
from xml.etree import ElementTree

import pytest

from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import installed, smi_query
from nodeprep.probe import reader
from tests.unit.lab.sim.conftest import EVERYTHING, Node

WITH_GPUS = ("a100-sxm4-40g-x4", "a100-pcie-40g-x4", "a100-sxm4-80g-x8", "h100-sxm5-80g-x8")


def _xml(node: Node) -> ElementTree.Element:
    return ElementTree.fromstring(node.run("nvidia-smi -q -x").out)


@pytest.mark.parametrize("model", WITH_GPUS)
def test_the_xml_holds_every_gpu(node: Node, model: str) -> None:
    root = _xml(node.become(model))
    gpus = root.findall("gpu")
    assert root.findtext("attached_gpus") == str(len(gpus)) == str(len(node.board["gpus"]))
    assert [gpu.findtext("uuid") for gpu in gpus] == [gpu["uuid"] for gpu in node.board["gpus"]]
    assert {gpu.findtext("ecc_mode/current_ecc") for gpu in gpus} == {"Enabled"}
    assert {gpu.findtext("remapped_rows/remapped_row_failure") for gpu in gpus} == {"No"}
    assert {gpu.findtext("pci/pci_gpu_link_info/link_widths/current_link_width")
            for gpu in gpus} == {"16x"}  # fmt: skip


def test_the_xml_names_gpus_by_their_place(node: Node) -> None:
    first = _xml(node).find("gpu")
    assert first is not None
    assert first.get("id") == first.findtext("pci/pci_bus_id") == "00000000:17:00.0"
    assert first.findtext("pci/pci_device_id") == "20B010DE"
    assert first.findtext("product_name") == "NVIDIA A100-SXM4-40GB"
    assert first.findtext("fb_memory_usage/total") == "40960 MiB"


def test_text_and_xml_agree(node: Node) -> None:
    text, root = node.out("nvidia-smi -q"), _xml(node)
    assert text.startswith("\n==============NVSMI LOG==============\n")
    for label, tag in (("Serial Number", "serial"), ("VBIOS Version", "vbios_version"),
                       ("GPU UUID", "uuid")):  # fmt: skip
        read = re.findall(rf"^ +{label} +: (.*)$", text, re.MULTILINE)
        assert read == [gpu.findtext(tag) for gpu in root.findall("gpu")]


def test_labels_are_padded_to_one_column(node: Node) -> None:
    lines = node.out("nvidia-smi -q").splitlines()
    assert {line.index(": ") for line in lines if re.match(r" *[A-Z][\w /.]+ +: ", line)} == {42}


def test_csv_columns_are_the_fields_asked_for(node: Node) -> None:
    text = node.out("nvidia-smi --query-gpu=index,memory.total,power.limit --format=csv")
    rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    assert rows[0] == ["index", "memory.total [MiB]", "power.limit [W]"]
    assert rows[1:] == [[str(n), "40960 MiB", "400.00 W"] for n in range(4)]


def test_csv_without_header_and_units(node: Node) -> None:
    ask = "nvidia-smi --query-gpu=memory.total,ecc.mode.current --format=csv,noheader,nounits"
    assert node.out(ask) == "40960, Enabled\n" * 4


@pytest.mark.parametrize("name", ["clocks_throttle_reasons", "clocks_event_reasons"])
def test_both_spellings_of_throttle_reasons_are_known(node: Node, name: str) -> None:
    text = node.out(f"nvidia-smi --query-gpu={name}.hw_slowdown --format=csv")
    assert text.splitlines() == [f"{name}.hw_slowdown"] + ["Not Active"] * 4


def test_every_known_field_can_be_asked_for(node: Node) -> None:
    fields = smi_query.gpu_fields(node.board, node.board["gpus"][0])
    row = node.out(f"nvidia-smi --query-gpu={','.join(fields)} --format=csv,noheader -i 0")
    assert len(row.split(", ")) == len(fields)


def test_an_unknown_field_is_refused(node: Node) -> None:
    result = node.run("nvidia-smi --query-gpu=index,beauty --format=csv")
    assert (result.rc, result.out.strip()) == (2, 'Field "beauty" is not a valid field to query.')


def test_an_unknown_option_is_refused(node: Node) -> None:
    assert node.run("nvidia-smi --frobnicate").rc == 1


def test_the_list_of_gpus(node: Node) -> None:
    first = node.out("nvidia-smi -L").splitlines()[0]
    assert re.fullmatch(r"GPU 0: NVIDIA A100-SXM4-40GB \(UUID: GPU-[0-9a-f-]{36}\)", first)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("a100-sxm4-40g-x4", [["X", "NV4", "NV4", "NV4"], ["NV4", "X", "NV4", "NV4"]]),
        ("a100-pcie-40g-x4", [["X", "NV12", "SYS", "SYS"], ["NV12", "X", "SYS", "SYS"]]),
        ("a100-sxm4-80g-x8", [["X", *["NV12"] * 7], ["NV12", "X", *["NV12"] * 6]]),
        ("h100-sxm5-80g-x8", [["X", *["NV18"] * 7], ["NV18", "X", *["NV18"] * 6]]),
    ],
)
def test_the_matrix_tells_the_board(node: Node, model: str, expected: list[list[str]]) -> None:
    header, *rows = node.become(model).out("nvidia-smi topo -m").splitlines()
    count = len(expected[0])
    assert header.startswith("\t\x1b[4mGPU0\t"), "underlined, into a pipe too"
    assert header.endswith("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m")
    matrix = [[cell.strip() for cell in row.split("\t")[1 : count + 1]] for row in rows[:count]]
    assert matrix[:2] == expected
    assert rows[0].split("\t")[0] == "GPU0"
    assert rows[0].endswith("\t0\t\tN/A")


def test_p2p_is_ok_between_all(node: Node) -> None:
    rows = node.out("nvidia-smi topo -p2p r").splitlines()
    assert rows[1] == " GPU0\tX\tOK\tOK\tOK\t"


def test_nvlink_status_of_one_gpu(node: Node) -> None:
    rows = node.out("nvidia-smi nvlink -s -i 2").splitlines()
    assert rows[0].startswith("GPU 2: NVIDIA A100-SXM4-40GB (UUID: ")
    assert rows[1:] == [f"\t Link {number}: 25 GB/s" for number in range(12)]


def test_nvlink_counts_errors(node: Node) -> None:
    node.inject("nvlink_errors", gpu=1, link=2, count=50)
    rows = node.out("nvidia-smi nvlink -e -i 1")
    assert "\t Link 2: CRC Errors: 50\n" in rows
    assert "\t Link 3: CRC Errors: 0\n" in rows


def test_the_table_is_a_rectangle(node: Node) -> None:
    rows = [row for row in node.out("nvidia-smi").splitlines()[1:] if row.strip()]
    assert {len(row) for row in rows} == {89}


def test_settings_are_kept(node: Node) -> None:
    node.out("nvidia-smi -pm 1")
    node.out("nvidia-smi -i 0 -pl 300")
    node.out("nvidia-smi -i 1 -lgc 1410,1410")
    ask = "nvidia-smi --query-gpu=persistence_mode,power.limit,clocks.sm --format=csv,noheader"
    assert node.out(ask).splitlines()[:2] == [
        "Enabled, 300.00 W, 210 MHz",
        "Enabled, 400.00 W, 1410 MHz",
    ]
    node.out("nvidia-smi -rgc")
    assert node.out(ask).splitlines()[1].endswith("210 MHz")


def test_a_power_limit_beyond_the_board_is_refused(node: Node) -> None:
    result = node.run("nvidia-smi -pl 900")
    assert result.rc == 2
    assert "between 100.00 W and 400.00 W" in result.out
    assert node.board["gpus"][0]["power"]["limit"] == 400


def test_ecc_waits_for_a_reboot(node: Node) -> None:
    node.out("nvidia-smi -e 0")
    ask = "nvidia-smi --query-gpu=ecc.mode.current,ecc.mode.pending --format=csv,noheader -i 0"
    assert node.out(ask) == "Enabled, Disabled\n"
    node.write({**node.board, "boot_id": "another"})
    assert node.out(ask) == "Disabled, Disabled\n"


def test_a_reset_clears_a_pending_remap(node: Node) -> None:
    node.inject("remap_pending", gpu=0)
    node.out("nvidia-smi -r -i 0")
    assert not node.board["gpus"][0]["remap"]["pending"]


def test_a_gpu_in_use_is_not_reset(node: Node) -> None:
    assert node.inject("zombie_process", gpu=0).run("nvidia-smi -r -i 0").rc == 3


def test_a_reboot_clears_what_is_volatile(node: Node) -> None:
    node.inject("ecc_volatile_uncorrectable", gpu=0)
    node.out("nvidia-smi -pm 1")
    node.write({**node.board, "boot_id": "another"})
    node.out("nvidia-smi -L")
    gpu = node.board["gpus"][0]
    assert (gpu["persistence"], gpu["ecc"]["volatile"]["dram_uncorrectable"]) == (False, 0)
    assert gpu["ecc"]["aggregate"]["dram_uncorrectable"] == 1
    assert node.board["xids"] == []


@pytest.mark.parametrize(
    ("parts", "rc", "said"),
    [
        ({}, 9, "couldn't communicate with the NVIDIA driver"),
        ({"library": "535.183.01"}, 9, "couldn't communicate with the NVIDIA driver"),
        ({"library": "535.183.01", "loaded": "535.161.08"}, 18,
         "Failed to initialize NVML: Driver/library version mismatch"),
    ],
)  # fmt: skip
def test_it_says_what_of_the_driver_is_missing(
    node: Node, parts: dict[str, str], rc: int, said: str
) -> None:
    result = node.become("a100-sxm4-40g-x4", parts).run("nvidia-smi -q -x")
    assert result.rc == rc
    assert said in result.out


def test_a_server_without_gpus_has_no_driver(node: Node) -> None:
    assert node.become("nas").run("nvidia-smi").rc == 9


def test_an_upgrade_mismatches_until_the_reboot(node: Node) -> None:
    for part in ("library", "kernel"):
        installed.record([part, "535.216.01"])
    assert node.run("nvidia-smi -L").rc == 18
    node.write({**node.board, "boot_id": "before"})
    assert node.out("nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0") == (
        "535.216.01\n"
    )


def test_a_bandwidth_test_leaves_the_gpus_busy_for_a_while(node: Node) -> None:
    node.become("a100-pcie-40g-x4")
    ask = "nvidia-smi --query-gpu=pcie.link.gen.current,clocks.sm --format=csv,noheader -i 0"
    assert node.out(ask) == "1, 210 MHz\n", "cards at rest train down"
    node.out("nvbandwidth -t host_to_device_memcpy_ce")
    assert node.out(ask) == "4, 1410 MHz\n"


def test_a_missing_gpu_moves_the_indices_behind_it(node: Node) -> None:
    uuids = [gpu["uuid"] for gpu in node.board["gpus"]]
    node.inject("gpu_missing", gpu=1)
    rows = node.out("nvidia-smi --query-gpu=index,uuid --format=csv,noheader").splitlines()
    assert rows == [f"0, {uuids[0]}", f"1, {uuids[2]}", f"2, {uuids[3]}"]


def test_everything_else_of_a_lost_gpu_is_an_error(node: Node) -> None:
    node.inject("gpu_lost", gpu=1)
    gpus = _xml(node).findall("gpu")
    assert [gpu.findtext("temperature/gpu_temp") == "GPU is lost" for gpu in gpus] == [
        False, True, False, False,
    ]  # fmt: skip
    assert gpus[1].findtext("uuid") == node.board["gpus"][1]["uuid"]
    assert node.run("nvidia-smi -q -x").rc == 15


def test_counters_are_named_as_boards_names_them(node: Node) -> None:
    volatile = _xml(node).find("gpu/ecc_errors/volatile")
    assert volatile is not None
    assert tuple(child.tag for child in volatile) == boards.COUNTERS
    assert EVERYTHING["loaded"] == _xml(node).findtext("driver_version")


@pytest.mark.parametrize(
    ("command", "rc"), [("nvidia-smi -pm 1", 4), ("nvidia-smi -L", 0), ("all_reduce_perf -g 4", 0)]
)
def test_who_may_not_write_may_still_read(
    node: Node, monkeypatch: pytest.MonkeyPatch, command: str, rc: int
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(boards, "update", refuse)
    assert node.run(command).rc == rc
    assert node.board["gpus"][0]["persistence"] is False


class TestApplicationClocks:
    ASK = (
        "nvidia-smi --query-gpu=clocks.applications.memory,clocks.applications.graphics"
        " --format=csv,noheader,nounits -i 0"
    )

    def test_they_are_kept_until_they_are_reset(self, node: Node) -> None:
        node.out("nvidia-smi -ac 1215,1050")
        assert node.out(self.ASK) == "1215, 1050\n"
        found = _xml(node).findtext("gpu/applications_clocks/graphics_clock")
        assert found == "1050 MHz"
        assert _xml(node).findtext("gpu/default_applications_clocks/graphics_clock") == "1410 MHz"
        node.out("nvidia-smi -rac")
        assert node.out(self.ASK) == "1215, 1410\n"

    def test_they_slow_work_down(self, node: Node) -> None:
        before = float(
            node.out("all_reduce_perf -g 4").split("Avg bus bandwidth    : ")[1].split()[0]
        )
        node.out("nvidia-smi -ac 1215,705")
        after = float(
            node.out("all_reduce_perf -g 4").split("Avg bus bandwidth    : ")[1].split()[0]
        )
        assert after < before * 0.8

    @pytest.mark.parametrize("value", ["1215", "1215,1411", "900,1410", "1215,2100", "a,b"])
    def test_a_combination_that_does_not_exist_is_refused(self, node: Node, value: str) -> None:
        assert node.run(f"nvidia-smi -ac {value}").rc == 2
        assert node.out(self.ASK) == "1215, 1410\n"

    def test_they_do_not_outlive_a_reboot(self, node: Node) -> None:
        node.out("nvidia-smi -ac 1215,1050")
        node.write(dict(node.board, boot_id="another"))
        assert node.out(self.ASK) == "1215, 1410\n"


class TestMigDevices:
    def test_they_need_the_mode(self, node: Node) -> None:
        assert node.run("nvidia-smi mig -cgi 3g.20gb -C").rc == 6

    def test_they_are_made_listed_and_destroyed(self, node: Node) -> None:
        node.out("nvidia-smi -mig 1")
        assert node.run("nvidia-smi mig -dgi").rc == 6
        node.out("nvidia-smi mig -cgi 3g.20gb,3g.20gb -C")
        listed = reader.parse_mig_devices(node.out("nvidia-smi -L"))
        assert listed == {gpu["uuid"]: "3g.20gb,3g.20gb" for gpu in node.board["gpus"]}
        node.out("nvidia-smi mig -dci")
        node.out("nvidia-smi mig -dgi")
        assert set(reader.parse_mig_devices(node.out("nvidia-smi -L")).values()) == {""}

    @pytest.mark.parametrize(
        "profiles", ["3g.20gb,4g.20gb,1g.5gb", "5g.20gb", "3g.40gb", "1g.5gb," * 7 + "1g.5gb"]
    )
    def test_what_does_not_fit_is_refused(self, node: Node, profiles: str) -> None:
        node.out("nvidia-smi -mig 1")
        assert node.run(f"nvidia-smi mig -cgi {profiles} -C").rc == 19

    def test_the_mode_outlives_a_reboot_the_devices_do_not(self, node: Node) -> None:
        node.out("nvidia-smi -mig 1")
        node.out("nvidia-smi mig -cgi 7g.40gb -C")
        node.write(dict(node.board, boot_id="another"))
        assert set(reader.parse_mig_devices(node.out("nvidia-smi -L")).values()) == {""}
        assert node.board["gpus"][0]["mig"]["current"]
