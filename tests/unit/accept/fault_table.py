"""What each fault of the catalogues must lead to: the table that test_catalogue.py proves.

docs/faults.md is made from it by scripts/faults.py. Data only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MESH = "a100-sxm4-40g-x4"
H100 = "h100-sxm5-80g-x8"


@dataclass(frozen=True)
class Case:
    """One fault.

    red       what must block, the one that decides first: a claim, a part of the hardware, or a
              proof by its name, and words of the cause that its verdict must hold
    action    words that the first one's action must hold
    level     of the acceptance that shows it
    harmless  instead: why such a node is accepted, and the source of that
    """

    fault: str
    red: Mapping[str, str] = field(default_factory=dict)
    action: str = ""
    harmless: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    model: str = MESH
    level: str = "poc"


@dataclass(frozen=True)
class Outside:
    """A fault that one board alone does not show: who sees it, the verdict, the action, the test.

    test   the file that proves it
    proof  the one that blocks: its reason must hold the words of `verdict`, its action those of
           `action`. Where none blocks, the error's message and hint hold them
    """

    fault: str
    sees: str
    verdict: str
    action: str
    test: str
    proof: str = ""


REPLACED = "power the node off and on"
UNMEASURED = "find out on the node why it cannot be measured"
SLOW = "nccl.all_reduce.busbw"
NCCL_SLOW = {SLOW: "wanted >= 180"}

CASES = (
    # GPUs on the bus
    Case("gpu_missing",
         {"hardware/gpu:count": "3 of 4 GPUs on the bus", "gpu.answer": "3 of 4 answer"},
         REPLACED),
    Case("gpu_off_bus",
         {"hardware/gpu:count": "fell off the bus: 0000:31:00.0",
          "gpu.xid": "XID 79", "gpu.answer": "fallen off the bus: 0000:31:00.0"}, REPLACED),
    Case("gpu_lost", {"gpu.answer": "fallen off the bus",
                      "hardware/gpu:memory": "does not tell it of 0000:31:00.0"}, REPLACED),
    Case("xid_79", {"gpu.xid": "XID 79"}, "power the node off and on; then reseat; then RMA"),
    # What joins them
    Case("nvlink_down", {"gpu.nvlink": "11 of 12 active, inactive: 3", "gpu.board": "NV3"},
         "reset the GPUs; check the NVLink bridges"),
    Case("nvlink_half", {"gpu.nvlink": "6 of 12 active", "gpu.board": "NV2", **NCCL_SLOW},
         "reset the GPUs; check the NVLink bridges"),
    Case("nvlink_errors", {"gpu.nvlink_errors": "5182 errors on link 0 of GPU 0"},
         "reset the GPUs, which clears the counters"),
    Case("p2p_off", {"gpu.p2p": "GPU0 to GPU1 CNS", "nccl.transport": "SHM", **NCCL_SLOW},
         "check ACS and the IOMMU"),
    Case("slow_pair", {"nvbandwidth.p2p_read": "between GPU1 and GPU0", **NCCL_SLOW},
         "look at gpu.nvlink and gpu.p2p of that pair"),
    Case("xid_74", {"gpu.xid": "XID 74"}, "check the NVLinks or bridges"),
    Case("pcie_gen1", {"gpu.pcie_under_load": "0000:b1:00.0 Gen1",
                       "nvbandwidth.host_to_device": "to GPU2"}, "reseat the GPU or its riser"),
    Case("pcie_x8", {"gpu.pcie": "0000:b1:00.0 8", "hardware/gpu:pcie": "x8",
                     "gpu.pcie_under_load": "x8"}, "reseat the GPU or its riser"),
    Case("pcie_replays", {"gpu.pcie_replays": "9000 replays at"}, "reset the GPU, which clears"),
    # Their memory
    Case("ecc_volatile_uncorrectable", {"gpu.ecc": "0000:17:00.0 1", "gpu.xid": "XID 48"},
         "drain and reset the GPU; if it comes back, RMA"),
    Case("ecc_corrected", harmless="corrected errors are the memory's own repair at work; only "
         "uncorrectable ones fail (NVIDIA's GPU memory error management). They are noted"),
    Case("ecc_corrected", args={"count": 500000},
         harmless="a storm of them is noted too: row remapping ends it, and what it cannot mend "
         "shows as a remap that is pending or failed, or as XID 92"),
    Case("ecc_sram_aggregate", {"gpu.ecc": "at most 4 uncorrectable SRAM errors"}, "RMA"),
    Case("ecc_disabled", {"nvidia_driver/gpu:ecc_mode": "off", "gpu.ecc": "off at"},
         "provision mends it"),
    Case("remap_pending", {"gpu.memory_repair": "remap pending", "gpu.xid": "XID 63"},
         "reset the GPU or reboot once"),
    Case("remap_failed", {"gpu.memory_repair": "remap failed", "gpu.xid": "XID 64"}, "RMA"),
    Case("remapped_rows", harmless="a row that was remapped is mended; only a remap that is "
         "pending or failed needs a hand"),
    Case("retired_pages", {"gpu.memory_repair": "12 pages retired"}, "RMA"),
    Case("xid_48", {"gpu.xid": "XID 48"}, "drain the GPU and reset it; if it comes back, RMA"),
    Case("xid_63", {"gpu.xid": "XID 63"}, "drain the GPU and reset it"),
    Case("xid_64", {"gpu.xid": "XID 64"}, "RMA"),
    Case("xid_94", harmless="a contained error ended one application: it is noted, with "
         "`restart the application`"),
    Case("xid_95", {"gpu.xid": "XID 95"}, "reboot, or drain and reset the GPU"),
    # The driver's other reports
    Case("xid", {"gpu.xid": "XID 62"}, "reset the GPU; then RMA", args={"code": 62}),
    Case("xid", args={"code": 79, "age_s": 8000},
         harmless="fatal XIDs count for two hours; what is broken still shows in the other proofs"),
    Case("xid_13", harmless="the application's own error (an address out of range): noted"),
    Case("xid_31", harmless="the application's own error (a page fault): noted"),
    Case("xid_119", {"gpu.xid": "XID 119"}, "reboot; if it comes back, change the driver"),
    # Heat, power, clocks
    Case("thermal_throttle",
         {"gpu.throttle": "hw_thermal_slowdown", "gpu.temperature_max": "90 C at 00000000:ca:00.0",
          "gpu.throttle_under_load": "hw_thermal_slowdown"}, "check power and cooling"),
    Case("hw_slowdown", {"gpu.throttle": "hw_slowdown",
                         "gpu.throttle_under_load": "hw_slowdown"}, "check power and cooling"),
    Case("power_brake", {"gpu.throttle": "hw_power_brake_slowdown"}, "check power and cooling"),
    Case("power_cap",
         {"nvidia_driver/gpu:power_limit_w": "250", "gpu.power_limit": "250 W"},
         "provision mends it"),
    Case("clocks_locked", {"gpu.clocks_under_load": "765 of 1410 MHz", **NCCL_SLOW},
         "nvidia-smi -rgc"),
    # Their settings, and who uses them
    Case("gpu_computes_slowly", {"gpu.gemm_fp16": "at GPU1"}, "tell the GPU from its slot",
         level="stress"),
    Case("gpu_computes_wrongly", {"gpu.gemm_results": "1 of 6 on GPU1"}, "RMA", level="stress"),
    Case("gpu_memory_slow", {"gpu.memory_bandwidth": "at GPU1"}, "tell the GPU from its slot",
         level="stress"),
    Case("mig_enabled", {"nvidia_driver/gpu:mig_mode": "on"}, "provision mends it"),
    Case("persistence_off", {"nvidia_driver/gpu:persistence_mode": "off"}, "provision mends it"),
    Case("mixed_vbios", {"gpu.alike": "92.00.19.00.10"}, "flash one VBIOS"),
    Case("compute_exclusive", {"gpu.compute_mode": "Exclusive_Process"}, "nvidia-smi -c 0"),
    Case("zombie_process", {"gpu.unused": "python3 (pid 41213) holds 30500 MiB"},
         "end the process"),
    # Memory, processors, disks
    Case("dimm_missing", {"hardware/memory:dimms": "15 of 16 memory modules; empty: P2-DIMMH1",
                          "hardware/memory:total": "480 GiB"}, "seat or replace"),
    Case("dimm_small", {"hardware/memory:total": "496 GiB, rented: 512 GiB"}, "provider"),
    Case("dimm_slow", harmless="the order names no speed: it is read and kept in the ledger, and "
         "compared with nothing"),
    Case("cpu_socket_missing", {"hardware/cpu:sockets": "1 socket, rented: 2"}, "provider"),
    Case("cpu_other_model", {"hardware/cpu:model": "it is another CPU",
                             "hardware/cpu:cores": "rented: 32"}, "provider"),
    Case("disk_missing", {"hardware/disk:cache": "0 of 1x 2000 GB nvme"}, "provider"),
    Case("disk_small", {"hardware/disk:cache": "0 of 1x 2000 GB nvme; others there"}, "provider"),
    Case("disk_replaced", harmless="another disk of the kind serves as well; disks are known by "
         "WWN, and one that carries data is never written"),
    Case("disk_used", harmless="the disk is the one rented; that it carries a filesystem matters "
         "only to who would write it, and is refused there"),
    Case("disks_renumbered", harmless="names move between boots; disks are told by size, kind and "
         "WWN"),
    # Network
    Case("nic_1g", {"hardware/nic:ens5f0": "runs at 1000 Mb/s, rented: 10000 Mb/s"},
         "check cable, module and switch port"),
    Case("nic_half_duplex", {"hardware/nic:ens5f0": "half duplex"}, "check the switch port"),
    Case("nic_drops", {"nic.errors": "rx_missed_errors"}, "raise the receive ring"),
    Case("nic_errors", {"nic.errors": "rx_crc_errors"}, "cable or module"),
    Case("module_rx_power_low", {"nic.module": "Laser rx power low alarm"},
         "clean both ends of the fibre"),
    Case("nic_link_down", {"hardware/nic:ens5f0": "it has no link"}, "check cable"),
    Case("nic_missing", {"hardware/nic:ens5f0": "no NIC ens5f0; there: none"}, "provider"),
    Case("nic_other_driver", harmless="the order names no driver; where a profile does "
         "(parts.nics.driver), hardware/nic fails with both names"),
    # Identity
    Case("gpu_swapped", harmless="an equal GPU in the slot passes what it measures; `drift` says "
         "that it is not the machine that was accepted (hardware/identity)"),
    Case("board_swapped", harmless="an equal machine passes what it measures; `drift` says that "
         "it is not the one that was accepted (hardware/identity)"),
    Case("bios_old", harmless="no BIOS version is part of an order; it is read, and kept "
         "in the ledger"),
    # Software
    Case("driver_library_mismatch", {"gpu.answer": "version mismatch",
                                     "hardware/gpu:driver": "version mismatch"}, "reboot"),
    Case("driver_not_loaded", {"gpu.answer": "no driver is loaded",
                               "hardware/gpu:driver": "driver did not answer"}, "load the driver"),
    Case("fabric_manager_missing", {SLOW: "system not yet initialized"},
         "start nvidia-fabricmanager", model=H100),
    Case("fabric_manager_mismatch", {SLOW: "system not yet initialized"},
         "start nvidia-fabricmanager", model=H100),
    Case("nccl_wrong_interface", {"nccl.interface": "cni0, wanted ens5f0"}, "/etc/nccl.conf"),
    Case("slow_busbw", NCCL_SLOW, "look at gpu.board, gpu.nvlink, gpu.p2p"),
    Case("slow_host_link", {"nvbandwidth.host_to_device": "to GPU",
                            "nvbandwidth.device_to_host": "from GPU"}, "PCIe link"),
    Case("nccl_wrong_values", {"nccl.all_reduce.correct": "wrong values"}, "reset the GPUs"),
    Case("nccl_validation_off", {"nccl.all_reduce.correct": "validation was off"},
         "run it without -c 0"),
    Case("gdrcopy_fails", {"gdrcopy.sanity": "2 failed"}, "check that gdrdrv is loaded"),
    Case("tool_silent", {"gpu.answer": "nvidia-smi printed nothing",
                         "hardware/gpu:driver": "driver did not answer"}, UNMEASURED),
    Case("tool_silent", {SLOW: "all_reduce_perf printed nothing"}, UNMEASURED,
         args={"tool": "all_reduce_perf"}),
    Case("tool_hangs", {"gpu.answer": "did not end within"}, "look for a hang"),
    Case("tool_hangs", {"nvbandwidth.host_to_device": "did not end within"}, "look for a hang",
         args={"tool": "nvbandwidth"}),
    Case("tool_dies", {"gpu.answer": "nvidia-smi ended with 139: crashed (SIGSEGV)"},
         "install its package anew"),
    Case("tool_warns", {"gpu.answer": "the infoROM of a GPU is corrupt"}, "RMA"),
    Case("tool_warns", args={"rc": 0, "text": "WARNING: this driver is old"},
         harmless="a word beside a whole and successful output changes nothing"),
)  # fmt: skip

NODES = "the proofs between nodes"
BETWEEN = "tests/integration/test_between.py"
CONTACT = "tests/integration/test_contact.py"
CONTACTS = "first contact (exit 1)"
VERBS = "every verb (exit 3)"
OUTSIDE = (
    Outside("slow_network", NODES, "the others are good among each other: it is this node",
            "look at NCCL's interface (/etc/nccl.conf)", BETWEEN, "nccl.all_reduce"),
    Outside("slow_path", NODES, "the link between gpu1 and gpu2",
            "compare nccl.conf and the NCCL version of both", BETWEEN, "nccl.all_reduce"),
    Outside("slow_link", NODES, "the others are good among each other: it is this node",
            "negotiated speed and duplex (ethtool), error counters, cable", BETWEEN, "tcp.pairs"),
    Outside("bad_pair", NODES, "the link between gpu1 and gpu2",
            "look at what only these two share: switch ports", BETWEEN, "tcp.pairs"),
    Outside("mtu_blackhole", NODES, "the interfaces say 1500, the path carries 1400",
            "set one MTU on every hop", BETWEEN, "path_mtu"),
    Outside("udp_loss", NODES, "loss of UDP between nodes: bad with",
            "find where datagrams die: ethtool -S", BETWEEN, "udp.loss"),
    Outside("nic_setting_kills_link", "provision",
            "failed (exit 1): the setting was reverted by the node; the other nodes go on",
            "take the setting out of nic_tuning's variables for this NIC",
            "tests/integration/test_nic_tuning.py"),
    Outside("no_python", "first contact", "none: Python is installed, as it is on minimal images",
            "none", CONTACT),
    Outside("disk_full", CONTACTS, "its disk is full", "make room on it", CONTACT),
    Outside("apt_lock_held", CONTACTS, "waiting for the apt lock held by",
            "wait for it or end it; then run again", CONTACT),
    Outside("no_dns", CONTACTS, "it resolves no names", "check its DNS", CONTACT),
    Outside("ssh_hangs", VERBS, "answers but does not speak SSH", "the provider's console",
            CONTACT),
    Outside("port_refused", VERBS, "refuses the connection",
            "is sshd running there, and is ansible_port right?", CONTACT),
    Outside("host_key_changed", VERBS, "the host key changed. On record: SHA256:",
            "If the node was reinstalled and the new fingerprint", CONTACT),
    Outside("noisy_output", VERBS, "none: answers are framed, and the noise is left out",
            "none", CONTACT),
)  # fmt: skip


def outside(fault: str) -> Outside:
    return next(one for one in OUTSIDE if one.fault == fault)
