"""What a reading's data must look like, by kind of claim. Anything else is unknown."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Data(BaseModel):
    """Strict: the text "false" is not false. Keys of a newer reader are let be."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class PackageData(_Data):
    version: str | None
    held: bool
    error: str = ""


class FileData(_Data):
    """Of files, directories and links."""

    exists: bool
    type: str | None = None
    sha256: str | None = None
    mode: str | None = None
    owner: str | None = None
    group: str | None = None
    content: str | None = None
    target: str | None = None


class SysctlData(_Data):
    running: str | None
    persisted: str | None
    persisted_in: str | None = None


class ServiceData(_Data):
    load_state: str
    enabled: str
    active: str
    sub: str = ""


class ModuleData(_Data):
    loaded: bool
    builtin: bool
    running: str | None = None
    kernels: dict[str, bool] | None = None


class KernelArgumentData(_Data):
    running: list[str]
    persisted: list[str]
    persisted_in: str
    configured_in: list[str] = []


class MdArray(_Data):
    device: str
    uuid: str | None
    names: list[str]
    level: str | None
    chunk_kib: int | None
    raid_disks: int | None
    state: str | None
    degraded: int
    sync: str | None
    members: list[str]
    faulty: list[str] = []


class ArrayData(_Data):
    arrays: list[MdArray]


class PhysicalVolume(_Data):
    uuid: str
    device: str | None
    group: str
    missing: bool


class LogicalVolume(_Data):
    group: str
    name: str
    segtype: str
    mode: str
    attr: str
    health: str
    check: str
    origin: str
    cache: str
    devices: list[str]


class CachedVolumeData(_Data):
    installed: bool
    physical: list[PhysicalVolume]
    logical: list[LogicalVolume]


class BlockDevice(_Data):
    name: str
    type: str | None
    fstype: str | None
    ids: list[str] = []


class FilesystemData(_Data):
    devices: list[BlockDevice]
    below: str | None = None
    below_in_use: list[str] = []


class MountData(_Data):
    mounted: bool
    device: str | None = None
    fstype: str | None = None
    options: list[str] = []
    automount: bool = False
    fstab: list[str] | None = None
    device_is: str | None = None


class GovernorData(_Data):
    values: dict[str, int]


class GpuData(_Data):
    values: dict[str, bool | int | float | str | None]


class NicSetting(_Data):
    """`offered`: the driver lets it be set. `now` is None where it shows no value."""

    now: bool | int | None
    max: int | None = None
    offered: bool


class NicData(_Data):
    exists: bool
    driver: str | None = None
    settings: dict[str, NicSetting]
    not_supported: list[str]
    errors: dict[str, str]
    cores: int | None = None


class QueueInterrupt(_Data):
    irq: int
    name: str
    way: Literal["rx", "tx", "both"]
    index: int
    cpus: list[int]
    effective: list[int] = []


class InterruptsData(_Data):
    exists: bool
    numa_node: int | None = None
    cores: list[list[int]]
    queues: list[QueueInterrupt]
    others: list[str] = []
    xps: list[list[int] | None]


class OutputData(_Data):
    rc: int
    text: str
