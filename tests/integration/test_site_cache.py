"""The site's package cache: each package is downloaded once, and a dead cache stops nobody.

A lab of its own, two GPU nodes and a NAS (NODEPREP_TEST_CACHE=4 for four); only roles that bring
packages of both repositories run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import standing

from nodeprep.lab import rack as racks
from nodeprep.lab.state import LabDir

pytestmark = pytest.mark.lab
LAB = "cache"
COUNT = int(os.environ.get("NODEPREP_TEST_CACHE", "2"))
NODEPREP = str(Path(sys.executable).parent / "nodeprep")
ROLES = ("access", "site_cache", "base", "nvidia_driver")
NAS = "10.77.0.201"
SCRIPT = "/usr/local/lib/nodeprep/apt-proxy"


class Site:
    """The lab with its cache on, driven by the command line."""

    def __init__(self, folder: Path) -> None:
        self.inventory = folder / "cache.yaml"
        text = racks.inventory(LAB)
        assert 'site_cache_host: ""' in text
        self.inventory.write_text(text.replace('site_cache_host: ""', "site_cache_host: nas1"))

    def nodes(self, verb: str, *more: str) -> dict[str, Any]:
        """The nodes of the verb's JSON document, by name."""
        word = {"NODEPREP_BOOTSTRAP_PASSWORD": racks.password(LAB), "NO_COLOR": "1"}
        done = subprocess.run(
            [NODEPREP, verb, str(self.inventory), "--json", *more],
            env={**os.environ, **word}, capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return {node["name"]: node for node in json.loads(done.stdout)["nodes"]}

    def converge(self, *more: str) -> dict[str, Any]:
        only = [word for role in ROLES for word in ("--only", role)]
        nodes = self.nodes("provision", "--yes", "--to", "converge", *only, *more)
        assert {name: node["fault"] for name, node in nodes.items()} == dict.fromkeys(nodes)
        return nodes

    def unmet(self) -> set[tuple[str, str]]:
        """Which claims of the role do not hold, and on which node."""
        return {
            (name, verdict["claim"].removeprefix("site_cache/"))
            for name, node in self.nodes("drift").items()
            for verdict in node["verdicts"]
            if verdict["role"] == "site_cache" and verdict["verdict"] in ("fail", "unknown")
        }


def inside(node: str, command: str) -> str:
    done = racks.execute(LAB, node, ["sh", "-c", command], timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def requests() -> list[tuple[str, str]]:
    """Who asked the lab's repository for which package, in order."""
    lines = LabDir(LAB).http_log.read_text().splitlines()
    asked = [(line.split()[1], line.split()[3].rpartition("/")[2]) for line in lines]
    return [(client, name) for client, name in asked if name.endswith(".deb")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with standing(LAB, gpus=COUNT, nas=1):
        yield Site(tmp_path_factory.mktemp("cache"))


def test_every_package_is_downloaded_once_for_all(site: Site) -> None:
    site.converge()
    key = "cuda-keyring_1.1-1_all.deb"  # a file like any other: apt has no part in it
    asked = [(client, name) for client, name in requests() if name != key]
    assert {client for client, _ in asked} == {NAS}
    # What the server needed to run itself came before there was a cache.
    own = inside("nas1", "apt-cache depends --recurse --important --installed apt-cacher-ng")
    its = {line.split()[-1] for line in own.splitlines()}
    counts = Counter(name for _, name in asked)
    assert {n.partition("_")[0] for n, count in counts.items() if count > 1} <= its
    assert len(counts) > 40
    for number in range(COUNT):
        inside(f"gpu{number + 1}", "dpkg --status chrony fio nvidia-utils-535-server >/dev/null")


def test_then_its_claims_hold_and_a_second_run_changes_nothing(site: Site) -> None:
    assert site.unmet() == set()
    before = len(requests())
    assert [node["changed"] for node in site.converge().values()] == [[]] * (COUNT + 1)
    assert len(requests()) == before


def test_only_the_sites_addresses_are_let_in(site: Site) -> None:
    ask = f"{SCRIPT} http://deb.debian.org/"
    assert inside("gpu1", ask) == "http://nas1:3142\n"
    assert inside("gpu1", f"{SCRIPT} https://deb.debian.org/") == "DIRECT\n"
    inside("nas1", "sed -i 's/^apt-cacher-ng:.*/apt-cacher-ng: 127.0.0.1/' /etc/hosts.allow")
    assert inside("gpu1", ask) == "DIRECT\n"
    assert ("nas1", "output:who may use the package cache") in site.unmet()
    site.converge()
    assert inside("gpu1", ask) == "http://nas1:3142\n"


def test_a_tunnel_through_it_is_refused(site: Site) -> None:
    del site
    connect = (
        "exec 3<>/dev/tcp/nas1/3142; printf 'CONNECT 10.77.0.1:80 HTTP/1.0\\r\\n\\r\\n' >&3;"
        ' read -r -t 5 -u 3 line; echo "$line"'
    )
    done = racks.execute(LAB, "gpu1", ["bash", "-c", connect])
    assert done.stdout.startswith("HTTP/")
    assert " 200 " not in done.stdout


@pytest.mark.parametrize("signal", ["KILL", "STOP"])
def test_a_cache_that_died_or_hangs_stops_nobody(site: Site, signal: str) -> None:
    if signal == "KILL":
        inside("nas1", "systemctl stop apt-cacher-ng")
    else:
        inside("nas1", "systemctl kill --signal=STOP apt-cacher-ng")
    inside("gpu1", "dpkg --purge --force-depends fio && rm -f /var/cache/apt/archives/fio*")
    try:
        unmet = site.unmet()
        assert {node for node, _ in unmet} == {"nas1"}, "the other nodes' claims hold"
        assert ("nas1", "output:proxy that apt is told") in unmet
        site.converge("--limit", "gpu1")
        client, name = requests()[-1]
        assert client == "10.77.0.11"
        assert name.startswith("fio_")
    finally:
        inside("nas1", "systemctl kill --signal=CONT apt-cacher-ng; systemctl start apt-cacher-ng")
