"""Proof of GDRCopy: its own sanity tests pass on this node, all of them."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.gdrcopy import parse_gdrcopy_sanity
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart


@pytest.mark.proof("gdrcopy.sanity", timeout_s=180)
def test_every_sanity_test_passes(proof: Proof, gpus: GpuPart) -> None:
    # It ends with 1 when a test failed; the counts tell more.
    counts = parse_gdrcopy_sanity(proof.run(["gdrcopy_sanity"], timeout_s=170, accept=(0, 1)))
    if counts.waived and not counts.failed:
        raise Unknown(f"{counts.waived} of {counts.total} tests were waived, so not measured")
    proof.holds(
        counts.passed == counts.total,
        wanted="as many tests pass as there are",
        read=f"{counts.passed} of {counts.total} passed, {counts.failed} failed",
        action="check that gdrdrv is loaded and of the driver's flavour (open or proprietary)",
    )
