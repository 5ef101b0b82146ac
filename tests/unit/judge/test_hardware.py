"""What was rented against what stands there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.judge.hardware import compare, swapped
from nodeprep.model.hardware import Cpu, Dimm, Hardware, Nic
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.judge.nodes import PROFILE, SLOTS, driven, gpu, hardware


def one(name: str, *, driver: bool = False, **other: Any) -> Verdict:
    found = compare(PROFILE, hardware(**other), driver=driver)
    return next(verdict for verdict in found if verdict.claim == f"hardware/{name}")


def outcomes(found: tuple[Verdict, ...]) -> set[Outcome]:
    return {verdict.verdict for verdict in found}


def test_what_was_rented_passes_before_the_driver() -> None:
    found = compare(PROFILE, hardware())
    assert outcomes(found) == {Outcome.PASS}, [v for v in found if v.verdict.blocks]
    assert [verdict.claim.removeprefix("hardware/") for verdict in found] == [
        "cpu:sockets", "cpu:cores", "cpu:model", "memory:dimms", "memory:total", "disk:os",
        "disk:cache", "nic:ens5f0", "gpu:count", "nvswitch:count",
    ]  # fmt: skip


def test_and_after_it() -> None:
    found = compare(PROFILE, hardware(gpus=tuple(map(driven, SLOTS))), driver=True)
    assert outcomes(found) == {Outcome.PASS}, [v for v in found if v.verdict.blocks]
    assert {"hardware/gpu:driver", "hardware/gpu:model"} <= {verdict.claim for verdict in found}


def test_nothing_read_is_all_unknown() -> None:
    for nothing in (None, Hardware()):
        for driver in (False, True):
            found = compare(PROFILE, nothing, driver=driver)
            assert outcomes(found) == {Outcome.UNKNOWN}


def test_why_it_was_not_read_is_said() -> None:
    errors = {"dimms": "dmidecode: not found"}
    assert "dmidecode: not found" in one("memory:dimms", dimms=None, errors=errors).reason


def test_no_parts_no_lines() -> None:
    assert compare(Profile(name="server"), None) == ()


def test_a_missing_gpu_is_named_by_its_slot() -> None:
    found = one("gpu:count", gpus=tuple(gpu(slot) for slot in SLOTS[:3]))
    assert found.verdict is Outcome.FAIL
    assert found.reason == "3 of 4 GPUs on the bus; missing: slot 0000:ca:00.0"


def test_a_gpu_that_fell_off_the_bus_is_named() -> None:
    gone = {f"gpu {SLOTS[3]}": "it fell off the bus"}
    found = one("gpu:count", gpus=tuple(gpu(slot) for slot in SLOTS[:3]), errors=gone)
    assert found.reason == "3 of 4 GPUs on the bus; fell off the bus: 0000:ca:00.0"


def test_a_gpu_of_another_kind_is_named() -> None:
    cards = (*(gpu(slot) for slot in SLOTS[:3]), gpu(SLOTS[3], pci_id="10de:20f1"))
    found = one("gpu:count", gpus=cards)
    assert found.verdict is Outcome.FAIL
    assert "10de:20f1 at 0000:ca:00.0" in found.reason


def test_one_gpu_too_many_is_another_machine() -> None:
    cards = (*map(gpu, SLOTS), gpu("0000:e3:00.0"))
    assert one("gpu:count", gpus=cards).verdict is Outcome.FAIL


def test_an_nvswitch_that_was_not_rented() -> None:
    assert one("nvswitch:count", nvswitches=("0000:c4:00.0",)).verdict is Outcome.FAIL
    assert one("nvswitch:count", nvswitches=None).verdict is Outcome.UNKNOWN


def test_an_empty_memory_slot_is_named() -> None:
    dimms = (hardware().dimms or ())[1:]
    lost = (Dimm(slot="P1-DIMMA1", size_mib=0), *dimms)
    found = one("memory:dimms", dimms=lost)
    assert found.verdict is Outcome.FAIL
    assert found.reason == "15 of 16 memory modules; empty: P1-DIMMA1"
    assert one("memory:total", dimms=lost).reason == "480 GiB, rented: 512 GiB"


def test_a_module_that_does_not_say_its_size() -> None:
    dimms = (Dimm(slot="P1-DIMMA1"), *(hardware().dimms or ())[1:])
    assert one("memory:total", dimms=dimms).verdict is Outcome.UNKNOWN


def test_memory_that_the_kernel_does_not_see() -> None:
    assert one("memory:total", memory_kib=400_000_000).verdict is Outcome.FAIL
    assert one("memory:total", memory_kib=24_000_000, simulated=("dimms",)).verdict is Outcome.PASS


def test_memory_without_modules_is_the_kernels_count() -> None:
    profile = Profile.model_validate(
        {"name": "s", "parts": {"memory": {"dimms": 0, "total_gib": 64}}}
    )
    (enough,) = compare(profile, Hardware(memory_kib=65_000_000))
    (less,) = compare(profile, Hardware(memory_kib=33_000_000))
    assert (enough.verdict, less.verdict) == (Outcome.PASS, Outcome.FAIL)


def test_what_the_kernel_keeps_for_itself_is_not_missed_on_a_small_machine() -> None:
    profile = Profile.model_validate(
        {"name": "s", "parts": {"memory": {"dimms": 0, "total_gib": 1}}}
    )
    (enough,) = compare(profile, Hardware(memory_kib=972 * 1024))
    (less,) = compare(profile, Hardware(memory_kib=800 * 1024))
    assert (enough.verdict, less.verdict) == (Outcome.PASS, Outcome.FAIL)


@pytest.mark.parametrize(
    ("cpu", "name", "outcome"),
    [
        (Cpu(model="Gold 6338N", sockets=2, cores_per_socket=32), "cpu:model", Outcome.FAIL),
        (Cpu(model=None, sockets=2, cores_per_socket=32), "cpu:model", Outcome.UNKNOWN),
        (Cpu(model="Gold 6338", sockets=1, cores_per_socket=32), "cpu:sockets", Outcome.FAIL),
        (Cpu(model="Gold 6338", sockets=2, cores_per_socket=24), "cpu:cores", Outcome.FAIL),
        (Cpu(model="Gold 6338", sockets=2), "cpu:cores", Outcome.UNKNOWN),
    ],
)
def test_another_cpu(cpu: Cpu, name: str, outcome: Outcome) -> None:
    assert one(name, cpu=cpu).verdict is outcome


@pytest.mark.parametrize(
    ("online", "outcome"),
    [(128, Outcome.PASS), (64, Outcome.PASS), (None, Outcome.PASS), (127, Outcome.FAIL),
     (126, Outcome.FAIL), (4, Outcome.FAIL)],
)  # fmt: skip
def test_every_core_runs(online: int | None, outcome: Outcome) -> None:
    cpu = Cpu(model="Gold 6338", sockets=2, cores_per_socket=32, online=online)
    found = one("cpu:cores", cpu=cpu)
    assert found.verdict is outcome
    assert ("Off-line" in found.action) is (outcome is Outcome.FAIL)


@pytest.mark.parametrize(
    ("nic", "outcome", "reason"),
    [
        ({"speed_mbps": 1000}, Outcome.FAIL, "runs at 1000 Mb/s, rented: 10000 Mb/s"),
        ({"speed_mbps": 25000}, Outcome.PASS, ""),
        ({"link": False, "speed_mbps": None}, Outcome.FAIL, "it has no link"),
        ({"speed_mbps": None}, Outcome.UNKNOWN, "could not be read"),
        ({"driver": "i40e"}, Outcome.FAIL, "its driver is i40e, not ixgbe"),
        ({"driver": None}, Outcome.UNKNOWN, "could not be read"),
        ({"duplex": "half"}, Outcome.FAIL, "half duplex"),
        ({"name": "eno1"}, Outcome.FAIL, "no NIC ens5f0; there: eno1"),
    ],
)
def test_another_nic(nic: dict[str, Any], outcome: Outcome, reason: str) -> None:
    good = {"name": "ens5f0", "driver": "ixgbe", "speed_mbps": 10000, "link": True}
    found = one("nic:ens5f0", nics=(Nic.model_validate({**good, **nic}),))
    assert found.verdict is outcome
    assert reason in found.reason


def test_a_gpu_that_the_driver_does_not_see() -> None:
    cards = (*map(driven, SLOTS[:3]), gpu(SLOTS[3]))
    found = one("gpu:driver", gpus=cards, driver=True)
    assert found.verdict is Outcome.FAIL
    assert "0000:ca:00.0" in found.reason
    assert one("gpu:model", gpus=cards, driver=True).verdict is Outcome.UNKNOWN


def test_a_driver_that_does_not_answer_is_unknown() -> None:
    found = one("gpu:driver", driver=True, errors={"gpu_driver": "nvidia-smi: exit status 9"})
    assert found.verdict is Outcome.UNKNOWN
    assert "exit status 9" in found.reason


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("gpu:model", {"model": "NVIDIA A100-PCIE-40GB"}),
        ("gpu:memory", {"memory_mib": 81920}),
        ("gpu:pcie", {"pcie_gen_max": 3}),
        ("gpu:pcie", {"pcie_width": 8}),
        ("gpu:pcie", {"pcie_width_max": 8}),
    ],
)
def test_what_the_driver_tells_differs(name: str, other: dict[str, Any]) -> None:
    cards = (*map(driven, SLOTS[:3]), driven(SLOTS[3], **other))
    found = one(name, gpus=cards, driver=True)
    assert found.verdict is Outcome.FAIL
    assert "0000:ca:00.0" in found.reason


@pytest.mark.parametrize("field", ["pcie_gen_max", "pcie_width_max", "pcie_width"])
def test_a_link_of_which_one_figure_is_lacking_is_unknown(field: str) -> None:
    cards = (*map(driven, SLOTS[:3]), driven(SLOTS[3], **{field: None}))
    found = one("gpu:pcie", gpus=cards, driver=True)
    assert found.verdict is Outcome.UNKNOWN
    assert "0000:ca:00.0" in found.reason


def test_a_stand_in_is_labelled_by_part() -> None:
    assert one("gpu:count", simulated=("gpus",)).simulated
    assert not one("cpu:sockets", simulated=("gpus",)).simulated
    assert one("gpu:driver", driver=True, simulated=("gpus",)).simulated


OPTIONAL = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.builds(Cpu, sockets=st.none() | st.integers(), model=st.none() | st.text()),
        "dimms": st.lists(
            st.builds(Dimm, slot=st.text(), size_mib=st.none() | st.integers(0, 10**6))
        ).map(tuple),
        "nics": st.just(()),
        "gpus": st.lists(st.sampled_from(SLOTS).map(gpu), max_size=3).map(tuple),
    },
)


@given(OPTIONAL, st.booleans())
def test_less_than_was_rented_never_passes(parts: dict[str, Any], driver: bool) -> None:
    found = compare(PROFILE, Hardware(**parts), driver=driver)
    passed = {verdict.claim for verdict in found if verdict.verdict is Outcome.PASS}
    assert "hardware/gpu:count" not in passed
    assert "hardware/nic:ens5f0" not in passed
    assert all(verdict.reason for verdict in found if verdict.verdict.blocks)


def test_what_was_swapped_is_named_a_verdict_a_part() -> None:
    found = swapped([("gpu", "GPU-a", "GPU-b"), ("gpu", "GPU-c", "none"), ("board", "S1", "S2")])
    assert [v.claim for v in found] == ["hardware/identity:gpu", "hardware/identity:board"]
    assert all(v.verdict is Outcome.FAIL and v.action for v in found)
    assert "GPU-b stands where GPU-a was accepted" in found[0].reason
    assert swapped([]) == ()
