"""Names and versions of the GPU stack's packages, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeprep.model.claim import Package

if TYPE_CHECKING:
    from nodeprep.model.node import Document
    from nodeprep.model.reading import NodeReading

_BRANCH = re.compile(
    r"^(?P<what>nvidia-(?:driver|headless|headless-no-dkms|dkms|kernel-source|kernel-common|utils"
    r"|compute-utils)|libnvidia-(?:compute|cfg1|gl|extra|common)|linux-modules-nvidia|cuda-drivers)"
    r"-(?P<number>\d{3})(?P<server>-server)?(?P<open>-open)?(?:-.*)?$"
)
_KERNEL_PARTS = ("nvidia-driver", "nvidia-headless", "nvidia-dkms", "nvidia-kernel-source",
                 "linux-modules-nvidia")  # fmt: skip
# Debian's, whose names carry no branch.
_DEBIAN_DRIVERS = ("nvidia-driver", "nvidia-kernel-dkms", "nvidia-open-kernel-dkms")


@dataclass(frozen=True)
class Branch:
    """Of a driver package's name. `open` is None where the package is of both flavours."""

    number: int
    server: bool
    open: bool | None
    kernel: bool  # it brings, or pulls, the kernel module

    def clashes(self, other: Branch) -> bool:
        flavours = {self.open, other.open} - {None}
        return (self.number, self.server) != (other.number, other.server) or len(flavours) > 1


def branch_of(name: str) -> Branch | None:
    """None for what is no driver package, or whose name carries no branch."""
    match = _BRANCH.match(name)
    if match is None:
        return None
    kernel = match["what"] in _KERNEL_PARTS
    flavour = bool(match["open"]) if kernel else None
    return Branch(int(match["number"]), bool(match["server"]), flavour, kernel)


def is_driver(name: str) -> bool:
    """Whether the package brings, or pulls, the driver's kernel module."""
    branch = branch_of(name)
    return name in _DEBIAN_DRIVERS or (branch is not None and branch.kernel)


def branch_words(branch: Branch) -> str:
    flavour = {True: " open", False: " proprietary", None: ""}[branch.open]
    return f"branch {branch.number}{'-server' if branch.server else ''}{flavour}"


def upstream(version: str) -> str:
    """`535.183.01` of `1:535.183.01-0ubuntu1`."""
    without_epoch = version.partition(":")[2] if ":" in version else version
    return without_epoch.rpartition("-")[0] or without_epoch


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", upstream(version).partition("+")[0]))


def at_least(version: str, minimum: str) -> bool:
    return numbers(version) >= numbers(minimum)


def release_key(release: str) -> tuple[int, ...]:
    """Orders kernel releases as GRUB does, the newest last; flavours of one version are equal."""
    return tuple(int(part) for part in re.findall(r"\d+", release))


def nccl_cuda(version: str) -> tuple[int, int] | None:
    """(12, 0) of `2.16.5-1+cuda12.0`."""
    match = re.search(r"\+cuda(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class Stack:
    """The package set as it would be. Versions are empty where none is pinned.

    claimed    to be present, by name
    installed  already there, and not claimed absent
    """

    claimed: dict[str, str]
    installed: dict[str, str]
    nvswitches: int
    kernel: str
    kernel_modules: bool

    @property
    def planned(self) -> dict[str, str]:
        """A claim without a version keeps the version that is installed."""
        kept = {name: v or self.installed.get(name, "") for name, v in self.claimed.items()}
        return {**self.installed, **kept}

    @property
    def driver(self) -> tuple[str, str] | None:
        """Name and version of the driver, the claimed one first."""
        for names in (self.claimed, self.installed):
            found = [name for name in names if is_driver(name)]
            if found:
                lead = min(found, key=lambda n: (not self.planned[n], "-driver" not in n, n))
                return lead, self.planned[lead]
        return None

    @classmethod
    def of(cls, document: Document, reading: NodeReading) -> Stack:
        ours = [claim for claim in document.claims if isinstance(claim, Package) and claim.applies]
        absent = {claim.name for claim in ours if claim.state == "absent"}
        gpus = document.node.profile.parts.gpus
        read = reading.hardware.nvswitches if reading.hardware else None
        return cls(
            claimed={c.name: c.version or "" for c in ours if c.state == "present"},
            installed={n: v for n, v in reading.packages.items() if n not in absent},
            nvswitches=len(read) if read is not None else gpus.nvswitches if gpus else 0,
            kernel=reading.host.kernel,
            kernel_modules=document.node.profile.platform.kernel_modules,
        )


def toolkit_of(stack: Stack) -> tuple[str, tuple[int, int]] | None:
    """Name and CUDA version of the newest toolkit, the claimed ones first."""
    for names in (stack.claimed, stack.installed):
        found = []
        for name in names:
            match = re.match(r"^cuda-toolkit-(\d+)-(\d+)$", name)
            if match:
                found.append((name, (int(match[1]), int(match[2]))))
            elif name == "nvidia-cuda-toolkit" and len(numbers(stack.planned[name])) > 1:
                major, minor, *_ = numbers(stack.planned[name])  # Debian's own
                found.append((name, (major, minor)))
        if found:
            return max(found, key=lambda item: item[1])
    return None
