"""The stand-in packages: names, versions, dependencies, what they ship and what they run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nodeprep.lab.sim import deb, main, packages, source

DEBS = packages.all_debs(b"key")
BY_NAME = {(package.name, package.version): package for package in DEBS}
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing")


def _field(path: Path, *names: str) -> dict[str, str]:
    shown = subprocess.run(["dpkg-deb", "-f", path, *names], capture_output=True, text=True,
                           check=True).stdout  # fmt: skip
    return dict(line.split(": ", 1) for line in shown.splitlines() if not line.startswith(" "))


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("cuda-keyring", "1.1-1"),
        ("nvidia-headless-535-server", "535.183.01-0ubuntu0.22.04.1"),
        ("nvidia-utils-535-server", "535.183.01-0ubuntu0.22.04.1"),
        ("nvidia-dkms-535-server", "535.183.01-0ubuntu0.22.04.1"),
        ("nvidia-kernel-source-535-server", "535.183.01-0ubuntu0.22.04.1"),
        ("nvidia-compute-utils-535-server", "535.183.01-0ubuntu0.22.04.1"),
        ("libnvidia-compute-535-server", "535.183.01-0ubuntu0.22.04.1"),
        ("nvidia-utils-535-server", "535.161.08-0ubuntu2.22.04.1"),
        ("nvidia-utils-535-server", "535.216.01-0ubuntu0.22.04.1"),
        ("nvidia-utils-550-server", "550.90.07-0ubuntu0.22.04.1"),
        ("nvidia-fabricmanager-535", "535.183.01-1"),
        ("cuda-toolkit-12-1", "12.1.1-1"),
        ("cuda-nvcc-12-1", "12.1.105-1"),
        ("cuda", "12.1.1-1"),
        ("libnccl2", "2.16.5-1+cuda12.0"),
        ("libnccl-dev", "2.16.5-1+cuda12.0"),
        ("libnccl2", "2.21.5-1+cuda12.4"),
        ("gdrdrv-dkms", "2.4-1"),
        ("gdrcopy", "2.4-1"),
        ("nccl-tests", "2.13.6-1"),
        ("nvbandwidth", "0.8-1"),
        ("datacenter-gpu-manager", "1:3.3.5"),
    ],
)
def test_what_roles_ask_for_is_there(name: str, version: str) -> None:
    assert (name, version) in BY_NAME


def test_no_package_is_there_twice() -> None:
    names = [package.filename for package in DEBS]
    assert len(set(names)) == len(names) == len(BY_NAME)


def test_every_dependency_can_be_met() -> None:
    names = {package.name for package in DEBS} | {"libc6"}
    for package in DEBS:
        for wanted in filter(None, package.depends.split(", ")):
            assert wanted.split(" (")[0] in names, f"{package.name} depends on {wanted}"


def test_every_tool_that_a_package_brings_is_simulated() -> None:
    known = {*main.PACKAGED, *main.DAEMONS}
    tools = {tool.rpartition("/")[2] for package in DEBS for tool in package.tools}
    assert tools == known


def test_the_cuda_metapackage_would_pull_another_driver() -> None:
    by_name = {package.name: package for package in DEBS}
    wanted, seen = ["cuda"], set()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        depends = by_name[name].depends if name in by_name else ""
        wanted += [word.split(" (")[0] for word in depends.split(", ") if word]
    assert "nvidia-driver-530" in seen


def test_branches_exclude_each_other() -> None:
    utils = [package for package in DEBS if package.name.startswith("nvidia-utils-")]
    assert {package.exclusive for package in utils} == {"nvidia-utils"}
    assert len({package.name for package in utils}) == 3


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debs")
    key = folder / "key.gpg"
    key.write_bytes(b"\x98public")
    packages.build(folder / "out", public_key=key)
    return folder / "out"


@needs_dpkg
def test_the_fields_are_what_the_catalogue_says(built: Path) -> None:
    for package in DEBS[::5]:
        fields = _field(built / package.filename, "Package", "Version", "Architecture", "Depends")
        assert fields["Package"] == package.name
        assert fields["Version"] == package.version
        assert fields.get("Depends", "") == package.depends


@needs_dpkg
def test_the_keyring_carries_the_key_and_the_upstream(built: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-x", built / "cuda-keyring_1.1-1_all.deb", tmp_path], check=True)
    key = tmp_path / "usr/share/keyrings/cuda-archive-keyring.gpg"
    assert key.read_bytes() == b"\x98public"
    source = tmp_path / "etc/apt/sources.list.d/cuda-ubuntu2204-x86_64.list"
    assert source.read_text() == (
        "deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] "
        "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/ /\n"
    )


@needs_dpkg
def test_tools_are_links_into_the_simulator(built: Path, tmp_path: Path) -> None:
    name = "nvidia-utils-535-server_535.183.01-0ubuntu0.22.04.1_amd64.deb"
    subprocess.run(["dpkg-deb", "-x", built / name, tmp_path], check=True)
    assert (tmp_path / "usr/bin/nvidia-smi").readlink() == Path("/usr/lib/nodeprep-sim/run")


@needs_dpkg
def test_scripts_are_shell_that_parses(built: Path, tmp_path: Path) -> None:
    seen = set()
    for package in {package.name: package for package in DEBS}.values():
        if not package.tools and not package.part and not package.postinst:
            continue
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        subprocess.run(["dpkg-deb", "-e", built / package.filename, tmp_path / "c"], check=True)
        for script in (tmp_path / "c").glob("p*"):
            seen.add(script.name)
            subprocess.run(["sh", "-n", script], check=True)
            assert script.stat().st_mode & 0o777 == 0o755
    assert seen == {"postinst", "prerm", "postrm"}


@needs_dpkg
def test_the_same_input_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    package = BY_NAME["nvidia-compute-utils-535-server", "535.183.01-0ubuntu0.22.04.1"]
    again = deb.build(package, tmp_path / "scratch", tmp_path)
    assert again.read_bytes() == (built / package.filename).read_bytes()


@needs_dpkg
def test_source_date_epoch_is_honoured(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = BY_NAME["gdrcopy", "2.4-1"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    other = deb.build(package, tmp_path / "scratch", tmp_path)
    assert other.read_bytes() != (built / package.filename).read_bytes()


def test_gdrdrv_needs_the_drivers_source() -> None:
    script = BY_NAME["gdrdrv-dkms", "2.4-1"].postinst_first
    assert "exit 10" in script
    assert "/usr/src/nvidia-" in script


KERNEL_PACKAGES = [package for package in DEBS if package.dkms[0]]


@pytest.mark.parametrize("package", KERNEL_PACKAGES, ids=lambda package: package.filename)
def test_a_dkms_package_finds_its_source(package: deb.Deb) -> None:
    """In its own files, or in those of a package that it depends on."""
    name, version = package.dkms
    wanted = [other for other in DEBS if f"{other.name} (= {other.version})" in package.depends]
    sources = {path: text for other in [package, *wanted] for path, text in other.files.items()}
    conf = sources[f"/usr/src/{name}-{version}/dkms.conf"]
    assert f'PACKAGE_NAME="{name}"\n' in conf
    assert f'PACKAGE_VERSION="{version}"\n' in conf
    module = conf.partition('BUILT_MODULE_NAME[0]="')[2].partition('"')[0]
    assert f'MODULE_VERSION("{version}")' in sources[f"/usr/src/{name}-{version}/{module}.c"]


def test_dkms_packages_bring_no_compiler() -> None:
    assert {package.name for package in KERNEL_PACKAGES} >= {
        "gdrdrv-dkms",
        "nvidia-dkms-535-server",
    }
    for package in KERNEL_PACKAGES:
        assert not {"dkms", "gcc", "make"} & set(package.depends.split(", "))


def test_the_source_archive_is_one_that_configures_makes_and_installs(tmp_path: Path) -> None:
    archive = source.write(tmp_path)
    first = archive.read_bytes()
    assert source.write(tmp_path).read_bytes() == first
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    folder = tmp_path / source.NAME
    refused = subprocess.run(["./configure", "--nonsense"], cwd=folder, check=False)
    assert refused.returncode == 1
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip("no compiler on this machine")
    for command in ("./configure --prefix=/opt/x --program=tool --says=hello", "make install"):
        subprocess.run(
            command.split(), cwd=folder, check=True, env={**os.environ, "DESTDIR": str(tmp_path)}
        )
    assert subprocess.check_output([tmp_path / "opt/x/bin/tool"]) == b"hello\n"
