"""The hardware classes that can be simulated: figures of GPUs and of the boards they stand on.

Device ids, power limits and clocks are the vendor's; bandwidths are what healthy boards of the
kind have shown in public (a four-GPU mesh is derived from its links).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Spec = dict[str, Any]

_A100: Spec = {
    "architecture": "Ampere",
    "vbios": "92.00.45.00.06",
    "clocks": {"graphics": 1410, "sm": 1410, "video": 1290},
    "idle_clock": 210,
    "temps": {"shutdown": 92, "slowdown": 87, "max_operating": 83, "memory_max": 95},
    "gen": 4,
    "links": 12,
    "link_gb_s": 25.0,
    "link_text": "25 GB/s",
    "remap_banks": 640,
    "sms": 108,
    "fp16_tflops": 312,
    "mig_max": 7,
    "arch_cc": "8.0",
}
_H100: Spec = {
    "architecture": "Hopper",
    "vbios": "96.00.61.00.01",
    "clocks": {"graphics": 1980, "sm": 1980, "video": 1545},
    "idle_clock": 345,
    "temps": {"shutdown": -8, "slowdown": -2, "max_operating": 0, "memory_max": 95},
    "gen": 5,
    "links": 18,
    "link_gb_s": 26.562,
    "link_text": "26.562 GB/s",
    "remap_banks": 2560,
    "sms": 132,
    "fp16_tflops": 989,
    "mig_max": 7,
    "arch_cc": "9.0",
}
GPUS: dict[str, Spec] = {
    "A100-SXM4-40GB": dict(
        _A100,
        name="NVIDIA A100-SXM4-40GB",
        device="20b0",
        subsystem="134f10de",
        lspci="GA100 [A100 SXM4 40GB]",
        memory=40960,
        reserved=576,
        mem_clock=1215,
        bar1=65536,
        power=400.0,
        power_min=100.0,
        board_part="692-2G506-0200-002",
        gpu_part="20B0-884-A1",
        image="G506.0200.00.04",
        hbm_gb_s=1555,
    ),
    "A100-PCIE-40GB": dict(
        _A100,
        name="NVIDIA A100-PCIE-40GB",
        device="20f1",
        subsystem="145f10de",
        lspci="GA100 [A100 PCIe 40GB]",
        memory=40960,
        reserved=571,
        mem_clock=1215,
        bar1=65536,
        power=250.0,
        power_min=150.0,
        board_part="900-21001-0000-000",
        gpu_part="20F1-884-A1",
        image="1001.0200.00.04",
        hbm_gb_s=1555,
    ),
    "A100-SXM4-80GB": dict(
        _A100,
        name="NVIDIA A100-SXM4-80GB",
        device="20b2",
        subsystem="147f10de",
        lspci="GA100 [A100 SXM4 80GB]",
        memory=81920,
        reserved=869,
        mem_clock=1593,
        bar1=131072,
        power=400.0,
        power_min=100.0,
        board_part="692-2G506-0210-002",
        gpu_part="20B2-895-A1",
        image="G506.0210.00.04",
        hbm_gb_s=2039,
    ),
    "H100-SXM5-80GB": dict(
        _H100,
        name="NVIDIA H100 80GB HBM3",
        device="2330",
        subsystem="16c110de",
        lspci="GH100 [H100 SXM5 80GB]",
        memory=81559,
        reserved=551,
        mem_clock=2619,
        bar1=131072,
        power=700.0,
        power_min=200.0,
        board_part="692-2G520-0200-000",
        gpu_part="2330-885-A1",
        image="G520.0200.00.05",
        hbm_gb_s=3350,
    ),
}
_XEON: Spec = {
    "model": "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz",
    "family": 6,
    "cpu_model": 106,
    "stepping": 6,
    "sockets": 2,
    "cores": 32,
    "threads": 2,
    "mhz": {"base": 2000, "max": 3200, "min": 800},
    "caches": {"L1d": 48, "L1i": 32, "L2": 1280, "L3": 49152},  # KiB; L3 a socket, others a core
}
_SAPPHIRE: Spec = dict(
    _XEON,
    model="Intel(R) Xeon(R) Platinum 8480C",
    cpu_model=143,
    stepping=8,
    cores=56,
    mhz={"base": 2000, "max": 3800, "min": 800},
    caches={"L1d": 48, "L1i": 32, "L2": 2048, "L3": 107520},
)
_DISKS: tuple[Spec, ...] = (
    {
        "use": "os",
        "name": "sda",
        "model": "SAMSUNG MZ7L3480HCHQ-00A07",
        "size": 480103981056,
        "tran": "sata",
        "serial": "S664NE0R",
        "wwn": "0x5002538f",
    },
    {
        "use": "data",
        "name": "sdb",
        "model": "ST4000NM000A-2HZ100",
        "size": 4000787030016,
        "tran": "sata",
        "serial": "WS20",
        "wwn": "0x5000c500",
        "rota": True,
    },
    {
        "use": "cache",
        "name": "nvme0n1",
        "model": "SAMSUNG MZQL21T9HCJR-00A07",
        "size": 1920383410176,
        "tran": "nvme",
        "serial": "S64GNE0R",
        "wwn": "eui.36344730",
    },
)
_SERVER: Spec = {
    "cpus": _XEON,
    "dimms": {"count": 16, "slots": 32, "gib": 32, "type": "DDR4", "mts": 3200},
    "disks": _DISKS,
    "host": {"vendor": "Supermicro", "product": "AS-2124GQ-NART", "board": "X12DGQ-R"},
    "gpu": "",
    "addresses": (),
    "kind": "none",
    "nvswitches": (),
    "busbw": 0.0,
    "p2p": 0.0,
    "h2d": 0.0,
}
MODELS: dict[str, Spec] = {
    "a100-sxm4-40g-x4": dict(
        _SERVER,
        host={"vendor": "Supermicro", "product": "SYS-220GQ-TNAR+", "board": "X12DGQ-R"},
        gpu="A100-SXM4-40GB",
        addresses=("17", "31", "b1", "ca"),
        kind="mesh",
        busbw=228.0,  # derived: 4 links a pair, 12 a GPU, bound 240
        p2p=92.5,
        h2d=26.1,
    ),
    "a100-pcie-40g-x4": dict(
        _SERVER,
        host={"vendor": "Supermicro", "product": "SYS-420GP-TNR", "board": "X12DPG-OA6"},
        gpu="A100-PCIE-40GB",
        addresses=("17", "65", "ca", "e3"),
        kind="bridge",
        busbw=22.4,
        p2p=275.0,
        h2d=25.9,
    ),
    "a100-sxm4-80g-x8": dict(
        _SERVER,
        host={"vendor": "NVIDIA", "product": "DGXA100 920-23687-2530-000", "board": "DGXA100"},
        dimms={"count": 32, "slots": 32, "gib": 64, "type": "DDR4", "mts": 3200},
        gpu="A100-SXM4-80GB",
        addresses=("07", "0f", "47", "4e", "87", "90", "b7", "bd"),
        kind="nvswitch",
        nvswitches=("c4", "c5", "c6", "c7", "c8", "c9"),
        nvswitch_id="1af1",
        busbw=234.6,
        p2p=275.0,
        h2d=26.0,
    ),
    "h100-sxm5-80g-x8": dict(
        _SERVER,
        cpus=_SAPPHIRE,
        host={"vendor": "NVIDIA", "product": "DGXH100", "board": "DGXH100"},
        dimms={"count": 32, "slots": 32, "gib": 64, "type": "DDR5", "mts": 4800},
        gpu="H100-SXM5-80GB",
        addresses=("1b", "43", "52", "61", "9d", "c3", "d1", "df"),
        kind="nvswitch",
        nvswitches=("05", "06", "07", "08"),
        nvswitch_id="22a3",
        busbw=478.0,
        p2p=372.0,
        h2d=55.2,
    ),
    "nas": dict(
        _SERVER,
        host={"vendor": "Supermicro", "product": "SSG-620P-ACR12H", "board": "X12DPH-T6"},
        dimms={"count": 8, "slots": 16, "gib": 32, "type": "DDR4", "mts": 3200},
        disks=_DISKS
        + tuple(
            dict(_DISKS[1], use="data", name="sd" + letter, model="ST18000NM000J-2TV103",
                 size=18000207937536)
            for letter in "cdef"
        ),
    ),
}  # fmt: skip
DEFAULT = "a100-sxm4-40g-x4"
