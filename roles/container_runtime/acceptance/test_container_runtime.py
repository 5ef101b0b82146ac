"""Proofs of the container runtime: it answers, and can hand out every GPU of the node."""

from __future__ import annotations

import re

import pytest

from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

DESCRIBE = "start nodeprep-cdi.service and read its journal"


@pytest.mark.proof("containers.answer", timeout_s=60)
def test_containerd_answers(proof: Proof) -> None:
    text = proof.run(["ctr", "version"], timeout_s=30)
    found = re.search(r"^Server:\n\s+Version:\s+(\S+)", text, re.MULTILINE)
    proof.holds(
        found is not None,
        wanted="containerd answers on its socket",
        read=found.group(1) if found else text[:200],
        action="read the journal of containerd.service",
    )


@pytest.mark.proof("containers.gpus", timeout_s=60)
def test_every_gpu_can_be_given_to_a_container(proof: Proof, gpus: GpuPart) -> None:
    """By index, by UUID, and all at once: those that answer now, not those of the last boot."""
    listed = re.findall(r"^nvidia\.com/gpu=(\S+)$", proof.run(["nvidia-ctk", "cdi", "list"]), re.M)
    if not listed:
        raise Unknown("nvidia-ctk lists no CDI device", action=DESCRIBE)
    uuids = set(re.findall(r"\(UUID: (\S+)\)", proof.run(["nvidia-smi", "-L"])))
    if not uuids:
        raise Unknown("nvidia-smi names no GPU")
    wanted = {str(index) for index in range(gpus.count)} | uuids | {"all"}
    proof.equals("CDI devices", sorted(listed), sorted(wanted), action=DESCRIBE)
