"""NVIDIA's real driver on a real kernel: Debian's packages of 535, by role nvidia_driver.

A lab of its own. The module is compiled in a container of the lab, against the headers of the
virtual machine's kernel (DKMS itself, compiling without emulation); the role installs the packages
on the machine and has its DKMS put the module where that kernel finds it. No GPU is here, so the
module must say so when it is loaded, and no claim about the GPUs may pass.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conftest import standing
from tests.site import Site, unmet

pytestmark = pytest.mark.vm
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
WANTED = ("nvidia-kernel-dkms", "nvidia-smi", "nvidia-persistenced")
THERE = "/srv/non-free"
BUILD = """
exec 3>&1 4>&2 >/tmp/build.log 2>&1
trap 'code=$?; [ $code = 0 ] || tail -n 40 /tmp/build.log /var/lib/dkms/*/*/build/make.log >&4' EXIT
set -e
apt-get update -q
apt-get install -q -y --no-install-recommends dkms build-essential linux-headers-cloud-amd64
dpkg-deb -x {there}/nvidia-kernel-dkms_*.deb /
cd /usr/src/nvidia-current-*
version=${{PWD##*-}} kernel=$(basename /usr/src/linux-headers-*-cloud-amd64)
dkms build -m nvidia-current -v $version -k ${{kernel#linux-headers-}}
tar -C / -cz usr/src/nvidia-current-$version var/lib/dkms/nvidia-current >&3
"""
# The machine's apt has the packages; its DKMS has what was compiled, and compiles nothing itself.
UNPACK = """
mv {there}/non-free/* {there}
echo 'deb [trusted=yes] file:{there} ./' >/etc/apt/sources.list.d/non-free.list
mkdir -p /etc/dkms
touch /etc/dkms/no-autoinstall
tar -C / -xzf /srv/dkms.tar.gz
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of what WANTED needs beyond Debian's main component."""
    folder = tmp_path_factory.mktemp("apt")
    (folder / "archives" / "partial").mkdir(parents=True)
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(
        f"deb [signed-by={KEYRING}] http://deb.debian.org/debian bookworm"
        " main contrib non-free non-free-firmware\n"
    )
    apt = [
        "apt-get", "-qq", "-o", f"Dir::State={folder}", "-o", f"Dir::State::status={folder}/status",
        "-o", f"Dir::Cache={folder}", "-o", f"Dir::Etc::sourcelist={folder}/sources.list",
        "-o", "Dir::Etc::sourceparts=-", "-o", "APT::Architecture=amd64",
        "-o", "APT::Sandbox::User=root",
    ]  # fmt: skip
    subprocess.run([*apt, "update"], check=True, timeout=300)
    listed = subprocess.run(
        [*apt, "install", "--print-uris", "--no-install-recommends", *WANTED],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    uris = [line.split()[0].strip("'") for line in listed.stdout.splitlines() if "'http" in line]
    names = [uri.rpartition("/")[2].partition("_")[0] for uri in uris if "/pool/main/" not in uri]
    assert set(WANTED) <= set(names)
    there = folder / "non-free"
    there.mkdir()
    subprocess.run([*apt, "download", *names], cwd=there, check=True, timeout=600)
    listing = subprocess.run(
        ["dpkg-scanpackages", "."], cwd=there, check=True, capture_output=True, timeout=120
    )
    (there / "Packages").write_bytes(listing.stdout)
    return there


def versions(archives: Path) -> dict[str, str]:
    """Version by package."""
    found = {}
    for file in archives.glob("*.deb"):
        name, version, _ = file.name.split("_")
        found[name] = version.replace("%3a", ":")
    return found


@pytest.fixture(scope="module")
def compiled(archives: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of DKMS's source and of what it built of it."""
    built = tmp_path_factory.mktemp("compiled") / "dkms.tar.gz"
    with standing("driverbuild", gpus=1, nas=0) as lab:
        lab.bring("gpu1", archives, THERE)
        build = lab.inside("gpu1", "sh", "-c", BUILD.format(there=THERE))
        with built.open("wb") as file:
            subprocess.run(build, stdout=file, check=True, timeout=3600)
    return built


@pytest.fixture(scope="module")
def machine(
    archives: Path, compiled: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A virtual machine whose apt has Debian's non-free component, and a site that says so."""
    with standing("driver", gpus=1, nas=0, tier="vm") as lab:
        site = Site(lab, tmp_path_factory.mktemp("driver"), timeout_s=3600)
        say(site, versions(archives))
        code, nodes = site.document("provision", "--yes", "--to", "reach")
        assert code == 0, nodes["gpu1"]["fault"]
        site.copy(archives, "gpu1", f"{THERE}/")
        site.copy(compiled, "gpu1", "/srv/dkms.tar.gz")
        lab.run("gpu1", "sh", "-e", "-c", UNPACK.format(there=THERE))
        yield site


def say(site: Site, found: dict[str, str]) -> None:
    """What the README of the role says to set for Debian's packages."""
    upstream, _, revision = found["nvidia-kernel-dkms"].partition("-")
    data = yaml.safe_load(site.inventory.read_text())
    data["all"]["vars"] |= {
        "nvidia_driver_version": upstream,
        "nvidia_driver_revision_by_os": {"debian12": revision},
        "nvidia_driver_packages": [{"name": one, "version": found[one]} for one in WANTED],
        "nvidia_driver_module_file": "nvidia-current",
    }
    site.inventory.write_text(yaml.safe_dump(data))


def test_the_role_installs_the_real_driver_for_the_running_kernel(
    machine: Site, archives: Path
) -> None:
    _, nodes = machine.document("provision", "--yes", "--to", "converge", "--only", "nvidia_driver")
    fault = nodes["gpu1"]["fault"]
    assert fault, "no GPU is here: the module cannot be loaded"
    assert "No such device" in fault["message"], fault
    version = versions(archives)["nvidia-kernel-dkms"].partition("-")[0]
    kernel = machine.rack.run("gpu1", "uname", "-r").strip()
    status = machine.rack.run("gpu1", "dkms", "status", "-m", "nvidia-current", "-k", kernel)
    assert status.strip() == f"nvidia-current/{version}, {kernel}, x86_64: installed"
    vermagic = machine.rack.run("gpu1", "modinfo", "-F", "vermagic", "nvidia-current")
    assert vermagic.startswith(f"{kernel} ")


def test_the_kernel_takes_the_module_and_the_module_finds_no_gpu(machine: Site) -> None:
    said = machine.rack.execute("gpu1", ["modprobe", "nvidia-current"])
    assert "No such device" in said.stderr
    log = machine.rack.run("gpu1", "timeout", "3", "cat", "/dev/kmsg", check=False)
    assert "NVRM: No NVIDIA GPU found" in log


def test_what_cannot_be_read_of_the_gpus_never_passes(machine: Site) -> None:
    _, nodes = machine.document("drift")
    verdicts = {v["claim"]: v["verdict"] for v in nodes["gpu1"]["verdicts"]}
    assert {verdicts[f"nvidia_driver/package:{one}"] for one in WANTED} == {"pass"}
    gpus = {c: v for c, v in verdicts.items() if c.startswith("nvidia_driver/gpu:")}
    assert gpus
    assert set(gpus.values()) <= {"unknown", "not_applicable"}, gpus
    assert "nvidia_driver/module:nvidia" in unmet(nodes["gpu1"])
