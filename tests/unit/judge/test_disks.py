"""Which disk is which rented one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.judge.disks import assign, compare
from nodeprep.model.hardware import Disk
from nodeprep.model.profile import DiskPart

GB = 10**9


def part(use: str, size_gb: float, transport: str = "any", count: int = 1) -> DiskPart:
    return DiskPart.model_validate(
        {"use": use, "size_gb": size_gb, "transport": transport, "count": count}
    )


def disk(name: str, size_gb: float | None, transport: str | None = "nvme") -> Disk:
    size = None if size_gb is None else int(size_gb * GB)
    return Disk(name=name, size_bytes=size, transport=transport)


def test_a_disk_counts_once() -> None:
    found = compare((part("os", 2000), part("cache", 2000)), (disk("nvme0n1", 2000),))
    assert [bool(line.problem) for line in found] == [False, True]
    assert "0 of 1x 2000 GB" in found[1].problem


def test_a_disk_of_two_paths_counts_once() -> None:
    paths = tuple(
        disk(name, 2000, "sas").model_copy(update={"serial": "S1", "wwn": "0x5000c500"})
        for name in ("sda", "sdb")
    )
    (line,) = compare((part("data", 2000, count=2),), paths)
    assert line.problem == "1 of 2x 2000 GB"
    namespaces = tuple(one.model_copy(update={"wwn": one.name}) for one in paths)
    assert not compare((part("data", 2000, count=2),), namespaces)[0].problem


def test_a_disk_of_another_machine_is_not_the_rented_one() -> None:
    (line,) = compare((part("os", 2000),), (disk("nvme0n1", 2000, "tcp"),))
    assert line.problem.startswith("0 of 1x 2000 GB")


def test_a_picky_part_gets_its_disk_although_another_could_take_it() -> None:
    parts = (part("os", 2000), part("cache", 2000, "nvme"))
    found = compare(parts, (disk("nvme0n1", 2000), disk("sda", 2000, "sata")))
    assert not any(line.problem for line in found)


def test_vendors_sizes_are_within_tolerance() -> None:
    assert not compare((part("os", 2000),), (disk("a", 1920.4),))[0].problem
    assert compare((part("os", 2000),), (disk("a", 1800),))[0].problem


def test_others_that_are_there_are_named() -> None:
    (line,) = compare((part("cache", 4000, "sata"),), (disk("sda", 480.1, "sata"),))
    assert "others there: sda (480 GB sata)" in line.problem


def test_a_transport_that_was_not_read_is_unknown() -> None:
    (line,) = compare((part("os", 2000, "nvme"),), (disk("x", 2000, None),))
    assert line.unknown
    (line,) = compare((part("os", 2000, "nvme"),), (disk("x", 500, None),))
    assert not line.unknown
    assert line.problem


def test_several_of_a_kind_and_several_kinds_of_a_use() -> None:
    parts = (part("data", 3840, "nvme", 3), part("data", 8000, "sata"))
    found = compare(parts, tuple(disk(f"nvme{i}n1", 3840) for i in range(2)))
    assert [line.name for line in found] == ["data", "data-2"]
    assert found[0].problem.startswith("2 of 3x 3840 GB nvme")


def test_none_read_is_unknown() -> None:
    assert compare((part("os", 2000),), None)[0].unknown


SIZES = st.sampled_from([480.0, 2000.0, 4000.0])
KINDS = st.sampled_from(["nvme", "sata"])
PARTS = st.lists(
    st.builds(part, st.just("data"), SIZES, KINDS | st.just("any"), st.integers(1, 3)), max_size=4
).map(tuple)
DISKS = st.lists(st.builds(disk, st.text(), SIZES, KINDS), max_size=8).map(tuple)


@given(PARTS, DISKS)
def test_no_disk_serves_twice_and_no_part_gets_too_many(
    parts: tuple[DiskPart, ...], disks: tuple[Disk, ...]
) -> None:
    found = assign(parts, disks)
    numbers = [number for each in found for number in each]
    assert len(numbers) == len(set(numbers))
    assert all(len(each) <= p.count for each, p in zip(found, parts, strict=True))


@given(PARTS, st.randoms(use_true_random=False))
def test_what_was_rented_is_found_in_any_order(parts: tuple[DiskPart, ...], random: object) -> None:
    exact = [
        disk("x", p.size_gb, "sata" if p.transport == "any" else p.transport)
        for p in parts
        for _ in range(p.count)
    ]
    random.shuffle(exact)  # type: ignore[attr-defined]
    assert not any(line.problem for line in compare(parts, tuple(exact)))
