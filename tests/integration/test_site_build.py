"""What is built from source is built once for a site: two nodes, a real compiler, a small source.

A lab of its own. Role openmpi runs with recipes of its own shape, whose source the gateway serves:
the first stands in for UCX, the second for Open MPI and needs the first one installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import standing

from nodeprep.lab import rack as racks
from nodeprep.lab.state import LabDir
from nodeprep.resources import site_dir

pytestmark = pytest.mark.lab
LAB = "build"
BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
SOURCE = "labtool-1.0.tar.gz"
KEPT = "/var/cache/nodeprep/builds"


def recipe(name: str, program: str, sha256: str, says: list[str]) -> dict[str, Any]:
    words = " ".join(f"--says='{line}'" for line in says)
    return {
        "name": name,
        "version": "1.0",
        "summary": f"Stands in for {program}",
        "url": f"http://10.77.0.1/nvidia/{SOURCE}",
        "sha256": sha256,
        "prefix": f"/opt/{name}",
        "build_depends": ["build-essential"],
        "depends": ["libc6"],
        "commands": [
            f'./configure --prefix="$PREFIX" --program={program} {words}',
            'make -j"$JOBS"',
            "make install",
        ],
    }


def recipes(sha256: str) -> list[dict[str, Any]]:
    transport = recipe(
        "labucx", "ucx_info", sha256,
        ["# Library version: 1.0", "# Configured with: --with-cuda=/usr --with-gdrcopy=/usr"],
    )  # fmt: skip
    mpi = recipe(
        "labmpi", "ompi_info", sha256,
        ["ompi:version:full:1.0", "mca:mpi:base:param:mpi_built_with_cuda_support:value:true"],
    )  # fmt: skip
    mpi["commands"].insert(0, "/opt/labucx/bin/ucx_info")
    mpi["depends"].append("labucx")
    return [transport, mpi]


class Site:
    """The lab, driven by the command line; `openmpi` holds the role's variables."""

    def __init__(self, folder: Path) -> None:
        self.inventory = folder / "build.yaml"
        self.data = yaml.safe_load(racks.inventory(LAB))
        state = LabDir(LAB).load()
        archive = (Path(state.sim) / "nvidia" / SOURCE).read_bytes()
        self.sha256 = hashlib.sha256(archive).hexdigest()
        self.environment = {
            **os.environ,
            "NODEPREP_BOOTSTRAP_PASSWORD": racks.password(LAB),
            "NO_COLOR": "1",
        }

    def say(self, wanted: list[dict[str, Any]]) -> None:
        """What the inventory says is to be built."""
        links = [
            {"name": "/usr/local/bin/ompi_info", "target": "/opt/labmpi/bin/ompi_info"},
            {"name": "/usr/local/bin/ucx_info", "target": "/opt/labucx/bin/ucx_info"},
        ]
        self.data["all"]["vars"] |= {
            "openmpi_from": "source", "openmpi_recipes": wanted, "openmpi_links": links,
        }  # fmt: skip
        self.inventory.write_text(yaml.safe_dump(self.data))

    def nodes(self, verb: str, *more: str) -> dict[str, Any]:
        done = subprocess.run(
            [BIN / "nodeprep", verb, self.inventory, "--json", *more],
            env=self.environment, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return {node["name"]: node for node in json.loads(done.stdout)["nodes"]}

    def converge(self, *more: str) -> dict[str, Any]:
        to = ["--yes", "--to", "converge", "--only", "openmpi"]
        return self.nodes("provision", *to, *more)

    def unmet(self) -> set[str]:
        return {
            f"{name} {verdict['claim']}"
            for name, node in self.nodes("drift").items()
            for verdict in node["verdicts"]
            if verdict["role"] == "openmpi" and verdict["verdict"] in ("fail", "unknown")
        }

    @property
    def store(self) -> Path:
        return site_dir(LAB) / "builds"


def inside(node: str, command: str) -> str:
    done = racks.execute(LAB, node, ["sh", "-c", command], timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fetched() -> list[str]:
    """Who fetched the source, each time."""
    log = LabDir(LAB).http_log
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.split()[1] for line in lines if line.endswith(SOURCE)]


def left_over(node: str) -> str:
    """Whatever a build that failed must not leave."""
    return inside(node, f"ls -d /tmp/*nodeprep* /var/tmp/*nodeprep* {KEPT}/* 2>/dev/null || true")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with standing(LAB, gpus=2, nas=0):
        yield Site(tmp_path_factory.mktemp("build"))


def test_a_source_without_a_checksum_is_refused(site: Site) -> None:
    site.say(recipes(""))
    for node in site.converge().values():
        assert "labucx: the recipe has no sha256" in node["fault"]["message"]
    assert fetched() == []


def test_a_source_with_another_checksum_is_refused_and_nothing_is_left(site: Site) -> None:
    site.say(recipes("0" * 64))
    nodes = site.converge()
    assert re.search(r"checksum.* did not match", nodes["gpu1"]["fault"]["message"])
    assert "labucx_1.0+np" in nodes["gpu2"]["fault"]["message"], "who did not build says who did"
    assert left_over("gpu1") == left_over("gpu2") == ""
    assert not list(site.store.glob("*"))


def test_a_build_that_fails_shows_the_end_of_its_log_and_leaves_nothing_else(site: Site) -> None:
    bad = recipes(site.sha256)
    bad[0]["commands"][0] = "./configure --with-nonsense"
    site.say(bad)
    message = site.converge("--limit", "gpu1")["gpu1"]["fault"]["message"]
    assert "configure: error: unrecognized option: --with-nonsense" in message
    assert left_over("gpu1") == ""
    assert "unrecognized option" in inside("gpu1", "cat /var/log/nodeprep/build-labucx.log")
    inside("gpu1", "! dpkg --status labucx 2>/dev/null")


def test_a_build_that_writes_past_its_folder_fails(site: Site) -> None:
    bad = recipes(site.sha256)
    bad[0]["commands"][2] = "make install DESTDIR="
    site.say(bad)
    message = site.converge("--limit", "gpu1")["gpu1"]["fault"]["message"]
    assert "Permission denied" in message
    inside("gpu1", "! [ -e /opt/labucx ]")


def test_check_mode_says_so_and_builds_nothing(site: Site) -> None:
    site.say(recipes(site.sha256))
    before = fetched()
    done = subprocess.run(
        [BIN / "ansible-playbook", "-i", site.inventory, "playbooks/provision.yml", "--check",
         "--tags", "openmpi"],
        cwd=ROOT, env=site.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "build and install labucx_1.0+np" in done.stdout
    assert fetched() == before
    assert left_over("gpu1") == ""


def test_it_is_built_once_and_installed_twice(site: Site) -> None:
    site.say(recipes(site.sha256))
    before = len(fetched())
    nodes = site.converge()
    assert {name: node["fault"] for name, node in nodes.items()} == {"gpu1": None, "gpu2": None}
    assert fetched()[before:] == ["10.77.0.11"] * 2, "one fetch for each recipe, by one node"
    assert site.unmet() == set()
    versions = {inside(n, "dpkg-query -W labucx labmpi") for n in ("gpu1", "gpu2")}
    assert len(versions) == 1
    assert inside("gpu2", "command -v cc || true") == "", "only the node that built has a compiler"
    assert len(list(site.store.glob("lab*.deb"))) == 2
    assert left_over("gpu2").split() == [f"{KEPT}/{p.name}" for p in sorted(site.store.iterdir())]


def test_a_second_run_changes_nothing(site: Site) -> None:
    before = len(fetched())
    assert [node["changed"] for node in site.converge().values()] == [[], []]
    done = subprocess.run(
        [BIN / "ansible-playbook", "-i", site.inventory, "playbooks/provision.yml",
         "--tags", "openmpi"],
        cwd=ROOT, env=site.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}, done.stdout
    assert len(fetched()) == before


def test_a_controller_that_lost_its_packages_gets_them_from_a_node(site: Site) -> None:
    before = len(fetched())
    for file in site.store.iterdir():
        file.unlink()
    inside("gpu1", "dpkg --purge --force-hold labmpi")
    inside("gpu2", f"dpkg --purge --force-hold labmpi && rm {KEPT}/labmpi*")
    assert {f"{node} openmpi/package:labmpi" for node in ("gpu1", "gpu2")} <= site.unmet()
    site.converge()
    assert site.unmet() == set()
    assert len(fetched()) == before, "nothing was built again"
