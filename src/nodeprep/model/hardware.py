"""What stands in a node, as its own tools tell it. None means: the tool did not say."""

from __future__ import annotations

from nodeprep.model.base import Frozen


class Cpu(Frozen):
    model: str | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    numa_nodes: int | None = None
    online: int | None = None  # CPUs (threads) that the kernel runs

    @property
    def cores(self) -> int | None:
        if self.sockets is None or self.cores_per_socket is None:
            return None
        return self.sockets * self.cores_per_socket


class Dimm(Frozen):
    """A memory module, or an empty slot (`size_mib` 0)."""

    slot: str
    size_mib: int | None = None
    type: str | None = None
    speed_mts: int | None = None
    serial: str | None = None


class Disk(Frozen):
    """A whole block device. `name` (sda, nvme0n1) moves between boots; `ids` and `wwn` do not."""

    name: str
    ids: tuple[str, ...] = ()  # names under /dev/disk/by-id
    wwn: str | None = None
    serial: str | None = None
    model: str | None = None
    size_bytes: int | None = None
    transport: str | None = None  # nvme, sata, sas, usb, virtio; of the network: tcp, iscsi, …
    rotational: bool | None = None
    in_use: tuple[str, ...] = ()  # why it must not be written: "signature xfs", "mounted at /", …
    arrays: tuple[str, ...] = ()  # UUIDs of the md arrays whose superblock it carries
    physical_volumes: tuple[str, ...] = ()  # UUIDs of the LVM labels that it carries


class Nic(Frozen):
    name: str
    driver: str | None = None
    mac: str | None = None
    speed_mbps: int | None = None
    duplex: str | None = None
    link: bool | None = None
    mtu: int | None = None
    pci_address: str | None = None
    numa_node: int | None = None


class Gpu(Frozen):
    """A GPU. On the bus it has an address and an id; the rest needs the driver."""

    pci_address: str  # 0000:17:00.0, lower case
    pci_id: str | None = None  # 10de:20b0
    index: int | None = None
    model: str | None = None
    uuid: str | None = None
    serial: str | None = None
    board_part: str | None = None
    vbios: str | None = None
    memory_mib: int | None = None
    driver_version: str | None = None
    persistence_mode: bool | None = None
    ecc_mode: bool | None = None
    mig_mode: bool | None = None
    power_limit_w: float | None = None
    application_clocks: str | None = None  # memory and graphics in MHz: 1215,1410
    application_clocks_default: bool | None = None
    pcie_gen_max: int | None = None
    pcie_gen: int | None = None
    pcie_width_max: int | None = None
    pcie_width: int | None = None


class Hardware(Frozen):
    """Everything that `inspect` compares with the profile. None: could not be read."""

    cpu: Cpu | None = None
    memory_kib: int | None = None
    dimms: tuple[Dimm, ...] | None = None
    disks: tuple[Disk, ...] | None = None
    nics: tuple[Nic, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    nvswitches: tuple[str, ...] | None = None  # PCI addresses
    board_vendor: str | None = None
    board_model: str | None = None
    board_serial: str | None = None
    bios_version: str | None = None
    errors: dict[str, str] = {}  # part -> why it could not be read
    simulated: tuple[str, ...] = ()  # parts that a stand-in reported
