"""The proof that an RDMA NIC has an address of RoCEv2, and what turns it red."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.accept.nodes import profile
from tests.unit.accept.test_role_proofs import REAL, Rack


@pytest.fixture
def rack(node: Any, monkeypatch: pytest.MonkeyPatch) -> Rack:
    return Rack(node, monkeypatch)


def prove(rack: Rack, text: str, **more: Any) -> Verdict:
    rack.says("gid_attrs", text, **more)
    return rack.prove("rdma", on=REAL).proof("rdma.address")


def test_an_address_of_rocev2(rack: Rack) -> None:
    assert prove(rack, "gid 1: RoCE v2\nread\n").verdict is Outcome.PASS


@pytest.mark.parametrize("text", ["gid 0: IB/RoCE v1\nread\n", "read\n"])
def test_none(rack: Rack, text: str) -> None:
    verdict = prove(rack, text)
    assert verdict.verdict is Outcome.FAIL
    assert verdict.action


def test_no_device_is_unknown(rack: Rack) -> None:
    assert prove(rack, "", rc=1).verdict is Outcome.UNKNOWN
    assert prove(rack, "gid 1: RoCE v2\n").verdict is Outcome.UNKNOWN


def test_not_applicable_where_the_profile_has_none(rack: Rack) -> None:
    found = rack.prove("rdma", on=profile("a100-sxm4-40g-x4")).proof("rdma.address")
    assert found.verdict is Outcome.NOT_APPLICABLE
    assert "no NIC of the profile has RDMA" in found.reason
