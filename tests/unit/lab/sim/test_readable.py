"""What the stand-ins print is read by the project's own parsers, healthy and not."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.kernel_log import parse_kernel_log
from nodeprep.accept.parsers.nccl_log import parse_nccl_log
from nodeprep.accept.parsers.nccl_tests import parse_nccl_test
from nodeprep.accept.parsers.nvbandwidth import parse_nvbandwidth
from nodeprep.accept.parsers.nvlink import parse_nvlink
from nodeprep.accept.parsers.smi import parse_smi
from nodeprep.accept.parsers.topology import parse_p2p, parse_topology
from nodeprep.lab.sim.faults import CATALOGUE
from tests.unit.lab.sim.conftest import Node

MODELS = ("a100-sxm4-40g-x4", "a100-pcie-40g-x4", "a100-sxm4-80g-x8", "h100-sxm5-80g-x8")
# Faults after which nvidia-smi has nothing to read.
MUTE = {"gpu_off_bus", "driver_library_mismatch", "driver_not_loaded", "tool_silent",
        "tool_hangs", "tool_dies"}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_a_healthy_board_is_read(node: Node, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    board = node.become(model).board
    board["fabric_manager"]["running"] = "535.183.01"
    node.write(board)
    count = len(board["gpus"])
    assert len(parse_smi(node.out("nvidia-smi -q -x"))) == count
    parse_topology(node.out("nvidia-smi topo -m"))
    parse_p2p(node.out("nvidia-smi topo -p2p r"))
    parse_nvlink(node.out("nvidia-smi nvlink -s"))
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    text = node.out(f"all_reduce_perf -b 512M -e 1G -f 2 -g {count}")
    table = parse_nccl_test(text)
    assert (len(table.devices), len(table.rows), table.wrong) == (count, 2, 0)
    assert parse_nccl_log(text).version == "2.16.5+cuda12.0"
    assert len(parse_nvbandwidth(node.out("nvbandwidth"))) == 12
    assert parse_kernel_log(node.out("dmesg --time-format iso")).lines


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - MUTE - {"xid"}))
def test_a_faulty_board_is_read_as_well(node: Node, name: str) -> None:
    node.become("a100-sxm4-80g-x8").inject(name)
    gpus = parse_smi(node.run("nvidia-smi -q -x").out)
    assert len(gpus) == 7 + (name != "gpu_missing")
    parse_topology(node.run("nvidia-smi topo -m").out)


def test_the_kernels_log_dates_an_xid(node: Node) -> None:
    node.inject("xid_48", gpu=2, age_s=100)
    (xid,) = parse_kernel_log(node.out("journalctl -k -o short-unix")).xids
    assert (xid.code, xid.bus) == (48, "0000:b1:00")
    assert xid.at is not None
