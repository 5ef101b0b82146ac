"""A hardware class: the parts that were rented, what the platform lacks, and the gates.

A profile is `inventory/profiles/<name>.yaml`. Roles see it as the variable `node_profile`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from nodeprep.model.base import Frozen

BoardKind = Literal["mesh", "bridge", "nvswitch", "pcie", "none"]


class CpuPart(Frozen):
    model: str = ""  # a regular expression searched in the model name; empty: any
    sockets: int = Field(ge=1)
    cores_per_socket: int = Field(ge=1)


class MemoryPart(Frozen):
    dimms: int = Field(ge=0)  # populated slots; 0: not compared
    total_gib: float = Field(gt=0)


class DiskPart(Frozen):
    """So many disks of a kind. Vendors' sizes are decimal; 7 % tolerance covers formatting."""

    use: Literal["os", "cache", "data", "spare"]
    transport: Literal["nvme", "sata", "sas", "virtio", "any"] = "any"
    count: int = Field(ge=1)
    size_gb: float = Field(gt=0)
    tolerance: float = Field(default=0.07, ge=0, lt=1)


class NicPart(Frozen):
    name: str
    speed_mbps: int = Field(gt=0)
    driver: str = ""  # empty: any
    rdma: bool = False


class GpuPart(Frozen):
    count: int = Field(ge=1)
    model: str
    pci_id: str = Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")
    memory_mib: int = Field(gt=0)
    power_limit_w: float = Field(gt=0)
    board: BoardKind
    nvlink: str = ""  # NV4, NV12, …: what `nvidia-smi topo -m` shows between linked pairs
    nvswitches: int = Field(default=0, ge=0)
    nvswitch_pci_id: str = ""
    pcie_gen: int = Field(default=4, ge=1)
    pcie_width: int = Field(default=16, ge=1)
    pci_addresses: tuple[str, ...] = ()  # slots, to name a missing one


class Parts(Frozen):
    cpu: CpuPart | None = None
    memory: MemoryPart | None = None
    disks: tuple[DiskPart, ...] = ()
    nics: tuple[NicPart, ...] = ()
    gpus: GpuPart | None = None


class Platform(Frozen):
    """What this class of machine can do at all. False makes such claims not applicable."""

    kernel_modules: bool = True  # modules can be loaded
    vm_sysctl: bool = True  # vm.* and kernel.* sysctls can be set
    cpufreq: bool = True  # CPUs have a frequency governor
    nfs_mount: bool = True  # an NFS filesystem can be mounted
    initramfs: bool = True  # it boots its own kernel
    rlimits: bool = True  # hard limits (memlock, nofile) can be raised
    own_disks: bool = True  # its disks are its own, so that a file on them measures them
    own_interrupts: bool = True  # interrupts are its own, and can be placed
    why: str = ""  # says why anything above is false

    @model_validator(mode="after")
    def _a_lack_says_why(self) -> Platform:
        lacks = [k for k in type(self).model_fields if k != "why" and not getattr(self, k)]
        if lacks and not self.why:
            raise ValueError(f"says that {', '.join(lacks)} is lacking, but not `why`")
        return self


class Gate(Frozen):
    """A threshold. A value that is exactly `fail` passes.

    better   higher: below `fail` fails, below `warn` is noted; lower: above
    source   where the figure comes from; `provisional`: derived, to be calibrated on real nodes
    """

    fail: float
    warn: float | None = None
    unit: str
    better: Literal["higher", "lower"] = "higher"
    source: str
    provisional: bool = False

    @model_validator(mode="after")
    def _warn_before_fail(self) -> Gate:
        if self.warn is not None and (self.warn < self.fail) == (self.better == "higher"):
            raise ValueError("`warn` must be met before `fail` is")
        return self


class Profile(Frozen):
    name: str
    description: str = ""
    platform: Platform = Platform()
    parts: Parts = Parts()
    gates: dict[str, Gate] = {}  # by measurement, such as nccl.all_reduce.busbw
