"""nccl-tests, nvbandwidth, dcgmi and gdrcopy: real formats, and figures that follow the board."""

from __future__ import annotations

import json
import re

import pytest

from nodeprep.lab.sim import nccl
from tests.unit.lab.sim.conftest import EVERYTHING, Node

REDUCE = "all_reduce_perf -b 512M -e 2G -f 2 -g 4"
ROW = re.compile(
    r" *(\d+) +(\d+) +float +(\w+) +-1 +([\d.]+) +([\d.]+) +([\d.]+) +(\S+)"
    r" +([\d.]+) +([\d.]+) +([\d.]+) +(\S+)"
)


def _rows(text: str) -> list[tuple[str, ...]]:
    return [match.groups() for line in text.splitlines() if (match := ROW.fullmatch(line))]


def test_a_row_for_each_size(node: Node) -> None:
    text = node.out(REDUCE)
    assert [int(row[0]) >> 20 for row in _rows(text)] == [512, 1024, 2048]
    assert [int(row[1]) * 4 for row in _rows(text)] == [int(row[0]) for row in _rows(text)]
    assert "# Out of bounds values : 0 OK\n" in text
    assert len(re.findall(r"^#  Rank +\d Group  0 Pid", text, re.MULTILINE)) == 4


def test_bus_and_algorithm_bandwidth_belong_together(node: Node) -> None:
    for row in _rows(node.out(REDUCE)):
        size, time, algbw, busbw = int(row[0]), float(row[3]), float(row[4]), float(row[5])
        assert algbw == pytest.approx(size / time / 1e3, rel=1e-3)
        assert busbw == pytest.approx(algbw * 1.5, rel=1e-3)


@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter", "alltoall"])
def test_the_other_collectives(node: Node, op: str) -> None:
    rows = _rows(node.out(f"{op}_perf -b 1G -e 1G -g 4"))
    assert len(rows) == 1
    assert float(rows[0][5]) == pytest.approx(float(rows[0][4]) * 0.75, rel=1e-3)


def test_small_messages_measure_latency(node: Node) -> None:
    rows = _rows(node.out("all_reduce_perf -b 8 -e 8 -g 4"))
    assert float(rows[0][5]) < 0.01


def test_wrong_values_end_in_failure(node: Node) -> None:
    result = node.inject("nccl_wrong_values", count=24).run(REDUCE)
    assert result.rc == 1
    assert "# Out of bounds values : 144 FAILED" in result.out
    assert {row[6] for row in _rows(result.out)} == {"24"}


@pytest.mark.parametrize("how", ["-c 0", "fault"])
def test_without_validation_nothing_is_known(node: Node, how: str) -> None:
    if how == "fault":
        node.inject("nccl_validation_off")
    text = node.out(REDUCE + (" -c 0" if how == "-c 0" else ""))
    assert {(row[6], row[10]) for row in _rows(text)} == {("N/A", "N/A")}


def test_more_gpus_than_there_are(node: Node) -> None:
    result = node.run("all_reduce_perf -g 8")
    assert result.rc == 1
    assert "8 requested but only 4 were found" in result.out


def test_without_the_library_it_does_not_start(node: Node) -> None:
    node.become("a100-sxm4-40g-x4", {key: EVERYTHING[key] for key in ("library", "loaded")})
    assert node.run(REDUCE).rc == 127


def test_without_a_fabric_manager_nothing_runs_on_nvswitch(node: Node) -> None:
    node.become("a100-sxm4-80g-x8")
    result = node.run("all_reduce_perf -g 8")
    assert result.rc == 2
    assert "Test CUDA failure" in result.out
    assert "system not yet initialized" in result.out
    board = node.board
    board["fabric_manager"]["running"] = EVERYTHING["fabricmanager"]
    node.write(board)
    assert node.run("all_reduce_perf -g 8").rc == 0


def test_nccl_is_silent_unless_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "NCCL" not in node.out(REDUCE)
    monkeypatch.setenv("NCCL_DEBUG", "VERSION")
    assert "NCCL version 2.16.5+cuda12.0\n" in node.out(REDUCE)


def _addresses(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    pairs = [(name, f"10.77.0.{number}") for number, name in enumerate(names, 11)]
    monkeypatch.setattr(nccl, "addresses", lambda: pairs)
    monkeypatch.setattr(nccl, "CONF", "/nonexistent")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")


def test_nccl_says_which_interface_it_uses(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    _addresses(monkeypatch, "lo", "docker0", "ens5f0")
    text = node.out(REDUCE)
    assert "NCCL INFO Bootstrap : Using ens5f0:10.77.0.13<0>\n" in text
    assert "NCCL INFO NET/Socket : Using [0]ens5f0:10.77.0.13<0>\n" in text
    assert "via P2P/IPC/read\n" in text


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", "cni0 ens5f0 ens5f0v1"),
        ("ens5f0", "ens5f0 ens5f0v1"),
        ("=ens5f0", "ens5f0"),
        ("^cni,docker,lo", "ens5f0 ens5f0v1"),
        ("^=cni0,lo", "docker0 ens5f0 ens5f0v1"),
        ("ib0", ""),
    ],
)
def test_nccl_socket_ifname(
    node: Node, monkeypatch: pytest.MonkeyPatch, pattern: str, expected: str
) -> None:
    _addresses(monkeypatch, "lo", "cni0", "docker0", "ens5f0", "ens5f0v1")
    found = nccl.interfaces(node.board, pattern)
    assert [name for name, _ in found] == expected.split()


def test_the_file_pins_the_interface_and_the_environment_wins(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    _addresses(monkeypatch, "cni0", "ens5f0")
    conf = node.folder / "nccl.conf"
    conf.write_text("# pinned\nNCCL_SOCKET_IFNAME==ens5f0\n")
    monkeypatch.setattr(nccl, "CONF", str(conf))
    assert "Using [0]ens5f0" in node.out(REDUCE)
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "=cni0")
    assert "Using [0]cni0" in node.out(REDUCE)


def test_an_interface_that_is_not_there_stops_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    _addresses(monkeypatch, "eth0")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "=ens5f0")
    result = node.run(REDUCE)
    assert result.rc == 3
    assert "NCCL WARN Bootstrap : no socket interface found" in result.out


def test_between_nodes_the_nic_decides(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SIZE", "2"), ("LOCAL_SIZE", "1"), ("RANK", "0")):
        monkeypatch.setenv("OMPI_COMM_WORLD_" + name, value)
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    ring = float(_rows(node.out(REDUCE))[-1][5])
    assert 1.0 < ring < 1.25
    monkeypatch.delenv("NCCL_ALGO")
    assert float(_rows(node.out(REDUCE))[-1][5]) > 1.25, "a tree looks faster than the line"
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    assert node.out(REDUCE) == ""


def test_nvbandwidth_prints_a_matrix_and_its_sum(node: Node) -> None:
    text = node.out("nvbandwidth -t device_to_device_memcpy_read_ce")
    assert "CUDA Driver Version: 12020\nDriver Version: 535.183.01\n" in text
    block = text.split("bandwidth (GB/s)\n")[1].splitlines()
    cells = [row.split()[1:] for row in block[1:5]]
    assert [cells[n][n] for n in range(4)] == ["N/A"] * 4
    figures = [float(cell) for row in cells for cell in row if cell != "N/A"]
    assert all(90 < figure < 95 for figure in figures)
    total = float(block[6].split()[-1])
    assert block[6].startswith("SUM device_to_device_memcpy_read_ce ")
    assert total == pytest.approx(sum(figures), abs=0.1)


def test_nvbandwidth_knows_its_tests(node: Node) -> None:
    assert "0, host_to_device_memcpy_ce:" in node.out("nvbandwidth -l")
    assert node.run("nvbandwidth -t host_to_mars").rc == 1


def test_dcgm_diag_as_json(node: Node) -> None:
    node.out("nvidia-smi -pm 1")
    report = json.loads(node.out("dcgmi diag -r 3 -j"))["DCGM GPU Diagnostic"]
    results = [result["status"] for category in report["test_categories"]
               for test in category["tests"] for result in test["results"]]  # fmt: skip
    assert set(results) == {"Pass"}
    assert [category["category"] for category in report["test_categories"]] == [
        "Deployment", "Integration", "Hardware", "Stress",
    ]  # fmt: skip


def test_dcgm_names_the_gpu_that_failed(node: Node) -> None:
    result = node.inject("ecc_volatile_uncorrectable", gpu=2).run("dcgmi diag -r 2 -j")
    assert result.rc == 226
    categories = json.loads(result.out)["DCGM GPU Diagnostic"]["test_categories"]
    bad = [(test["name"], found["gpu_ids"]) for category in categories
           for test in category["tests"] for found in test["results"]
           if found["status"] == "Fail"]  # fmt: skip
    assert bad == [("GPU Memory", "2")]


def test_gdrcopy_counts_its_tests(node: Node) -> None:
    assert node.out("gdrcopy_sanity").startswith("Total: 28, Passed: 28, Failed: 0, Waived: 0\n")
    result = node.inject("gdrcopy_fails", count=3).run("gdrcopy_sanity")
    assert (result.rc, result.out[:42]) == (1, "Total: 28, Passed: 25, Failed: 3, Waived: ")


def test_gdrcopy_needs_its_module(node: Node) -> None:
    node.become("a100-sxm4-40g-x4", {k: v for k, v in EVERYTHING.items() if k != "gdrdrv"})
    assert "Is gdrdrv driver installed and loaded?" in node.run("gdrcopy_sanity").err
    assert node.run("gdrcopy_copybw").rc == 1


def test_gdrcopy_measures(node: Node) -> None:
    assert re.search(r"write BW: \d{4}\.\d+MB/s\n", node.out("gdrcopy_copybw -d 1"))


def test_nvcc_tells_its_version_and_compiles_nothing(node: Node) -> None:
    assert "release 12.1, V12.1.105\n" in node.out("nvcc --version")
    assert node.run("nvcc hello.cu").rc == 1


def test_nvidia_ctk_describes_every_gpu_and_the_driver(node: Node) -> None:
    folder = node.folder / "cdi"
    assert node.run(f"nvidia-ctk cdi generate --output={folder}/nvidia.yaml").rc == 0
    spec = (folder / "nvidia.yaml").read_text()
    assert "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01\n" in spec
    devices = node.out(f"nvidia-ctk cdi list --spec-dir {folder}").split()
    assert devices[:4] == [f"nvidia.com/gpu={index}" for index in range(4)]
    assert devices[-1] == "nvidia.com/gpu=all"
    assert len(devices) == 9


def test_nvidia_ctk_describes_nothing_while_the_driver_does_not_answer(node: Node) -> None:
    node.inject("driver_library_mismatch")
    result = node.run("nvidia-ctk cdi generate")
    assert result.rc == 1
    assert "ERROR_LIB_RM_VERSION_MISMATCH" in result.err
    assert result.out == ""


def test_without_a_specification_nvidia_ctk_lists_no_device(node: Node) -> None:
    assert node.out(f"nvidia-ctk cdi list --spec-dir {node.folder}/none") == ""
