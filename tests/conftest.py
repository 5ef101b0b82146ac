"""The rack that integration and end-to-end tests share: three GPU nodes and a NAS, brought up once.

NODEPREP_TEST_LAB=name uses a lab that is up already, and leaves it up. Where a lab cannot run,
tests that need one are skipped with the reason; where the environment says CI, they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nodeprep.errors import LabUnavailable
from nodeprep.lab import faults
from nodeprep.lab import rack as racks
from nodeprep.lab.names import Tier
from nodeprep.resources import site_dir

TEST_LAB = "test"
CLI = Path(sys.executable).with_name("nodeprep")

# No property is about time, and a machine may be busy.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@dataclass(frozen=True)
class Rack:
    """A running lab. Nodes are named gpu1, gpu2, gpu3, nas1."""

    name: str

    @property
    def password(self) -> str:
        """The root password of fresh nodes."""
        return racks.password(self.name)

    def status(self, node: str) -> racks.NodeStatus:
        found = {one.name: one for one in racks.status(self.name).nodes}
        return found[node]

    def run(self, node: str, *argv: str, check: bool = True) -> str:
        """Standard output of a command run as root inside a node, past SSH."""
        done = self.execute(node, argv)
        if check:
            assert done.returncode == 0, f"{node}: {argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def inside(self, node: str, *argv: str) -> list[str]:
        """The command that runs `argv` in a container, with the input and output of its own."""
        return [str(CLI), "lab", "exec", "--name", self.name, node, "--", *argv]

    def bring(self, node: str, folder: Path, there: str) -> None:
        """All that is in `folder`, put into a folder of a container."""
        unpack = self.inside(node, "sh", "-c", f"mkdir -p {there} && tar -C {there} -x")
        with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as sender:
            subprocess.run(unpack, stdin=sender.stdout, check=True, timeout=300)
        assert sender.returncode == 0

    def logins(self, node: str) -> int:
        """How often the node's sshd let somebody in."""
        count = "journalctl -u ssh -o cat --no-pager | grep -c '^Accepted ' || :"
        return int(self.run(node, "sh", "-c", count))

    def execute(self, node: str, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return racks.execute(self.name, node, argv)

    def fresh(self, *nodes: str) -> None:
        """Nodes (none named: all) as the provider handed them over."""
        racks.reset(self.name, nodes)

    def inject(self, node: str, fault: str, **args: str) -> None:
        faults.inject(self.name, node, fault, args)

    def clear(self, node: str) -> None:
        faults.clear(self.name, node)

    def inventory(self, folder: Path) -> Path:
        """The lab's inventory, written into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}.yaml"
        file.write_text(racks.inventory(self.name))
        return file


@contextmanager
def standing(
    name: str, *, gpus: int, nas: int, tier: Tier = "fast", instead: str = ""
) -> Iterator[Rack]:
    """A lab of its own while the block lasts; where none can start, the tests say so.

    instead  an environment variable that may name a lab that is up: it is used and left up
    """
    if running := os.environ.get(instead):
        yield Rack(running)
        return
    try:
        racks.down(name)  # of a session that was killed
        racks.up(name, gpus=gpus, nas=nas, tier=tier)
    except LabUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"the lab cannot start: {reason}")
        pytest.skip(f"the lab cannot start: {reason}")
    try:
        yield Rack(name)
    finally:
        racks.down(name)


@pytest.fixture(scope="session")
def rack() -> Iterator[Rack]:
    with standing(TEST_LAB, gpus=3, nas=1, instead="NODEPREP_TEST_LAB") as found:
        yield found


@pytest.fixture
def fresh(rack: Rack) -> Callable[[str], None]:
    """Call it with a node's name: the node is then as the provider handed it over."""
    return rack.fresh


@pytest.fixture(scope="module", autouse=True)
def _as_handed_over(request: pytest.FixtureRequest) -> None:
    """Each file of tests that use the rack finds its nodes fresh, whatever another left behind."""
    mine = [item for item in request.session.items if item.path == request.path]
    mine = [item for item in mine if item.get_closest_marker("lab")]
    if any("rack" in getattr(item, "fixturenames", ()) for item in mine):
        rack = request.getfixturevalue("rack")
        rack.fresh()
        shutil.rmtree(site_dir(rack.name), ignore_errors=True)  # other machines, other host keys
