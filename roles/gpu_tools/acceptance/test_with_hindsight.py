"""Proof after all the others: the load that they were left no mark on any GPU.

This role comes last, and this file last in it: what it reads is what stress has brought to light.
"""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.kernel_log import KernelLog, parse_kernel_log
from nodeprep.accept.parsers.smi import parse_smi
from nodeprep.accept.parsers.text import ParseError
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart
from nodeprep.model.reading import NodeReading

JOURNAL = "journalctl -k -q --no-pager -o short-unix -n 20000"
RESET = "drain the GPU and reset it; accept again; if it comes back, RMA"


@pytest.mark.proof("gpu.after_load", level="stress", timeout_s=90)
def test_the_load_left_no_mark(proof: Proof, gpus: GpuPart, reading: NodeReading) -> None:
    if not reading.host.clock:
        raise Unknown("the node's clock was not read")
    # Whatever its code: these are no applications that crash.
    xids = _kernel_log(proof).since(reading.host.clock)
    proof.holds(
        not xids,
        wanted="no XID while it was tested",
        read="; ".join(f"XID {xid.code} at {xid.bus}: {xid.text[:80]}" for xid in xids) or "none",
        action=RESET,
    )
    health = parse_smi(proof.run(["nvidia-smi", "-q", "-x"], timeout_s=60))
    proof.equals("GPUs that still answer", len(health), gpus.count, action=RESET)
    marks = {
        gpu.bus: (gpu.ecc_uncorrectable, gpu.remap_pending, gpu.remap_failure) for gpu in health
    }
    if mute := [bus for bus, (errors, *_) in marks.items() if errors is None]:
        raise Unknown(f"nvidia-smi does not tell the ECC errors of {', '.join(mute)}")
    bad = [bus for bus, mark in marks.items() if any(mark)]
    proof.holds(
        not bad,
        wanted="no uncorrectable error, and no row to be remapped",
        read=", ".join(f"{bus} {marks[bus][0]} errors" for bus in bad) or f"none on {len(marks)}",
        action=RESET,
    )


def _kernel_log(proof: Proof) -> KernelLog:
    """The journal's last lines; where it holds none of the kernel's, the ring buffer."""
    try:
        return parse_kernel_log(proof.run(JOURNAL))
    except (Unknown, ParseError):
        return parse_kernel_log(proof.run(["dmesg", "--time-format", "iso"]))
