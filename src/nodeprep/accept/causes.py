"""What a tool that gave up says, and what to do about it: the known words of GPU tools."""

from __future__ import annotations

import re

UNMEASURED = "find out on the node why it cannot be measured; what is not measured does not pass"
NOT_FOUND = 127
# nvidia-smi says by its exit code what is wrong with the board or the driver.
_SMI_CODES = {
    9: ("no driver is loaded", "load the driver; reboot if its version changed"),
    10: ("the driver sees an interrupt problem of a GPU", "reboot; then reseat the GPU"),
    12: ("NVIDIA's library is missing", "install the driver's user-space packages"),
    14: ("the infoROM of a GPU is corrupt", "RMA"),
    15: ("a GPU has fallen off the bus", "power the node off and on; then reseat or RMA"),
}
_FABRIC = (
    "start nvidia-fabricmanager, which must be of the driver's own version; "
    "then look at the NVSwitches (lspci) and their SXid lines in the kernel's log"
)
_OFF_BUS = "power the node off and on; then reseat or RMA"
_OTHER_CUDA = "install NCCL, nccl-tests and the driver for one CUDA (roles nccl, nvidia_driver)"
_CRASHED = "look at gpu.xid; reset the GPU; if it comes back, run dcgmi diag; then RMA"
_IN_USE = "end what holds the GPUs (gpu.unused), and set compute mode Default"
# Searched in lower case, the first that is found: CUDA's, NVML's and NCCL's own words.
_SAID = (
    ("version mismatch", "reboot: the driver's library was upgraded under the running module"),
    ("unsupported display driver / cuda driver", "reboot: library and module differ"),
    ("driver version is insufficient", "converge role nvidia_driver; reboot"),
    ("system not yet initialized", _FABRIC),
    ("error 802", _FABRIC),
    ("gpu is lost", _OFF_BUS),
    ("fallen off the bus", _OFF_BUS),
    ("unable to determine the device handle", _OFF_BUS),
    ("communicate with the nvidia driver", "load the driver; reboot if its version changed"),
    ("no devices were found", "look with lspci for the GPUs and for nouveau; power off and on"),
    ("no cuda-capable device", "look at gpu.answer: the driver, or every GPU, is gone"),
    ("busy or unavailable", _IN_USE),
    ("invalid number of gpus", "look at gpu.answer for the GPU that is missing, and at MIG"),
    ("out of memory", _IN_USE),
    ("nvlink error", "look at gpu.nvlink and gpu.nvlink_errors; reset the GPUs; reseat or RMA"),
    ("peer access is not supported", "look at gpu.p2p: ACS, the IOMMU, or a hypervisor"),
    ("peer mapping resources", "look at gpu.p2p; reset the GPUs or reboot"),
    ("named symbol not found", _OTHER_CUDA),
    ("no kernel image", _OTHER_CUDA),
    ("unsupported toolchain", _OTHER_CUDA),
    ("invalid device ordinal", "look at gpu.answer for the GPU that is missing, and at MIG"),
    ("failed to extend /dev/shm", "make room in /dev/shm: remount it with half of the memory"),
    ("no space left on device", "make room in /dev/shm and on the disk"),
    ("ecc error", "look at gpu.ecc; reset the GPU; then RMA"),
    ("no socket interface found", "look at NCCL_SOCKET_IFNAME and the node's interfaces"),
    ("error while loading shared libraries", "converge the role that brings the library"),
    ("unspecified launch failure", _CRASHED),
    ("illegal memory access", _CRASHED),
    ("illegal instruction", _CRASHED),
    ("unknown error", "look at gpu.xid; reboot"),
    ("permission", "run as root; look at the permissions of /dev/nvidia*"),
)  # fmt: skip
_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")
_FROM_OUTSIDE = ("SIGKILL", "SIGTERM")  # as the kernel does when memory runs out
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def why_not(tool: str, rc: int, said: str) -> str:
    """Why a tool ended with `rc`, in words; `said` is what it printed, in one line."""
    if rc == NOT_FOUND and "shared libraries" not in said:
        return f"{tool} is missing on the node"
    known = _SMI_CODES.get(rc, ("",))[0] if tool == "nvidia-smi" else ""
    if known and (address := _ADDRESS.search(said)):
        known += f": {address.group().lower()}"
    word = _SIGNALS.get(rc - 128 if rc > 128 else -rc, "")
    crash = f"{'was killed' if word in _FROM_OUTSIDE else 'crashed'} ({word})" if word else ""
    return f"{tool} ended with {rc}: {known or said or crash or 'no word'}"


def what_now(tool: str, rc: int, said: str) -> str:
    """What to do about it."""
    if rc == NOT_FOUND and "shared libraries" not in said:
        return "converge the role that brings it"
    if tool == "nvidia-smi" and rc in _SMI_CODES:
        return _SMI_CODES[rc][1]
    low = said.lower()
    known = next((action for words, action in _SAID if words in low), "")
    crashed = rc < 0 or rc - 128 in _SIGNALS
    again = "run it again by hand; look at the kernel's log, then install its package anew"
    return known or (again if crashed else UNMEASURED)
