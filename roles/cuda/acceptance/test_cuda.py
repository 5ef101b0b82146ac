"""Proof of CUDA: the compiler on the node is of the release that is claimed."""

from __future__ import annotations

import re

import pytest

from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.accept.wanted import package
from nodeprep.model.node import Document


@pytest.mark.proof("cuda.nvcc", timeout_s=60)
def test_nvcc_is_of_the_claimed_release(proof: Proof, document: Document) -> None:
    wanted = ".".join(package(document, r"cuda-toolkit-(\d+)-(\d+)").groups())
    text = proof.run(["nvcc", "--version"])
    found = re.search(r"release (\d+\.\d+),", text)
    if not found:
        raise Unknown("nvcc tells no release")
    proof.equals(
        "nvcc release", found.group(1), wanted,
        source="the claimed package", action="let /usr/local/cuda name the claimed toolkit",
    )  # fmt: skip
