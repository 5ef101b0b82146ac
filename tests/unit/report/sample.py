"""A realistic run for the report's tests: one node joined, one refused, one silent, and a NAS."""

from __future__ import annotations

import datetime as dt
from typing import Any

from nodeprep.model.hardware import Cpu, Dimm, Disk, Gpu, Hardware, Nic
from nodeprep.model.lifecycle import State
from nodeprep.model.plan import NodePlan
from nodeprep.model.profile import (
    CpuPart,
    DiskPart,
    Gate,
    GpuPart,
    MemoryPart,
    NicPart,
    Parts,
    Profile,
)
from nodeprep.model.reading import Host
from nodeprep.model.run import Fault, NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict

STARTED = dt.datetime(2026, 11, 30, 16, 46, 39, tzinfo=dt.UTC)
FINISHED = STARTED + dt.timedelta(minutes=4, seconds=12)
DERIVED = "bound 240 GB/s of four links a pair; expect 220-235"

PROFILE = Profile(
    name="a100-sxm4-40g-x4",
    description="HGX A100 4-GPU board, direct NVLink mesh",
    parts=Parts(
        cpu=CpuPart(model="Xeon.*6338", sockets=2, cores_per_socket=32),
        memory=MemoryPart(dimms=16, total_gib=512),
        disks=(
            DiskPart(use="os", transport="nvme", count=1, size_gb=2000),
            DiskPart(use="cache", transport="sata", count=1, size_gb=4000),
        ),
        nics=(NicPart(name="ens5f0", speed_mbps=10000),),
        gpus=GpuPart(
            count=4, model="NVIDIA A100-SXM4-40GB", pci_id="10de:20b0", memory_mib=40960,
            power_limit_w=400, board="mesh", nvlink="NV4",
        ),
    ),
    gates={
        "nccl.all_reduce.busbw": Gate(
            fail=180, warn=200, unit="GB/s", source=DERIVED, provisional=True
        )
    },
)  # fmt: skip


def passed(claim: str, wanted: str, source: str = "") -> Verdict:
    role = claim.partition("/")[0]
    return Verdict(
        claim=claim, role=role, verdict=Outcome.PASS, wanted=wanted, read=wanted, source=source
    )


CLAIMS = (
    passed("hardware/cpu:sockets", "2 sockets", "profile a100-sxm4-40g-x4"),
    passed("hardware/memory:dimms", "16 DIMMs", "profile a100-sxm4-40g-x4"),
    passed("hardware/gpu:count", "4", "profile a100-sxm4-40g-x4"),
    passed("base/package:chrony", "installed"),
    passed("base/sysctl:net.core.rmem_max", "536870912",
           "10 Gb/s x 160 ms is a product of 200 MB: core maximum 512 MiB"),
    Verdict(claim="base/sysctl:vm.swappiness", role="base", verdict=Outcome.NOT_APPLICABLE,
            wanted="10", reason="vm.* belongs to the host's kernel", source="profile"),
    passed("nvidia_driver/package:nvidia-driver-535-server", "535.183.01, held"),
    Verdict(claim="nvidia_driver/service:nvidia-persistenced.service", role="nvidia_driver",
            verdict=Outcome.WAIVED, wanted="enabled, active", read="disabled",
            reason="vendor ticket 4711, until 2027-01-31"),
    passed("nccl/package:libnccl2", "2.16.5-1+cuda12.0, held",
           "no NCCL 2.16 was ever built for CUDA 12.1; +cuda12.0 is the one"),
    passed("nccl/file:/etc/nccl.conf", "mode 0644, sha256 9b1c…"),
    passed("nfs_client/mount:/data", "nas1:/export/data, nfs4"),
)  # fmt: skip

MATRIX: dict[str, Any] = {
    "rows": ["GPU0", "GPU1", "GPU2", "GPU3"],
    "cols": ["GPU0", "GPU1", "GPU2", "GPU3"],
    "values": [
        [None, 92.1, 91.8, 92.4], [91.9, None, 92.2, 61.3],
        [92.0, 91.7, None, 92.1], [92.3, 60.8, 91.9, None],
    ],
    "unit": "GB/s",
}  # fmt: skip
CURVE: dict[str, Any] = {
    "x": [2**n for n in range(20, 34)],
    "y": [21.4, 38.8, 63.0, 94.1, 120.5, 141.2, 155.8, 163.9, 168.4, 170.8, 171.9, 172.2, 172.3,
          172.4],
    "unit": "GB/s",
}  # fmt: skip


def busbw(value: float, outcome: Outcome) -> Verdict:
    failed = outcome is Outcome.FAIL
    return Verdict(
        claim="nccl/proof:all_reduce", role="nccl", verdict=outcome,
        wanted="busbw at 8 GiB at least 180 GB/s, #wrong 0", read=f"{value} GB/s, #wrong 0",
        source=DERIVED, value=value, gate=180, unit="GB/s", provisional=True, simulated=True,
        reason="busbw 172.4 GB/s is below 180 GB/s" if failed else "",
        action="look at the pair GPU1-GPU3 below: its links are slow" if failed else "",
        detail={"measurement": "nccl.all_reduce.busbw", "better": "higher", "baseline": 221.0}
               | ({"curve": CURVE} if failed else {}),
    )  # fmt: skip


def h2d(value: float) -> Verdict:
    return Verdict(
        claim="cuda/proof:host_to_device", role="cuda", verdict=Outcome.PASS,
        wanted="at least 21 GB/s", read=f"{value} GB/s", value=value, gate=21,
        unit="GB/s", source="nvbandwidth on Gen4 x16: about 26", simulated=True,
        detail={"notes": [f"{value} GB/s is past the warning at 24"]} if value < 24 else {},
    )  # fmt: skip


P2P = Verdict(
    claim="nvidia_driver/proof:p2p_bandwidth", role="nvidia_driver", verdict=Outcome.FAIL,
    wanted="every pair at least 78 GB/s", read="60.8 GB/s (GPU3 to GPU1)", value=60.8, gate=78,
    unit="GB/s", source="an NV4 pair: 100 in theory, about 92", provisional=True, simulated=True,
    reason="GPU1-GPU3 is at 60.8 GB/s", action="read nvidia-smi nvlink -s on both GPUs",
    detail={"matrix": MATRIX},
)  # fmt: skip
LATENCY = Verdict(
    claim="base/proof:iperf3", role="base", verdict=Outcome.UNKNOWN, wanted="at least 9 Gb/s",
    gate=9, unit="Gb/s", source="line rate 10 Gb/s", reason="iperf3 gave no answer within 20 s",
    action="run iperf3 -s on nas1 by hand",
)  # fmt: skip
CONF = Verdict(
    claim="nccl/file:/etc/nccl.conf", role="nccl", verdict=Outcome.FAIL,
    wanted="sha256 9b1c…", read="sha256 77aa…", reason="its content differs",
    diff="--- /etc/nccl.conf\n+++ /etc/nccl.conf\n@@ -1,2 +1,2 @@\n NCCL_DEBUG=INFO\n"
         "-NCCL_SOCKET_IFNAME=eth0\n+NCCL_SOCKET_IFNAME==ens5f0\n",
)  # fmt: skip


def hardware(gpus: int = 4) -> Hardware:
    return Hardware(
        cpu=Cpu(model="Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", sockets=2, cores_per_socket=32,
                threads_per_core=2, numa_nodes=2),
        memory_kib=512 * 1024**2,
        dimms=tuple(Dimm(slot=f"DIMM_{n}", size_mib=32768) for n in range(16)),
        disks=(
            Disk(name="nvme0n1", serial="S64GNE0R1", size_bytes=2000398934016, transport="nvme"),
            Disk(name="sda", serial="ZR501", size_bytes=4000787030016, transport="sata"),
        ),
        nics=(Nic(name="ens5f0", driver="ixgbe", speed_mbps=10000, link=True),),
        gpus=tuple(
            Gpu(pci_address=f"0000:{17 + n * 16:02x}:00.0", pci_id="10de:20b0", index=n,
                model="NVIDIA A100-SXM4-40GB", uuid=f"GPU-5d0f1c{n}e", memory_mib=40960)
            for n in range(gpus)
        ),
        nvswitches=(),
        board_vendor="Supermicro", board_model="X12DPG-QT6", board_serial="OM21AS0042",
        errors={"bios": "dmidecode is not installed"},
        simulated=("gpus",),
    )  # fmt: skip


def host(name: str) -> Host:
    return Host(hostname=name, os_id="ubuntu", os_version="22.04", kernel="5.15.0-122-generic",
                boot_id="6f1c", python="3.10.12", simulated=True)  # fmt: skip


def joined() -> NodeResult:
    return NodeResult(
        name="gpu1", state=State.JOINED, since=FINISHED, profile=PROFILE, host=host("gpu1"),
        hardware=hardware(), simulated=True,
        verdicts=(*CLAIMS, busbw(223.6, Outcome.PASS), h2d(25.9)),
        changed=("base: Install packages", "base: Write sysctls", "nccl: Install packages"),
    )  # fmt: skip


def refused() -> NodeResult:
    return NodeResult(
        name="gpu2", state=State.QUARANTINED, since=FINISHED, profile=PROFILE, host=host("gpu2"),
        hardware=hardware(), simulated=True, why="busbw 172.4 GB/s is below 180 GB/s",
        verdicts=(*CLAIMS, busbw(172.4, Outcome.FAIL), P2P, h2d(26.1), LATENCY),
        changed=("nccl: Install packages",),
    )  # fmt: skip


def silent() -> NodeResult:
    return NodeResult(
        name="gpu3", state=State.NEW, profile=PROFILE,
        fault=Fault(type="Unreachable", stage="reach",
                    message="10.77.0.13:22 did not answer within 10 s",
                    hint="is the node powered on, and is port 22 open to this machine?"),
    )  # fmt: skip


def nas() -> NodeResult:
    return NodeResult(
        name="nas1", state=State.JOINED, since=FINISHED, host=host("nas1"),
        profile=Profile(name="lab-nas"), verdicts=(CLAIMS[3], CLAIMS[4]),
    )  # fmt: skip


def run(verb: str = "provision", *nodes: NodeResult, exit_code: int = 2) -> RunResult:
    return RunResult(
        id=f"20261130T164639-{verb}", verb=verb, site="la", inventory="inventory/la.yaml",
        version="0.1.0", started=STARTED, finished=FINISHED, exit_code=exit_code,
        nodes=nodes or (joined(), refused(), silent(), nas()),
    )  # fmt: skip


def short_of_a_gpu() -> NodeResult:
    """A node with three GPUs of four, and a NIC of which nothing is known."""
    lost = Verdict(claim="hardware/gpu:count", role="hardware", verdict=Outcome.FAIL, wanted="4",
                   read="3", reason="3 GPUs, rented: 4", source="profile")  # fmt: skip
    mute = Verdict(claim="hardware/nic:ens5f0", role="hardware", verdict=Outcome.UNKNOWN,
                   wanted="10 Gb/s", reason="its speed could not be read")  # fmt: skip
    return NodeResult(
        name="gpu4", state=State.QUARANTINED, since=STARTED, why="3 GPUs, rented: 4",
        profile=PROFILE, hardware=hardware(3), verdicts=(*CLAIMS[:2], lost, mute),
    )  # fmt: skip


def planned() -> NodeResult:
    """A node with a file that differs, a package that is missing and a sysctl that is not known."""
    verdicts = (
        CONF,
        Verdict(claim="nccl/package:libnccl2", role="nccl", verdict=Outcome.FAIL,
                wanted="2.16.5-1+cuda12.0, held", read="not installed"),
        Verdict(claim="base/sysctl:net.core.rmem_max", role="base", verdict=Outcome.UNKNOWN,
                wanted="536870912", reason="sysctl printed nothing"),
        CLAIMS[3],
    )  # fmt: skip
    plan = NodePlan(
        node="gpu1", verdicts=verdicts, roles=("base", "nccl"), reboot="a new kernel module",
        disks=("nvme-eui.0025385b1",),
    )  # fmt: skip
    return NodeResult(name="gpu1", state=State.DRIFTED, since=STARTED, verdicts=verdicts, plan=plan)


def fleet(count: int = 13) -> tuple[NodeResult, ...]:
    """Nodes of one profile: one behind its sisters, one refused, a bad pair between two."""
    names = [f"gpu{n:02}" for n in range(1, count + 1)]
    return tuple(_member(names, n) for n in range(count))


def _member(names: list[str], n: int) -> NodeResult:
    slow, refused_one = n == 3, n == 5
    top = 201.0 if slow else 172.4 if refused_one else 224 + (n * 7) % 5
    y = [round(point / 172.4 * top, 1) for point in CURVE["y"]]
    note = "11 % below its sisters: 201 against a median of 226 GB/s"
    middle = [round(point / 172.4 * 226, 1) for point in CURVE["y"]]
    ring = busbw(top, Outcome.FAIL if refused_one else Outcome.PASS)
    ring = ring.model_copy(
        update={"detail": {
            "better": "higher", "baseline": 225.0, "curve": {**CURVE, "y": y, "fleet": middle},
            "fleet": {"median": 226.0, "mad": 1.0, "nodes": len(names) - 1},
            **({"notes": [note], "slow": note} if slow or refused_one else {}),
        }}
    )  # fmt: skip
    bad = {frozenset((names[2], names[-2]))} if len(names) > 4 else set()
    peers = [name for name in names if name != names[n]]
    row = [3.11 if frozenset((names[n], p)) in bad else 9.3 + (len(p) + k * 3 + n) % 9 / 100
           for k, p in enumerate(peers)]  # fmt: skip
    tcp = Verdict(
        claim="base/proof:network.tcp", role="base", verdict=Outcome.PASS, value=min(row), gate=9.0,
        wanted=">= 9 Gb/s", read=f"{min(row):.2f} Gb/s", unit="Gb/s", source="line rate 10 Gb/s",
        simulated=True, detail={"better": "higher", "matrix": {
            "rows": [names[n]], "cols": peers, "values": [row], "unit": "Gb/s"}},
    )  # fmt: skip
    if min(row) < 9:
        peer = names[2 if n != 2 else -2]
        tcp = tcp.model_copy(
            update={"verdict": Outcome.FAIL, "reason": f"3.11 Gb/s with {peer}",
                    "action": "change the cable of the pair, then its switch port"}
        )  # fmt: skip
    copies = h2d(round(25.4 + (n * 5) % 7 / 10, 1))
    matrix = {
        **MATRIX,
        "values": [
            [v and (v if refused_one else max(v, 91.5)) for v in line] for line in MATRIX["values"]
        ],
    }
    p2p = P2P.model_copy(update={"detail": {"matrix": matrix, "better": "higher"}})
    if not refused_one:
        p2p = p2p.model_copy(update={"verdict": Outcome.PASS, "value": 91.2 + n % 4 / 10,
                                     "reason": "", "action": "", "read": "91.5 GB/s"})  # fmt: skip
    out = refused_one or min(row) < 9
    return NodeResult(
        name=names[n], state=State.QUARANTINED if out else State.JOINED, since=FINISHED,
        why=(ring.reason if refused_one else tcp.reason) if out else "",
        profile=PROFILE, host=host(names[n]), hardware=hardware(), simulated=True,
        verdicts=(*CLAIMS, ring, p2p, copies, tcp),
        changed=("base: Install packages",) if n % 5 == 0 else (),
    )  # fmt: skip
