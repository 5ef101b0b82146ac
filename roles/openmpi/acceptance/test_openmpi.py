"""Proof of Open MPI: it starts two processes on this node."""

from __future__ import annotations

import pytest

from nodeprep.accept.proof import Proof


@pytest.mark.proof("openmpi.launch", timeout_s=90)
def test_two_processes_start(proof: Proof) -> None:
    name = proof.run(["hostname"], sudo=False).strip()
    command = ["mpirun", "-np", "2", "--map-by", ":OVERSUBSCRIBE", "hostname"]
    # As the admin user: training does not run as root.
    said = proof.run(command, sudo=False, timeout_s=60).split()
    proof.equals(
        "answers", said, [name, name],
        action="run mpirun by hand with --mca plm_base_verbose 10",
    )  # fmt: skip
