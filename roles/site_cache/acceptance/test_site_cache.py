"""Proof of the package cache: apt is told a proxy at once, or that there is none."""

from __future__ import annotations

import pytest

from nodeprep.accept.proof import Proof
from nodeprep.model.claim import File
from nodeprep.model.node import Document

SCRIPT = "/usr/local/lib/nodeprep/apt-proxy"
CONF = "/etc/apt/apt.conf.d/60nodeprep-site-cache"


@pytest.mark.proof("site_cache.never_blocks", timeout_s=30)
def test_apt_is_told_in_time_how_to_fetch(proof: Proof, document: Document) -> None:
    """A cache that is down is noted, and is no reason to keep a node out."""
    told = proof.run([SCRIPT, "http://deb.debian.org/"], sudo=False, timeout_s=15).strip()
    proof.holds(
        told == "DIRECT" or told.startswith("http://"),
        wanted="a proxy, or DIRECT",
        read=told,
        action=f"converge role site_cache; run {SCRIPT} by hand",
    )
    tls = proof.run([SCRIPT, "https://deb.debian.org/"], sudo=False, timeout_s=15).strip()
    proof.equals("for https", tls, "DIRECT", action="converge role site_cache")
    if told == "DIRECT" and configured(document):
        proof.note("the site's package cache does not answer: this node downloads for itself")


def configured(document: Document) -> bool:
    claims = document.claims_of("site_cache")
    return any(
        isinstance(claim, File) and claim.name == CONF and claim.state == "present"
        for claim in claims
    )
