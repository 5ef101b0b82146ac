"""The package set as a whole: each rule seen green on a good set, and red when broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nodeprep.judge.packages import conflicts
from nodeprep.model.hardware import Hardware
from nodeprep.model.profile import Platform, Profile
from nodeprep.model.reading import Host
from tests.unit.judge.nodes import NVSWITCH_PROFILE, PROFILE, document, reading

KERNEL = "5.15.0-119-generic"
DRIVER = {"nvidia-driver-535-server": "535.183.01-0ubuntu0.22.04.1"}
FABRIC = {"nvidia-fabricmanager-535": "535.183.01-1"}
GOOD: dict[str, str | None] = {
    **DRIVER,
    "nvidia-dkms-535-server": "535.183.01-0ubuntu0.22.04.1",
    "libnvidia-compute-535-server": "535.183.01-0ubuntu0.22.04.1",
    "cuda-toolkit-12-1": "12.1.1-1",
    "libnccl2": "2.16.5-1+cuda12.0",
    "libnccl-dev": "2.16.5-1+cuda12.0",
    "gdrdrv-dkms": "2.4.1-1",
    "libgdrapi": "2.4.1-1",
    "linux-headers-generic": None,
}


def claims(
    packages: Mapping[str, str | None], absent: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    there = [{"kind": "package", "role": "r", "name": n, "version": v} for n, v in packages.items()]
    gone = [{"kind": "package", "role": "r", "name": n, "state": "absent"} for n in absent]
    return [*there, *gone]


def found(
    packages: Mapping[str, str | None],
    *,
    installed: dict[str, str] | None = None,
    absent: tuple[str, ...] = (),
    profile: Profile = PROFILE,
    kernel: str = KERNEL,
    nvswitches: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    read = reading(
        packages=installed or {},
        host=Host(kernel=kernel),
        hardware=None if nvswitches is None else Hardware(nvswitches=nvswitches),
    )
    return conflicts(document(claims(packages, absent), profile=profile), read)


def test_a_good_set_has_no_conflict() -> None:
    assert found(GOOD) == ()
    assert found({**GOOD, **FABRIC}, profile=NVSWITCH_PROFILE) == ()
    assert found({}) == ()


def test_a_good_set_that_is_installed_has_none_either() -> None:
    installed = {name: version or "1" for name, version in GOOD.items()}
    assert found(GOOD, installed={**installed, f"linux-headers-{KERNEL}": "1"}) == ()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"libnccl-dev": "2.16.2-1+cuda12.0"}, "differ: pin both at one version"),
        (
            {"libnccl2": "2.16.5-1+cuda12.1", "libnccl-dev": "2.16.5-1+cuda12.1"},
            "was never built",
        ),
        (
            {"libnccl2": "2.20.5-1+cuda12.4", "libnccl-dev": "2.20.5-1+cuda12.4"},
            "is built for CUDA 12.4, cuda-toolkit-12-1 is 12.1",
        ),
        (
            {"libnccl2": "2.16.5-1+cuda11.8", "libnccl-dev": "2.16.5-1+cuda11.8"},
            "is built for CUDA 11.8",
        ),
        ({"cuda": None}, "cuda is a meta-package that pulls a driver"),
        ({"cuda-12-1": "12.1.1-1"}, "cuda-12-1 is a meta-package"),
        ({"cuda-drivers": None}, "cuda-drivers is a meta-package"),
        (FABRIC, "belongs only where an NVSwitch is on the bus"),
        ({"gdrdrv-dkms": "2.3.1-1", "libgdrapi": "2.3.1-1"}, "is too old: take 2.4 or newer"),
        ({"libgdrapi": "2.5.1-1"}, "GDRCopy are at different versions"),
        ({"libnvidia-compute-535-server": "535.161.08-1"}, "claimed at different versions"),
        ({"nvidia-driver-550-server": "550.54.15-1"}, "claim one branch and one flavour"),
        ({"nvidia-dkms-535-server-open": None}, "claim one branch and one flavour"),
    ],
)
def test_a_broken_set(change: dict[str, str | None], sentence: str) -> None:
    assert any(sentence in conflict for conflict in found({**GOOD, **change})), found(
        {**GOOD, **change}
    )


def test_a_driver_too_old_for_the_toolkit() -> None:
    old = {"nvidia-driver-470-server": "470.256.02-1", "cuda-toolkit-12-1": "12.1.1-1"}
    assert "needs a driver of 525.60.13 or newer" in found(old)[0]
    assert found({**old, "cuda-toolkit-12-1": None}, absent=()) != ()
    fine = {"nvidia-driver-525-server": "525.60.13-1", "cuda-toolkit-12-1": "12.1.1-1"}
    assert found(fine) == ()


def test_debians_own_toolkit_and_driver() -> None:
    claimed = {"nvidia-driver": "535.261.03-1", "nvidia-cuda-toolkit": "11.8.89~11.8.0-5~deb12u1"}
    assert found(claimed) == ()
    assert (
        "is built for CUDA 12.0, nvidia-cuda-toolkit is 11.8"
        in found({**claimed, "libnccl2": "2.16.5-1+cuda12.0"})[0]
    )


class TestFabricManager:
    def test_is_required_with_an_nvswitch(self) -> None:
        (conflict,) = found(DRIVER, profile=NVSWITCH_PROFILE)
        assert "CUDA fails with error 802" in conflict

    def test_must_have_the_drivers_own_version(self) -> None:
        other = {**DRIVER, "nvidia-fabricmanager-535": "535.161.08-1"}
        (conflict,) = found(other, profile=NVSWITCH_PROFILE)
        assert "pin nvidia-fabricmanager-535 at 535.183.01" in conflict

    def test_must_be_pinned(self) -> None:
        loose = {**DRIVER, "nvidia-fabricmanager-535": None}
        (conflict,) = found(loose, profile=NVSWITCH_PROFILE)
        assert "has no version pinned" in conflict

    def test_the_bus_counts_more_than_the_profile(self) -> None:
        assert found({**DRIVER, **FABRIC}, profile=NVSWITCH_PROFILE, nvswitches=()) != ()
        assert found({**DRIVER, **FABRIC}, nvswitches=("0000:c4:00.0",)) == ()

    def test_one_that_is_installed_where_no_switch_is(self) -> None:
        (conflict,) = found(DRIVER, installed={"nvidia-fabricmanager-535": "535.183.01-1"})
        assert "purge it" in conflict
        gone = ("nvidia-fabricmanager-535",)
        installed = {"nvidia-fabricmanager-535": "535.183.01-1"}
        assert found(DRIVER, installed=installed, absent=gone) == ()


class TestWhatIsInstalled:
    def test_another_branch(self) -> None:
        (conflict,) = found(DRIVER, installed={"nvidia-driver-550": "550.54.15-0ubuntu1"})
        assert (
            "nvidia-driver-550 550.54.15-0ubuntu1 (branch 550 proprietary) is installed" in conflict
        )
        assert "purge" in conflict

    def test_another_branch_that_is_claimed_absent(self) -> None:
        installed = {"nvidia-driver-550": "550.54.15-0ubuntu1"}
        assert found(DRIVER, installed=installed, absent=("nvidia-driver-550",)) == ()

    def test_the_desktop_flavour_of_the_same_number(self) -> None:
        assert found(DRIVER, installed={"nvidia-driver-535": "535.183.01-1"}) != ()

    def test_the_meta_package(self) -> None:
        assert "purge it" in found(DRIVER, installed={"cuda": "12.4.0-1"})[0]


class TestKernelHeaders:
    DKMS = {"gdrdrv-dkms": "2.4.1-1"}

    def test_must_be_there_or_come(self) -> None:
        (conflict,) = found({**DRIVER, **self.DKMS})
        assert "claim linux-headers-generic" in conflict

    @pytest.mark.parametrize(
        ("kernel", "meta", "fine"),
        [
            (KERNEL, "linux-headers-generic", True),
            (KERNEL, "linux-headers-generic-hwe-22.04", True),
            (KERNEL, "linux-headers-amd64", False),
            ("6.1.0-28-amd64", "linux-headers-amd64", True),
            ("6.1.0-28-cloud-amd64", "linux-headers-amd64", False),
            ("6.1.0-28-cloud-amd64", "linux-headers-cloud-amd64", True),
            ("6.18.44", "linux-headers-amd64", False),
        ],
    )
    def test_the_flavour_of_the_running_kernel_counts(
        self, kernel: str, meta: str, fine: bool
    ) -> None:
        assert (found({**self.DKMS, meta: None}, kernel=kernel) == ()) is fine

    def test_of_the_running_kernel(self) -> None:
        there = {"linux-headers-5.15.0-130-generic": "1", "linux-headers-generic": "1"}
        assert found({**self.DKMS, "linux-headers-generic": None}, installed=there) != ()
        assert found(self.DKMS, installed={f"linux-headers-{KERNEL}": "1"}) == ()

    def test_where_the_kernel_was_not_read(self) -> None:
        assert "running kernel was not read" in found(self.DKMS, kernel="")[0]

    def test_not_where_no_module_can_be_loaded(self) -> None:
        lab = PROFILE.model_copy(update={"platform": Platform(kernel_modules=False, why="a lab")})
        assert found(self.DKMS, profile=lab) == ()


def test_gdrdrv_needs_the_drivers_source() -> None:
    prebuilt = {"linux-modules-nvidia-535-server-generic": None, "gdrdrv-dkms": "2.4.1-1"}
    assert any("brings none" in text for text in found(prebuilt))


def test_gdrdrv_needs_one_flavour() -> None:
    installed = {"nvidia-kernel-source-535-server-open": "535.183.01-1"}
    assert any("open or proprietary" in text for text in found(GOOD, installed=installed))


def test_what_does_not_apply_is_not_planned() -> None:
    claim = {"kind": "package", "role": "r", "name": "nvidia-fabricmanager-535",
             "applies": False, "why": "no NVSwitch"}  # fmt: skip
    assert conflicts(document([*claims(DRIVER), claim]), reading()) == ()
