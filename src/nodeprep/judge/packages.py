"""Whether the packages of a node fit together as a whole: judged before anything is touched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodeprep.judge.versions import (
    Stack,
    at_least,
    branch_of,
    branch_words,
    nccl_cuda,
    toolkit_of,
    upstream,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodeprep.model.node import Document
    from nodeprep.model.reading import NodeReading

# The oldest driver that a toolkit's applications run on (CUDA release notes, minor-version
# compatibility on Linux).
_DRIVER_MINIMUM = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
# NCCL 2.16 was built for these alone: there is no 2.16 for CUDA 12.1.
_NCCL_2_16 = frozenset({"11.0", "11.8", "12.0"})
_GDRCOPY = ("gdrdrv-dkms", "libgdrapi", "gdrcopy", "gdrcopy-tests")
_GDRCOPY_MINIMUM = "2.4"  # 2.3 and 2.3.1 do not build on Ubuntu 22.04
_META = re.compile(r"^cuda(-\d+(-\d+)?)?$|^cuda-runtime-\d+-\d+$|^cuda-drivers$")
_FABRIC_MANAGER = re.compile(r"^(nvidia-fabricmanager|cuda-drivers-fabricmanager)(-\d+)?$")
_RELEASE = re.compile(r"^\d[\w.]*-\d[\w.]*-(?P<flavour>.+)$")  # 5.15.0-119-generic


def conflicts(document: Document, reading: NodeReading) -> tuple[str, ...]:
    """Why the claimed packages cannot live together on this node, a sentence each.

    What is claimed is taken with what is installed already and not claimed absent. A node's own
    NVSwitches count; the profile's where the bus was not read.
    """
    stack = Stack.of(document, reading)
    found: list[str] = []
    for check in (_drivers, _fabric_manager, _toolkit, _nccl, _gdrcopy, _kernel):
        found += check(stack)
    return tuple(dict.fromkeys(found))


# --- the driver ----------------------------------------------------------------------------------


def _drivers(stack: Stack) -> Iterator[str]:
    """One branch, one version, one flavour; what is installed counts too."""
    claimed = {name: branch for name in stack.claimed if (branch := branch_of(name))}
    if not claimed:
        return
    lead = min(claimed, key=lambda name: (not name.startswith("nvidia-driver"), name))
    for name, branch in claimed.items():
        if branch.clashes(claimed[lead]):
            yield (
                f"{name} ({branch_words(branch)}) and {lead} ({branch_words(claimed[lead])}) are"
                " both claimed: claim one branch and one flavour of the driver"
            )
    for name, version in stack.installed.items():
        other = branch_of(name)
        if other and name not in claimed and other.clashes(claimed[lead]):
            yield (
                f"{name} {version} ({branch_words(other)}) is installed, {lead}"
                f" ({branch_words(claimed[lead])}) is wanted: purge the other driver first, or"
                " change the branch in the inventory"
            )
    versions = {name: v for name in claimed if (v := stack.claimed[name])}
    if len({upstream(version) for version in versions.values()}) > 1:
        said = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        yield f"packages of one driver are claimed at different versions: {said}; pin them alike"


# --- fabric manager ------------------------------------------------------------------------------


def _fabric_manager(stack: Stack) -> Iterator[str]:
    name = next((n for n in sorted(stack.planned) if _FABRIC_MANAGER.match(n)), None)
    driver = stack.driver
    if not stack.nvswitches:
        if name:
            yield (
                f"{name} belongs only where an NVSwitch is on the bus, and this node has none:"
                f" {'do not claim it' if name in stack.claimed else 'purge it'}"
            )
        return
    if driver is None:
        return
    if name is None:
        yield (
            f"{stack.nvswitches} NVSwitches are on the bus and no fabric manager is claimed: CUDA"
            f" fails with error 802; claim the fabric manager at the version of {driver[0]}"
        )
        return
    version = stack.planned[name]
    if not version or not driver[1]:
        unpinned = name if not version else driver[0]
        yield f"{unpinned} has no version pinned: {name} and {driver[0]} must be at the same one"
    elif upstream(version) != upstream(driver[1]):
        yield (
            f"{name} {version} does not fit {driver[0]} {driver[1]}: their versions must be equal;"
            f" pin {name} at {upstream(driver[1])}"
        )


# --- CUDA and NCCL -------------------------------------------------------------------------------


def _toolkit(stack: Stack) -> Iterator[str]:
    for name in sorted(stack.planned):
        if _META.match(name):
            undo = "do not claim it" if name in stack.claimed else "purge it (its parts may stay)"
            yield (
                f"{name} is a meta-package that pulls a driver of its own choice: {undo}, and"
                " claim cuda-toolkit-<version>"
            )
    toolkit, driver = toolkit_of(stack), stack.driver
    if toolkit is None or driver is None or not driver[1]:
        return
    name, version = toolkit
    minimum = _DRIVER_MINIMUM.get(version[0])
    if minimum and not at_least(driver[1], minimum):
        yield (
            f"{name} needs a driver of {minimum} or newer, and {driver[0]} is {driver[1]}: take a"
            " newer branch of the driver, or an older toolkit"
        )


def _nccl(stack: Stack) -> Iterator[str]:
    versions = {n: stack.planned[n] for n in ("libnccl2", "libnccl-dev") if n in stack.planned}
    if len(set(versions.values())) > 1:
        said = " and ".join(f"{name} {version or '(any)'}" for name, version in versions.items())
        yield f"{said} differ: pin both at one version"
    toolkit = toolkit_of(stack)
    for name, version in versions.items():
        built = nccl_cuda(version)
        if built is None:
            continue
        words = f"{built[0]}.{built[1]}"
        if upstream(version).startswith("2.16.") and words not in _NCCL_2_16:
            yield (
                f"{name} {version} was never built: NCCL 2.16 exists for CUDA"
                f" {', '.join(sorted(_NCCL_2_16))}; take its +cuda12.0 build"
            )
        if toolkit and (built[0] != toolkit[1][0] or built > toolkit[1]):
            yield (
                f"{name} {version} is built for CUDA {words}, {toolkit[0]} is"
                f" {toolkit[1][0]}.{toolkit[1][1]}: take a build of the same major version that is"
                " not newer than the toolkit"
            )


# --- GDRCopy and the kernel ----------------------------------------------------------------------


def _gdrcopy(stack: Stack) -> Iterator[str]:
    planned = stack.planned
    versions = {name: planned[name] for name in _GDRCOPY if planned.get(name)}
    if len({upstream(version) for version in versions.values()}) > 1:
        said = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield f"the packages of GDRCopy are at different versions: {said}; pin them alike"
    for name, version in versions.items():
        if not at_least(version, _GDRCOPY_MINIMUM):
            yield f"{name} {version} is too old: take {_GDRCOPY_MINIMUM} or newer"
    if "gdrdrv-dkms" not in planned:
        return
    flavours = {
        name: branch.open for name in planned if (branch := branch_of(name)) and branch.kernel
    }
    sources = [name for name in flavours if "linux-modules" not in name]
    if flavours and not sources and stack.kernel_modules:
        yield (
            f"gdrdrv-dkms builds against the driver's source, and {min(flavours)} brings none:"
            " claim the driver's dkms package of the same flavour"
        )
    if len(set(flavours.values())) > 1:
        said = ", ".join(sorted(flavours))
        yield f"gdrdrv-dkms needs one flavour of the driver, open or proprietary, and has {said}"


def _kernel(stack: Stack) -> Iterator[str]:
    """DKMS builds for the kernel that runs: its own headers must be there, or be on their way."""
    dkms = sorted(name for name in stack.claimed if re.search(r"-dkms(-|$)", name))
    if not dkms or not stack.kernel_modules:
        return
    if not stack.kernel:
        yield f"the running kernel was not read, and {dkms[0]} must be built for it: read it again"
        return
    exact = f"linux-headers-{stack.kernel}"
    release = _RELEASE.match(stack.kernel)
    meta = f"linux-headers-{release['flavour']}" if release else exact
    names = (name for name in stack.claimed if name == meta or name.startswith(f"{meta}-hwe-"))
    coming = any(name not in stack.installed for name in names)
    if exact not in stack.planned and not coming:
        yield (
            f"{dkms[0]} is built by DKMS for the running kernel {stack.kernel}, whose headers are"
            f" neither installed nor on their way: claim {meta}, or boot one that has headers"
        )
