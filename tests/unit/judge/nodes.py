"""Documents, readings and hardware for the tests of judges."""

from __future__ import annotations

from typing import Any

from nodeprep.model.claim import CLAIMS
from nodeprep.model.hardware import Cpu, Dimm, Disk, Gpu, Hardware, Nic
from nodeprep.model.node import Connection, Document, Node
from nodeprep.model.profile import Profile
from nodeprep.model.reading import Host, NodeReading
from nodeprep.model.verdict import Waiver

SLOTS = ("0000:17:00.0", "0000:31:00.0", "0000:b1:00.0", "0000:ca:00.0")
PROFILE = Profile.model_validate(
    {
        "name": "a100-x4",
        "parts": {
            "cpu": {"model": r"Gold 6338\b", "sockets": 2, "cores_per_socket": 32},
            "memory": {"dimms": 16, "total_gib": 512},
            "disks": [
                {"use": "os", "transport": "nvme", "count": 1, "size_gb": 2000},
                {"use": "cache", "transport": "sata", "count": 1, "size_gb": 4000},
            ],
            "nics": [{"name": "ens5f0", "speed_mbps": 10000, "driver": "ixgbe"}],
            "gpus": {
                "count": 4,
                "model": "NVIDIA A100-SXM4-40GB",
                "pci_id": "10de:20b0",
                "memory_mib": 40960,
                "power_limit_w": 400,
                "board": "mesh",
                "pci_addresses": SLOTS,
            },
        },
    }
)
NVSWITCH_PROFILE = Profile.model_validate(
    {
        "name": "a100-x8",
        "parts": {
            "gpus": {
                "count": 8,
                "model": "NVIDIA A100-SXM4-80GB",
                "pci_id": "10de:20b2",
                "memory_mib": 81920,
                "power_limit_w": 400,
                "board": "nvswitch",
                "nvswitches": 6,
            }
        },
    }
)


def document(
    claims: list[dict[str, Any]],
    *,
    profile: Profile = PROFILE,
    waivers: tuple[Waiver, ...] = (),
    roles: tuple[str, ...] = ("base", "nvidia_driver", "cuda", "nccl"),
) -> Document:
    node = Node(
        name="gpu-01",
        site="la",
        connection=Connection(host="192.0.2.1", user="ops", key_file="k", known_hosts="h"),
        profile=profile,
        waivers=waivers,
    )
    return Document(node=node, roles=roles, claims=CLAIMS.validate_python(claims))


def reading(**said: Any) -> NodeReading:
    host = said.pop("host", Host(kernel="5.15.0-119-generic"))
    return NodeReading(node="gpu-01", host=host, **said)


def gpu(address: str, **other: Any) -> Gpu:
    """As the bus tells it."""
    return Gpu(pci_address=address, **{"pci_id": "10de:20b0", **other})


def driven(address: str, **other: Any) -> Gpu:
    """As the driver tells it."""
    said: dict[str, Any] = {
        "model": "NVIDIA A100-SXM4-40GB",
        "uuid": f"GPU-{address}",
        "memory_mib": 40536,
        "pcie_gen_max": 4,
        "pcie_gen": 1,
        "pcie_width_max": 16,
        "pcie_width": 16,
    }
    return gpu(address, **{**said, **other})


def hardware(**other: Any) -> Hardware:
    """What PROFILE asks for, before the driver."""
    whole: dict[str, Any] = {
        "cpu": Cpu(
            model="Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", sockets=2, cores_per_socket=32
        ),
        "memory_kib": 527_000_000,
        "dimms": tuple(
            Dimm(slot=f"P{cpu}-DIMM{bank}{side}", size_mib=32768 if side == 1 else 0)
            for cpu in (1, 2)
            for bank in "ABCDEFGH"
            for side in (1, 2)
        ),
        "disks": (
            Disk(name="sda", size_bytes=480_103_981_056, transport="sata", serial="S1"),
            Disk(name="sdb", size_bytes=4_000_787_030_016, transport="sata", serial="W1"),
            Disk(name="nvme0n1", size_bytes=1_920_383_410_176, transport="nvme", serial="N1"),
        ),
        "nics": (Nic(name="ens5f0", driver="ixgbe", speed_mbps=10000, duplex="full", link=True),),
        "gpus": tuple(gpu(slot) for slot in SLOTS),
        "nvswitches": (),
    }
    return Hardware(**{**whole, **other})
