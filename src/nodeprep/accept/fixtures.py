"""The fixtures of proofs."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.accept.backend import testinfra_host
from nodeprep.accept.job import Job, Level
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import NodeSession, Unknown
from nodeprep.model.hardware import Hardware
from nodeprep.model.node import Document, Node
from nodeprep.model.profile import GpuPart, Profile
from nodeprep.model.reading import NodeReading

PROOF = pytest.StashKey[Proof]()


class Fixtures:
    """A pytest plugin that holds nothing but fixtures."""

    def __init__(self, job: Job, session: NodeSession) -> None:
        self._job = job
        self._session = session

    @pytest.fixture
    def host(self) -> Any:
        """testinfra's Host, over the node's one connection, as root."""
        return testinfra_host(self._job.document.node.name, self._session)

    @pytest.fixture
    def document(self) -> Document:
        """The compiled desired state; `document.claims_of(role)` tells what was wanted."""
        return self._job.document

    @pytest.fixture
    def node(self) -> Node:
        return self._job.document.node

    @pytest.fixture
    def profile(self) -> Profile:
        return self._job.document.node.profile

    @pytest.fixture
    def level(self) -> Level:
        """The level of this acceptance, for proofs that measure more the longer they may."""
        return self._job.level

    @pytest.fixture
    def reading(self) -> NodeReading:
        """What the reader brought back before the proofs began."""
        return self._job.reading

    @pytest.fixture
    def hardware(self) -> Hardware:
        """Unknown when the reading holds none."""
        if self._job.reading.hardware is None:
            raise Unknown("the hardware was not read")
        return self._job.reading.hardware

    @pytest.fixture
    def gpus(self, proof: Proof) -> GpuPart:
        """The profile's GPUs; a proof that asks for them is not applicable where there are none."""
        found = self._job.document.node.profile.parts.gpus
        if found is None:
            proof.not_applicable("no GPUs were rented", profile="parts.gpus")
        return found

    @pytest.fixture
    def proof(self, request: pytest.FixtureRequest) -> Proof:
        """Runs tools on the node, and records the verdict."""
        profile = self._job.document.node.profile
        made = Proof(self._session, profile, self._baseline())
        request.node.stash[PROOF] = made
        return made

    def _baseline(self) -> dict[str, float]:
        """By measurement; the ledger keeps figures by proof, `<role>/proof:<measurement>`."""
        kept = self._job.baseline or {}
        return {name.rpartition("/proof:")[2]: value for name, value in kept.items()}
