"""Proof of GDRCopy: its own sanity tests pass on this node, all of them."""

from __future__ import annotations

import re

import pytest

from nodeprep.accept.parsers.gdrcopy import GdrcopySanity, parse_gdrcopy_sanity
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

# Waived by 2.5 on every GPU that speaks to its host over PCIe, or with CUDA's deprecated tokens:
# the README of GDRCopy shows them waived.
OF_OTHER_PLATFORMS = re.compile(r"_forcepci_|_mix_mappings_|_with_tokens$")


@pytest.mark.proof("gdrcopy.sanity", timeout_s=180)
def test_every_sanity_test_passes(proof: Proof, gpus: GpuPart) -> None:
    # It ends with 1 when a test failed; the counts tell more.
    counts = parse_gdrcopy_sanity(proof.run(["gdrcopy_sanity"], timeout_s=170, accept=(0, 1)))
    if not counts.failed and (_owed(counts) or not counts.passed):
        raise Unknown(f"{counts.waived} of {counts.total} tests were waived, so not measured")
    proof.holds(
        not counts.failed,
        wanted="all tests pass that are for this platform",
        read=f"{counts.passed} of {counts.total} passed, {counts.failed} failed",
        action="check that gdrdrv is loaded and of the driver's flavour (open or proprietary)",
    )
    if counts.waived:
        proof.note(f"waived: {', '.join(counts.waived_tests)}")


def _owed(counts: GdrcopySanity) -> int:
    """How many of the waived tests are for this platform, as far as their names are told."""
    others = {name for name in counts.waived_tests if OF_OTHER_PLATFORMS.search(name)}
    return counts.waived - len(others)
