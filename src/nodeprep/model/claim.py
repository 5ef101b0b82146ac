"""Claims: what must be true on a node. One class per kind, told apart by `kind`.

A role states its claims in `vars/main.yml` as the list `<role>_claims`. Common to all kinds:

    kind     one of the classes below
    name     what the claim is about: a package, a path, a sysctl key, a unit, …
    applies  false only because the profile says that the node lacks the thing; `why` says so
    source   where the wanted value comes from (a fact, a vendor's page, the inventory)
    notify   handlers that Ansible runs when the claim had to be converged
    each     a list of mappings: the claim is repeated once per mapping, merged over it

A claim is identified on a node by `<role>/<kind>:<name>`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, field_validator, model_validator

from nodeprep.model.base import Frozen

Presence = Literal["present", "absent"]
Mode = Annotated[str, Field(pattern=r"^0[0-7]{3,4}$")]


class _Claim(Frozen):
    """What every kind has. `role` is filled in by the compiler."""

    role: str = ""
    name: str = Field(min_length=1)
    applies: bool = True
    why: str = ""
    source: str = ""
    notify: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.role}/{self.kind}:{self.name}"  # type: ignore[attr-defined]

    @field_validator("notify", mode="before")
    @classmethod
    def _one_handler_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _inapplicable_says_why(self) -> _Claim:
        if not self.applies and not self.why:
            raise ValueError("a claim that does not apply must say why (key `why`)")
        return self


class Package(_Claim):
    """A Debian package: installed (at `version` exactly, when given), and held or not."""

    kind: Literal["package"] = "package"
    version: str | None = None
    held: bool | None = None
    state: Presence = "present"


class File(_Claim):
    """A regular file. Text comes from `content`, or from a `template` of the role.

    The compiler renders templates: in a compiled document `template` is kept for Ansible,
    `sha256` is set, and `content` is the rendered text, or empty when `secret`.
    """

    kind: Literal["file"] = "file"
    content: str | None = None
    template: str | None = None
    sha256: str | None = None
    mode: Mode = "0644"
    owner: str = "root"
    group: str = "root"
    state: Presence = "present"
    secret: bool = False


class Directory(_Claim):
    """A directory."""

    kind: Literal["directory"] = "directory"
    mode: Mode = "0755"
    owner: str = "root"
    group: str = "root"


class Link(_Claim):
    """A symbolic link to `target`."""

    kind: Literal["link"] = "link"
    target: str


class Sysctl(_Claim):
    """A kernel parameter: the running value and the one that the next boot will set."""

    kind: Literal["sysctl"] = "sysctl"
    value: str

    @field_validator("value", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(int(value)) if isinstance(value, bool | int) else value


class Service(_Claim):
    """A systemd unit (with its suffix). An attribute left out is not claimed."""

    kind: Literal["service"] = "service"
    enabled: bool | None = None
    active: bool | None = None
    masked: bool | None = None


class Module(_Claim):
    """A kernel module, loaded or not. (That it loads at boot is a claim on a file.)

    `built`: it must also be there, built by DKMS or part of the kernel, for the kernel that runs
    and for every newer one that is installed: a boot takes the newest. `file` is its name on disk,
    where that is another (Debian's nvidia is `nvidia-current`).
    """

    kind: Literal["module"] = "module"
    loaded: bool = True
    built: bool = False
    file: str = ""


class KernelArgument(_Claim):
    """A word of the kernel's command line, in the running kernel and at the next boot.

    `value` None is a bare flag. `absent`: no word of that name, whatever its value.
    """

    kind: Literal["kernel_argument"] = "kernel_argument"
    # Both become words of a file that a shell reads.
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    value: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.,:/@%+=-]+$")
    state: Presence = "present"

    @field_validator("value", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        number = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if number else value


class DiskRule(Frozen):
    """Which whole disks a claim may use: so many of a kind, or exactly those that `ids` names.

    ids  names under /dev/disk/by-id, serials or WWNs: what stays when /dev/nvmeN moves
    """

    count: int = Field(ge=1)
    transport: Literal["nvme", "sata", "sas", "virtio", "any"] = "any"
    size_gb: float | None = Field(default=None, gt=0)
    tolerance: float = Field(default=0.07, ge=0, lt=1)
    ids: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_or_a_size(self) -> DiskRule:
        if not self.ids and self.size_gb is None:
            raise ValueError("disks are told by `size_gb`, or by `ids`")
        if self.ids and len(set(self.ids)) != self.count:
            raise ValueError(f"`ids` names {len(set(self.ids))} disks, `count` says {self.count}")
        return self


_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_LVM_UUID = r"^[0-9A-Za-z]{6}(-[0-9A-Za-z]{4}){5}-[0-9A-Za-z]{6}$"
_FEWEST = {0: 2, 1: 2, 5: 3, 10: 2}


class Array(_Claim):
    """An md array, known by `uuid`, at /dev/md/<name>. It is made once and never again.

    wipe  serials of disks whose content may be erased for it
    """

    kind: Literal["array"] = "array"
    name: str = Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_]{0,30}$")
    uuid: str = Field(pattern=_UUID)
    level: Literal[0, 1, 5, 10]
    chunk_kib: int | None = Field(default=None, ge=4, multiple_of=4)
    disks: DiskRule
    wipe: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _enough_disks(self) -> Array:
        if self.disks.count < _FEWEST[self.level]:
            raise ValueError(f"raid{self.level} needs {_FEWEST[self.level]} disks or more")
        if (self.chunk_kib is None) != (self.level == 1):
            raise ValueError("`chunk_kib` belongs to every level but 1")
        return self


class CachedVolume(_Claim):
    """An LVM volume on a slow disk (`origin`) with a fast one before it (`cache`), by dm-cache.

    `name` is its volume group; the volume is /dev/<name>/data. Both disks are known by the UUIDs of
    their physical volumes. It is made once and never again.

    mode  writethrough: whoever loses the cache loses nothing; writeback: what was not yet written
          to the origin is lost with it
    wipe  as of Array
    """

    kind: Literal["cached_volume"] = "cached_volume"
    # No dash: /dev/mapper has <name>-data, and would have two for one.
    name: str = Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_]{0,30}$")
    origin: DiskRule
    cache: DiskRule
    origin_uuid: str = Field(pattern=_LVM_UUID)
    cache_uuid: str = Field(pattern=_LVM_UUID)
    mode: Literal["writethrough", "writeback"] = "writethrough"
    wipe: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _two_disks(self) -> CachedVolume:
        if self.origin.count != 1 or self.cache.count != 1:
            raise ValueError("a cached volume lies on one disk, and its cache on another")
        if self.origin_uuid == self.cache_uuid:
            raise ValueError("its two physical volumes need two UUIDs")
        return self


class Filesystem(_Claim):
    """A filesystem, known by `uuid`: on an `array` or a cached `volume` of the node, or on a disk.

    `name` is where it is mounted. It is made once and never again; wipe: as of Array.
    """

    kind: Literal["filesystem"] = "filesystem"
    name: str = Field(pattern=r"^/[^/]")
    uuid: str = Field(pattern=_UUID)
    fstype: Literal["xfs"] = "xfs"
    array: str | None = None
    volume: str | None = None
    disks: DiskRule | None = None
    wipe: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _on_one_thing(self) -> Filesystem:
        if [self.array, self.volume, self.disks].count(None) != 2:
            raise ValueError("a filesystem lies on an `array`, a `volume` or `disks`: one of them")
        if self.disks and self.disks.count != 1:
            raise ValueError("a filesystem of its own lies on one disk")
        return self

    @property
    def below(self) -> str:
        """What it lies on, in words; empty for a disk."""
        if self.array is not None:
            return f"array {self.array}"
        return f"volume {self.volume}" if self.volume is not None else ""


class Mount(_Claim):
    """A mounted filesystem. `options` must be among those in force; read without touching it."""

    kind: Literal["mount"] = "mount"
    device: str
    fstype: str
    options: tuple[str, ...] = ()


class Governor(_Claim):
    """The frequency governor of every CPU (`name` is `cpu`)."""

    kind: Literal["governor"] = "governor"
    value: str


class Gpu(_Claim):
    """One setting that every GPU must have. `name` is a field of `hardware.Gpu`, or `mig_devices`.

    The value of `mig_devices` is the sorted profiles of a GPU's MIG devices, `3g.20gb,3g.20gb`.
    """

    kind: Literal["gpu"] = "gpu"
    value: str | int | bool


# The short names that ethtool has for some features, and those that it prints.
FEATURES = {
    "rx": "rx-checksumming",
    "tx": "tx-checksumming",
    "sg": "scatter-gather",
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
    "rxvlan": "rx-vlan-offload",
    "txvlan": "tx-vlan-offload",
    "ntuple": "ntuple-filters",
    "rxhash": "receive-hashing",
}
NIC_GROUPS = ("channels", "rings", "coalesce", "features", "pause")  # ethtool -l -g -c -k -a
_Most = Annotated[int, Field(ge=1)] | Literal["max"]


class Nic(_Claim):
    """Settings of the network interface `name`, in ethtool's words. What is left out is let be.

    channels, rings  `max` for all that the driver offers; for channels at most one for each core of
                     the interface's own NUMA node
    where_offered    a setting that the driver does not offer does not fail the claim, as long as
                     another is compared; it is told in words
    """

    kind: Literal["nic"] = "nic"
    channels: dict[str, _Most] = {}  # combined, rx, tx
    rings: dict[str, _Most] = {}  # rx, tx
    coalesce: dict[str, bool | Annotated[int, Field(ge=0)]] = {}  # adaptive-rx, rx-usecs, …
    features: dict[str, bool] = {}  # gro, tso, …, or the long name
    pause: dict[str, bool] = {}  # autoneg, rx, tx
    mtu: int | None = Field(default=None, ge=576, le=65535)
    where_offered: bool = False

    @field_validator("features")
    @classmethod
    def _as_printed(cls, features: dict[str, bool]) -> dict[str, bool]:
        return {FEATURES.get(name, name): value for name, value in features.items()}

    @model_validator(mode="after")
    def _claims_something(self) -> Nic:
        if not self.settings:
            raise ValueError("claims no setting")
        return self

    @property
    def settings(self) -> dict[str, int | bool | str]:
        """Every setting that is claimed, by `group.name`; the MTU is `mtu`."""
        found: dict[str, int | bool | str] = {
            f"{group}.{name}": value
            for group in NIC_GROUPS
            for name, value in getattr(self, group).items()
        }
        return found if self.mtu is None else {**found, "mtu": self.mtu}


class Interrupts(_Claim):
    """Each queue of the interface `name` interrupts one core of the interface's own NUMA node.

    They are spread evenly. With `xps` a queue is sent to by the CPU that it interrupts.
    """

    kind: Literal["interrupts"] = "interrupts"
    xps: bool = True


class Output(_Claim):
    """What a read-only command prints: `expect` is a regular expression searched in it.

    For facts that only a tool can tell. `argv` runs as root; it must change nothing, and end with
    exit status 0 to pass.
    """

    kind: Literal["output"] = "output"
    argv: tuple[str, ...] = Field(min_length=1)
    expect: str
    timeout_s: int = Field(default=20, ge=1, le=300)


Claim = Annotated[
    Package
    | File
    | Directory
    | Link
    | Sysctl
    | Service
    | Module
    | KernelArgument
    | Array
    | CachedVolume
    | Filesystem
    | Mount
    | Governor
    | Gpu
    | Nic
    | Interrupts
    | Output,
    Field(discriminator="kind"),
]
KINDS: tuple[str, ...] = (
    "package", "directory", "file", "link", "sysctl", "module", "kernel_argument", "array",
    "cached_volume", "filesystem", "service", "mount", "governor", "gpu", "nic", "interrupts",
    "output",
)  # fmt: skip
CLAIM: TypeAdapter[Claim] = TypeAdapter(Claim)
CLAIMS: TypeAdapter[tuple[Claim, ...]] = TypeAdapter(tuple[Claim, ...])
