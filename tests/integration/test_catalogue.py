"""Faults on a node of the lab, by `nodeprep accept`: refused for the cause, accepted when cleared.

All faults are proven offline in tests/unit/accept/test_catalogue.py; here three go the whole way.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import Rack
from tests.unit.accept.fault_table import CASES, Case

from nodeprep.errors import BadInput
from nodeprep.lab import node as nodes
from nodeprep.lab import rack as racks
from nodeprep.resources import site_dir

pytestmark = pytest.mark.lab
NODE = "gpu1"
NODEPREP = Path(sys.executable).with_name("nodeprep")
CHOSEN = ("nvlink_down", "remap_failed", "zombie_process")


class Site:
    """The command line on one node of the rack."""

    def __init__(self, rack: Rack, folder: Path) -> None:
        self._inventory = _alone(rack.inventory(folder))
        self._environment = {**os.environ, "NODEPREP_BOOTSTRAP_PASSWORD": rack.password}

    def run(self, verb: str, *more: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """Exit code, and what blocks, by claim."""
        done = subprocess.run(
            [NODEPREP, verb, self._inventory, "--limit", NODE, "--json", *more],
            env=self._environment, capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        assert done.stdout, done.stderr
        (node,) = json.loads(done.stdout)["nodes"]
        blocked = {v["claim"]: v for v in node["verdicts"] if v["verdict"] in ("fail", "unknown")}
        return done.returncode, blocked


def _alone(inventory: Path) -> Path:
    """Of a site with one node: with others it would have to be measured against them."""
    found = yaml.safe_load(inventory.read_text())
    group = found["all"]["children"]["gpu_nodes"]
    group["hosts"] = {NODE: group["hosts"][NODE]}
    inventory.write_text(yaml.safe_dump(found))
    return inventory


def _power_cycle(rack: Rack) -> None:
    lab, one = nodes.find(rack.name, NODE)
    nodes.stop(lab, one)
    nodes.start(lab, lab.load(), one)
    racks.wait_ready(lab, lab.load(), only=[NODE])
    rack.run(NODE, "systemctl", "is-system-running", "--wait", check=False)


@pytest.fixture(scope="module")
def site(rack: Rack, tmp_path_factory: pytest.TempPathFactory) -> Site:
    rack.fresh(NODE)
    shutil.rmtree(site_dir(rack.name), ignore_errors=True)  # another machine, another host key
    found = Site(rack, tmp_path_factory.mktemp("site"))
    code, blocked = found.run("provision", "--yes")
    assert (code, blocked) == (0, {})
    return found


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.fault in CHOSEN], ids=lambda case: case.fault
)
def test_a_fault_is_refused_for_its_cause_until_it_is_cleared(
    rack: Rack, site: Site, case: Case
) -> None:
    rack.inject(NODE, case.fault, **{key: str(value) for key, value in case.args.items()})
    try:
        code, blocked = site.run("accept")
    finally:
        rack.clear(NODE)
    assert code == 2
    found = {claim.rpartition("/proof:")[2]: verdict for claim, verdict in blocked.items()}
    for name, cause in case.red.items():
        assert name in found, sorted(found)
        assert cause in f"{found[name]['reason']} {found[name]['read']}"
    assert case.action in found[next(iter(case.red))]["action"]
    code, blocked = site.run("provision", "--yes")
    assert (code, blocked) == (0, {})


def test_another_gpu_of_the_kind_is_drift_until_it_was_measured(rack: Rack, site: Site) -> None:
    rack.inject(NODE, "gpu_swapped")
    _power_cycle(rack)  # nobody swaps a GPU of a running machine
    code, blocked = site.run("drift")
    assert code == 2
    (reason,) = (v["reason"] for claim, v in blocked.items() if claim == "hardware/identity:gpu")
    assert "not the machine that was accepted" in reason
    assert site.run("provision", "--yes") == (0, {})
    assert site.run("drift") == (0, {})
    rack.clear(NODE)


@pytest.mark.parametrize(
    ("fault", "args", "said"),
    [
        ("xid", {}, "the argument code is missing: xid takes code, gpu=0, age_s=600"),
        ("gpu_lost", {"colour": "red"}, "there is no argument colour: gpu_lost takes gpu=1"),
        ("nvlink_down", {"link": "third"}, "'third' is no number"),
    ],
)
def test_arguments_that_a_fault_does_not_take_are_named(
    rack: Rack, fault: str, args: dict[str, str], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        rack.inject(NODE, fault, **args)
    assert rack.status(NODE).faults == ()
