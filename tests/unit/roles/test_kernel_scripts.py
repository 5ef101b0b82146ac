"""The shell that roles kernel and nvidia_driver run on a node, over a tree and stand-ins."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

ROOT = Path(__file__).parents[3]
BUS = {
    "0000:00:00.0": "0x060000",
    "0000:16:02.0": "0x060400",
    "0000:30:02.0": "0x060400",
    "0000:49:00.0": "0x060400",
    "0000:17:00.0": "0x030200",
}
# A bridge is a file that holds its bits; one that cannot be written keeps them.
SETPCI = """\
[ -e "{bits}/$2" ] || { echo "setpci: $2: Capability not found" >&2; exit 1; }
case $3 in
ECAP_ACS+6.w) cat "{bits}/$2" ;;
ECAP_ACS+6.w=*) ! [ -w "{bits}/$2" ] || [ -e "{bits}/$2.stuck" ] || echo "${3#*=}" > "{bits}/$2" ;;
*) exit 2 ;;
esac
"""


class Machine:
    """Tools on a PATH, and a folder in place of /."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.root.mkdir()
        self.path = f"{self.bin}:{os.environ['PATH']}"

    def tool(self, name: str, shell: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{shell}\n")
        path.chmod(0o755)

    def write(self, path: str, text: str | bytes = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
        return place

    def run(self, script: str, *args: str) -> subprocess.CompletedProcess[str]:
        """`script` with the places that it looks at moved into the folder."""
        for place in ("/sys/", "/boot", "/lib/modules", "/var/lib/"):
            script = script.replace(place, f"{self.root}{place}")
        environment = {**os.environ, "PATH": self.path}
        return subprocess.run(
            ["/bin/sh", "-c", script, "sh", *args],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip

    def out(self, script: str, *args: str) -> str:
        return self.run(script, *args).stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def role(name: str) -> dict[str, Any]:
    path = ROOT / "roles" / name / "vars" / "main.yml"
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def script(name: str) -> str:
    """A variable of a role, with the others that it names filled in."""
    values = role("nvidia_driver" if name.startswith("nvidia_driver") else "kernel")
    return str(jinja2.Template(values[name]).render(values))


def passes(role_name: str, claim: str, printed: str) -> bool:
    """Whether the output claim of that name takes what was printed."""
    claims = role(role_name)[f"{role_name}_claims"]
    expect = str(next(c["expect"] for c in claims if c.get("name") == claim))
    wanted = jinja2.Template(expect).render(nvidia_driver_version="535.183.01")
    return re.search(wanted, printed, re.MULTILINE) is not None


class TestAcs:
    @pytest.fixture
    def acs(self, machine: Machine) -> Machine:
        for address, kind in BUS.items():
            machine.write(f"/sys/bus/pci/devices/{address}/class", kind + "\n")
        machine.tool("setpci", SETPCI.replace("{bits}", str(machine.root)))
        machine.write("0000:16:02.0", "001d\n")
        machine.write("0000:30:02.0", "0000\n")
        return machine

    def run(self, machine: Machine, what: str) -> tuple[int, str]:
        text = (ROOT / "roles/kernel/templates/usr/local/sbin/nodeprep-acs.j2").read_text("utf-8")
        done = machine.run(text, what)
        return done.returncode, done.stdout.strip()

    def test_check_names_the_bridge_and_changes_nothing(self, acs: Machine) -> None:
        for _ in range(2):
            assert self.run(acs, "check") == (1, "ACS is on: 0000:16:02.0 (001d)")
        assert not passes("kernel", "PCIe ACS", self.run(acs, "check")[1])

    def test_off_clears_it_and_reads_back(self, acs: Machine) -> None:
        assert self.run(acs, "off") == (0, "ACS is off on all 2 bridges that have it")
        assert (acs.root / "0000:16:02.0").read_text() == "0000\n"
        assert passes("kernel", "PCIe ACS", self.run(acs, "check")[1])

    def test_a_bridge_that_keeps_it_fails(self, acs: Machine) -> None:
        acs.write("0000:16:02.0.stuck")
        assert self.run(acs, "off") == (1, "ACS is on: 0000:16:02.0 (001d)")

    def test_bridges_without_it_are_let_be(self, acs: Machine) -> None:
        for name in ("0000:16:02.0", "0000:30:02.0"):
            (acs.root / name).unlink()
        assert self.run(acs, "check") == (0, "ACS is off on all 0 bridges that have it")

    def test_no_setpci_is_no_answer(self, acs: Machine) -> None:
        (acs.bin / "setpci").unlink()
        (acs.bin / "cat").symlink_to("/bin/cat")
        acs.path = str(acs.bin)
        assert self.run(acs, "check") == (2, "")


class TestNextKernel:
    @pytest.fixture
    def two(self, machine: Machine) -> Machine:
        machine.tool("uname", "echo 6.1.0-9-amd64")
        for kernel in ("6.1.0-9-amd64", "6.1.0-30-amd64"):
            machine.write(f"/boot/vmlinuz-{kernel}")
        machine.write("/lib/modules/6.1.0-9-amd64/updates/dkms/nvidia.ko")
        machine.write("/lib/modules/6.1.0-9-amd64/updates/dkms/ixgbe.ko.xz")
        machine.write("/lib/modules/6.1.0-9-amd64/kernel/fs/xfs.ko")
        modules = machine.root / "lib/modules"
        machine.tool("modinfo", f'find {modules}/$2 -name "$5.ko*" | grep -q .')
        return machine

    def test_what_would_be_lost_is_named(self, two: Machine) -> None:
        two.write("/lib/modules/6.1.0-30-amd64/kernel/drivers/ixgbe.ko")
        found = two.out(script("kernel_next_probe")).splitlines()
        assert found == ["6.1.0-30-amd64", "nvidia"]

    def test_nothing_is_lost(self, two: Machine) -> None:
        for name in ("nvidia.ko.zst", "ixgbe.ko"):
            two.write(f"/lib/modules/6.1.0-30-amd64/updates/dkms/{name}")
        assert two.out(script("kernel_next_probe")) == "6.1.0-30-amd64"

    def test_without_another_kernel_the_running_one_comes_back(self, two: Machine) -> None:
        for image in (two.root / "boot").iterdir():
            image.unlink()
        assert two.out(script("kernel_next_probe")) == "6.1.0-9-amd64"


class TestHeld:
    LISTED = (
        "hold installed linux-image-6.1\\n{} installed linux-headers-6.1\\ninstall not-installed x"
    )

    def ask(self, machine: Machine, want: str) -> str:
        machine.tool("dpkg-query", f"printf '{self.LISTED}\\n'".format(want))
        return machine.out(script("kernel_held_probe"), "linux-image-*")

    def test_all(self, machine: Machine) -> None:
        assert self.ask(machine, "hold") == "all held"

    def test_one_is_not(self, machine: Machine) -> None:
        assert self.ask(machine, "install") == "not held: linux-headers-6.1"

    def test_what_is_not_held_is_held(self, machine: Machine) -> None:
        self.ask(machine, "install")
        machine.tool("apt-mark", 'echo "$@"')
        assert machine.out(script("kernel_hold"), "linux-*") == "hold linux-headers-6.1"


class TestSecureBoot:
    EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

    def ask(self, machine: Machine) -> str:
        return machine.out(script("nvidia_driver_secure_boot"))

    def lets_in(self, machine: Machine) -> bool:
        return passes("nvidia_driver", "secure boot lets the module in", self.ask(machine))

    def test_a_bios_has_none(self, machine: Machine) -> None:
        assert self.lets_in(machine)

    def test_off(self, machine: Machine) -> None:
        machine.write(self.EFI, b"\x06\0\0\0\0")
        assert self.ask(machine) == "secure boot is off"
        assert self.lets_in(machine)

    def test_on_and_the_key_is_not_known(self, machine: Machine) -> None:
        machine.write(self.EFI, b"\x06\0\0\0\1")
        machine.write("/var/lib/dkms/mok.pub")
        machine.tool("mokutil", 'echo "$2 is not enrolled"')
        assert "mokutil --import" in self.ask(machine)
        assert "turn it off" in self.ask(machine)
        assert not self.lets_in(machine)

    def test_on_and_the_key_is_known(self, machine: Machine) -> None:
        machine.write(self.EFI, b"\x06\0\0\0\1")
        machine.write("/var/lib/dkms/mok.pub")
        machine.tool("mokutil", 'echo "$2 is already enrolled"')
        assert self.lets_in(machine)

    @pytest.mark.parametrize("content", [b"\x06\0\0\0", b"\x06\0\0\0\7", None])
    def test_what_cannot_be_read_says_nothing(
        self, machine: Machine, content: bytes | None
    ) -> None:
        """An output claim whose command prints nothing is unknown."""
        (machine.root / "sys/firmware/efi").mkdir(parents=True)
        if content is not None:
            machine.write(self.EFI, content)
        assert self.ask(machine) == ""


class TestInKernel:
    def ask(self, machine: Machine) -> str:
        return machine.out(script("nvidia_driver_in_kernel"))

    def fits(self, machine: Machine) -> bool:
        claim = "no other driver in the running kernel"
        return passes("nvidia_driver", claim, self.ask(machine))

    def test_nothing_is_loaded(self, machine: Machine) -> None:
        assert self.fits(machine)

    def test_the_right_version(self, machine: Machine) -> None:
        machine.write("/sys/module/nvidia/version", "535.183.01\n")
        assert self.fits(machine)

    def test_another_version(self, machine: Machine) -> None:
        machine.write("/sys/module/nvidia/version", "535.161.08\n")
        assert self.ask(machine) == "nvidia 535.161.08"
        assert not self.fits(machine)

    def test_nouveau(self, machine: Machine) -> None:
        machine.write("/sys/module/nouveau/refcnt")
        assert self.ask(machine) == "nouveau"
        assert not self.fits(machine)
