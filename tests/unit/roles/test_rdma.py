"""The role rdma: what is asked of each NIC, in the formats of rdma, dcb and sysfs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep import inventory
from nodeprep.judge.claims import judge
from nodeprep.model.claim import Claim, Output
from nodeprep.model.node import Document
from nodeprep.model.reading import Reading
from nodeprep.model.verdict import Outcome

ROOT = Path(__file__).parents[3]
LINKS = (
    "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0 \n"
    "link mlx5_1/1 state DOWN physical_state DISABLED netdev ens1f1np1 \n"
)
PFC = (
    "pfc-cap 8 macsec-bypass off delay 0 \n"
    "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off \n"
)
APP = "dscp-prio 26:3 48:6 \n"
ROCE = "RoCE v2\n106\n"


def site(folder: Path, nics: list[dict[str, Any]]) -> Document:
    """A site of one node with these NICs, compiled."""
    profiles = ROOT / "inventory" / "profiles"
    profile = yaml.safe_load((profiles / "a100-sxm4-40g-x4.yaml").read_text(encoding="utf-8"))
    profile["name"], profile["parts"]["nics"] = "roce", nics
    (folder / "profiles").mkdir(parents=True)
    (folder / "profiles" / "roce.yaml").write_text(yaml.safe_dump(profile))
    host = {"ansible_host": "192.0.2.1", "nodeprep_profile": "roce", "node_os": "ubuntu2204",
            "nccl_socket_ifname": nics[0]["name"]}  # fmt: skip
    text = {"all": {"children": {"gpu_nodes": {"hosts": {"a": host}}}}}
    file = folder / "site.yaml"
    file.write_text(yaml.safe_dump(text))
    found = inventory.load(file).documents[0]
    assert isinstance(found, Document)
    return found


@pytest.fixture
def claims(tmp_path: Path) -> dict[str, Claim]:
    nics = [
        {"name": "eno1", "speed_mbps": 10000},
        {"name": "ens1f0np0", "speed_mbps": 100000, "rdma": True},
    ]
    document = site(tmp_path / "inventory", nics)
    return {claim.name: claim for claim in document.claims_of("rdma")}


def said(claim: Claim, text: str, rc: int = 0) -> Outcome:
    return judge(claim, Reading(data={"rc": rc, "text": text})).verdict


def test_on_the_reference_site_none_applies_and_each_says_why() -> None:
    for document in inventory.load(ROOT / "inventory" / "la.yaml").documents:
        if "rdma" in document.roles:
            verdicts = [judge(claim, None) for claim in document.claims_of("rdma")]
            assert len(verdicts) > 10
            assert {v.verdict for v in verdicts} == {Outcome.NOT_APPLICABLE}
            assert {v.reason for v in verdicts} == {
                "no NIC of the profile has RDMA (parts.nics[].rdma)"
            }


def test_only_the_nics_with_rdma_are_asked(claims: dict[str, Claim]) -> None:
    assert all(claim.applies for claim in claims.values())
    assert "link of ens1f0np0" in claims
    assert not any("eno1" in name for name in claims)
    assert "nvidia_peermem" in claims


CASES = [
    ("link of ens1f0np0", LINKS, LINKS.replace("state ACTIVE", "state INIT"), "netdev ens1f0np0"),
    ("link of ens1f0np0", LINKS, LINKS.replace("ens1f0np0", "ens1f0np01"), ""),
    ("rate of ens1f0np0", "100 Gb/sec (4X EDR)\n", "25 Gb/sec (1X EDR)\n", ""),
    ("rate of ens1f0np0", "100 Gb/sec (4X EDR)\n", "1000 Gb/sec\n", ""),
    ("flow control by priority of ens1f0np0", PFC, PFC.replace("3:on", "3:off"), ""),
    ("flow control by priority of ens1f0np0", PFC, PFC.replace("0:off", "0:on"), ""),
    ("DSCP of ens1f0np0", APP, APP.replace("26:3", "26:0"), ""),
    ("DSCP of ens1f0np0", APP, APP.replace("26:3", "126:3"), ""),
    ("RoCE defaults of ens1f0np0", ROCE, ROCE.replace("v2", "v1"), ""),
    ("RoCE defaults of ens1f0np0", ROCE, ROCE.replace("106", "0"), ""),
    ("ECN of ens1f0np0", "1 1\n", "1 0\n", ""),
    ("ECN of ens1f0np0", "no switch in this driver: as the firmware has it\n", "0 0\n", ""),
]


@pytest.mark.parametrize(("name", "good", "bad", "read"), CASES)
def test_each_is_green_and_red(
    claims: dict[str, Claim], name: str, good: str, bad: str, read: str
) -> None:
    claim = claims[name]
    assert said(claim, good) is Outcome.PASS
    assert read in judge(claim, Reading(data={"rc": 0, "text": good})).read
    assert said(claim, bad) is Outcome.FAIL
    assert said(claim, "") is Outcome.UNKNOWN
    assert said(claim, good, rc=1) is Outcome.FAIL
    assert judge(claim, Reading(error="dcb: not found")).verdict is Outcome.UNKNOWN


MANY = (
    "link mlx5_2/1 state ACTIVE physical_state LINK_UP netdev ens1f0np01 \n"
    "link mlx5_0/2 state ACTIVE physical_state LINK_UP netdev ens1f0np0 \n"
    "link mlx5_3/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0.100 \n"
    "link ibp1s0/1 subnet_prefix fe80:0000:0000:0000 lid 5 state ACTIVE physical_state LINK_UP \n"
)


@pytest.mark.parametrize("listed", [MANY, MANY.replace("np0 \n", "np0\n"), "", MANY[:65]])
def test_device_and_port_are_those_of_the_interface(
    tmp_path: Path, claims: dict[str, Claim], listed: str
) -> None:
    program = tmp_path / "rdma"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{listed}'\n")
    program.chmod(0o755)
    wanted = "mlx5_0/2\n" if "netdev ens1f0np0\n" in listed.replace(" \n", "\n") else "\n"
    for name in ("rate of ens1f0np0", "RoCE defaults of ens1f0np0"):
        claim = claims[name]
        assert isinstance(claim, Output)
        find = claim.argv[2].partition(";")[0]
        done = subprocess.run(
            ["sh", "-c", f'{find}; echo "$link"'],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == wanted


def test_what_the_fabric_lacks_is_set_by_the_unit(claims: dict[str, Claim]) -> None:
    for name in ("flow control by priority of ens1f0np0", "DSCP of ens1f0np0", "ECN of ens1f0np0"):
        claim = claims[name]
        assert isinstance(claim, Output)
        assert claim.notify == ("Set the fabric",)
    program = claims["/usr/local/sbin/nodeprep-rdma"]
    text = getattr(program, "content", "")
    assert "for nic in ens1f0np0; do" in text
    assert "prio-pfc all:off 3:on" in text
    assert "dscp-prio 26:3" in text


def test_with_dma_buf_no_module_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "inventory"
    site(folder, [{"name": "n", "speed_mbps": 1000, "rdma": True}])
    file = folder / "site.yaml"
    text = yaml.safe_load(file.read_text())
    text["all"]["vars"] = {"rdma_gpudirect": "dmabuf"}
    file.write_text(yaml.safe_dump(text))
    document = inventory.load(file).documents[0]
    names = {claim.name for claim in document.claims_of("rdma")}
    assert "nvidia_peermem" not in names
    assert "rdma_ucm" in names
