"""No rule ever takes a disk that must not be written: over generated nodes, by both ways to decide.

Of one rule alone (an array, a disk), and of two that must not meet (a cached volume).

The two ways are nodeprep's own and the filter that plain ansible-playbook uses.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nodeprep.judge import choice
from nodeprep.judge.choice import Choice, choose, choose_pair, stable_id
from nodeprep.model.claim import CachedVolume, DiskRule
from nodeprep.model.hardware import Disk
from tests.unit.judge.layouts import (
    CACHE,
    CONTENTS,
    NODES,
    ORIGIN,
    OUR_VOLUME,
    OURS,
    SERIALS,
    Layout,
    forbidden,
    read,
)

ROOT = Path(__file__).parents[3]
THOROUGH = settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
WIPE = st.lists(SERIALS, max_size=4)
NAMES = st.lists(SERIALS | st.just("nvme-A_S1"), min_size=1, max_size=3, unique=True)
RULES = st.builds(
    lambda count, transport, ids: DiskRule.model_validate(
        {"count": len(ids), "ids": ids}
        if ids
        else {"count": count, "transport": transport, "size_gb": 1920}
    ),
    st.integers(1, 4),
    st.sampled_from(["nvme", "nvme", "any", "sata"]),
    st.just([]) | st.just([]) | NAMES,
)


@cache
def ansible() -> Any:
    path = ROOT / "roles" / "claims" / "filter_plugins" / "disks.py"
    spec = importlib.util.spec_from_file_location("claims_disks_under_test", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Decided = tuple[str, tuple[str, ...]]  # create, assemble or refuse; names of disks


def by_ansible(rule: DiskRule, wipe: list[str], disks: tuple[Disk, ...]) -> Decided:
    claim = {"kind": "array", "name": "cache", "uuid": OURS, "level": 0, "chunk_kib": 512,
             "disks": rule.model_dump(mode="json"), "wipe": wipe, "notify": []}  # fmt: skip
    found = {"disks": [d.model_dump(mode="json") for d in disks], "arrays": [], "devices": []}
    (step,) = ansible().disk_steps([claim], "r", found)
    if step["refused"]:
        return "refuse", ()
    by_id = {stable_id(disk): disk.name for disk in disks if stable_id(disk)}
    return step["action"], tuple(by_id[disk["id"]] for disk in step["disks"])


def by_nodeprep(rule: DiskRule, wipe: list[str], disks: tuple[Disk, ...]) -> Decided:
    found = choose(rule, wipe, disks, uuid=OURS)
    assert bool(found.disks) != bool(found.refusals)
    action = "refuse" if found.refusals else "assemble" if found.present else "create"
    return action, tuple(disk.name for disk in found.disks)


def wrong(
    layouts: list[Layout],
    wipe: list[str],
    rule: DiskRule,
    decide: Callable[[DiskRule, list[str], tuple[Disk, ...]], Decided],
) -> list[str]:
    """The contents of the disks that would be written and must never be."""
    disks = read(layouts)
    action, names = decide(rule, wipe, disks)
    chosen = [number for number, disk in enumerate(disks) if disk.name in names]
    assert len(names) == len(chosen) == (0 if action == "refuse" else rule.count)
    if action == "assemble":
        assert {layouts[number].content for number in chosen} == {"our superblock"}
        return []
    return [layouts[n].content for n in chosen if forbidden(layouts, n, wipe)]


@THOROUGH
@given(NODES, WIPE, RULES)
def test_no_disk_is_taken_that_must_not_be_written(
    layouts: list[Layout], wipe: list[str], rule: DiskRule
) -> None:
    assert wrong(layouts, wipe, rule, by_nodeprep) == []


@THOROUGH
@given(NODES, WIPE, RULES)
def test_plain_ansible_decides_the_same(
    layouts: list[Layout], wipe: list[str], rule: DiskRule
) -> None:
    assert wrong(layouts, wipe, rule, by_ansible) == []
    disks = read(layouts)
    assert by_ansible(rule, wipe, disks) == by_nodeprep(rule, wipe, disks)


def clean(number: int, **other: Any) -> Layout:
    values = {
        "content": "nothing", "serial": f"S{number}", "wwn": None, "model": "A",
        "size_gb": 1920.4, "transport": "nvme", "named": True, **other,
    }  # fmt: skip
    return Layout(**values)


ONE = st.builds(
    lambda transport, size, name: DiskRule.model_validate(
        {"count": 1, "ids": [name]}
        if name
        else {"count": 1, "transport": transport, "size_gb": size}
    ),
    st.sampled_from(["nvme", "nvme", "any", "sata"]),
    st.sampled_from([1920, 1920, 4000]),
    st.none() | st.none() | SERIALS,
)
VOLUMES = st.builds(
    lambda origin, cache, wipe: CachedVolume(
        role="r", name="cache", origin=origin, cache=cache, wipe=wipe,
        origin_uuid=ORIGIN, cache_uuid=CACHE,
    ),
    ONE, ONE, WIPE,
)  # fmt: skip
# Two rules at once are rarely met by chance: disks of which each is told apart are mixed in.
TIDY = st.lists(
    st.builds(
        lambda number, content, transport: clean(
            number, content=content, transport=transport, wwn=f"w{number}"
        ),
        st.integers(0, 11),
        st.just("nothing") | st.sampled_from(sorted(CONTENTS)) | st.sampled_from(OUR_VOLUME),
        st.sampled_from(["nvme", "sata"]),
    ),
    min_size=2,
    max_size=5,
    unique_by=lambda layout: layout.serial,
)
SOME = NODES | TIDY | TIDY


def pair_by_nodeprep(claim: CachedVolume, disks: tuple[Disk, ...]) -> Decided:
    found = choose_pair(claim, disks)
    assert bool(found.disks) != bool(found.refusals)
    action = "refuse" if found.refusals else "activate" if found.present else "cache"
    return action, tuple(disk.name for disk in found.disks)


def pair_by_ansible(claim: CachedVolume, disks: tuple[Disk, ...]) -> Decided:
    found = {"disks": [d.model_dump(mode="json") for d in disks], "arrays": [], "devices": [],
             "lvm": {"installed": False, "physical": [], "logical": []}}  # fmt: skip
    (step,) = ansible().disk_steps([claim.model_dump(mode="json")], "r", found)
    if step["refused"]:
        return "refuse", ()
    by_id = {stable_id(disk): disk.name for disk in disks}
    return step["action"], tuple(by_id[disk["id"]] for disk in step["disks"])


def wrong_pair(
    layouts: list[Layout],
    claim: CachedVolume,
    decide: Callable[[CachedVolume, tuple[Disk, ...]], Decided],
) -> list[str]:
    """The contents of the disks that would be written and must never be."""
    disks = read(layouts)
    action, names = decide(claim, disks)
    chosen = [next(n for n, disk in enumerate(disks) if disk.name == name) for name in names]
    assert len(set(names)) == (0 if action == "refuse" else 2)
    contents = [layouts[number].content for number in chosen]
    if action == "activate":
        assert contents[0] in ("our origin", "our volume, active")
        assert contents[1] == "our cache"
        return []
    if action == "cache":  # of a volume of which a half is left, nothing is ever made anew
        assert not {layout.content for layout in layouts} & set(OUR_VOLUME)
    return [
        layouts[n].content for n in chosen if forbidden(layouts, n, list(claim.wipe), OUR_VOLUME)
    ]


@THOROUGH
@given(SOME, VOLUMES)
def test_no_volume_takes_a_disk_that_must_not_be_written(
    layouts: list[Layout], claim: CachedVolume
) -> None:
    assert wrong_pair(layouts, claim, pair_by_nodeprep) == []


@THOROUGH
@given(SOME, VOLUMES)
def test_plain_ansible_decides_the_same_of_volumes(
    layouts: list[Layout], claim: CachedVolume
) -> None:
    assert wrong_pair(layouts, claim, pair_by_ansible) == []
    disks = read(layouts)
    assert pair_by_ansible(claim, disks) == pair_by_nodeprep(claim, disks)


objected = choice.objection
SABOTAGES: dict[str, Callable[[Disk, Any, Any], str]] = {
    "trusts every disk": lambda *_: "",
    "looks for mounts alone": lambda disk, *_: (
        "mounted" if any(use.startswith("mounted") for use in disk.in_use) else ""
    ),
    "lets `wipe` overrule everything": lambda disk, others, wipe: (
        "" if disk.serial in wipe else objected(disk, others, wipe)
    ),
    "does not compare serials": lambda disk, _, wipe: objected(disk, [disk], wipe),
    "takes holders for nothing": lambda disk, others, wipe: (
        "" if disk.in_use == ("holder md127",) and disk.ids else objected(disk, others, wipe)
    ),
    "reads what lsblk tells and nothing else": lambda disk, others, wipe: (
        "" if disk.in_use == ("signature ext4",) else objected(disk, others, wipe)
    ),
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_chooser_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sabotaged twin: the property above turns red for each way to break the rules."""
    monkeypatch.setattr(choice, "objection", SABOTAGES[name])

    @settings(
        max_examples=3000,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(NODES, WIPE, RULES)
    def holds(layouts: list[Layout], wipe: list[str], rule: DiskRule) -> None:
        assert wrong(layouts, wipe, rule, by_nodeprep) == []

    with pytest.raises(AssertionError):
        holds()


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_chooser_of_volumes_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "objection", SABOTAGES[name])
    _turns_red(pair_by_nodeprep)


def test_halves_that_are_taken_for_free_disks_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sabotaged twin of the rule that a half is never completed."""
    monkeypatch.setattr(choice, "_carries", lambda *_: False)
    _turns_red(pair_by_nodeprep)


def test_a_pair_of_one_disk_is_caught() -> None:
    def twice(claim: CachedVolume, disks: tuple[Disk, ...]) -> Decided:
        action, names = pair_by_nodeprep(claim, disks)
        return action, names[:1] * 2

    _turns_red(twice)


def test_a_twin_that_forgot_a_rule_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ansible().objection

    def trusting(disk: dict[str, Any], others: Any, wipe: Any) -> str:
        return "" if disk["serial"] in wipe else str(rules(disk, others, wipe))

    monkeypatch.setattr(ansible(), "objection", trusting)
    _turns_red(pair_by_ansible)


def _turns_red(decide: Callable[[CachedVolume, tuple[Disk, ...]], Decided]) -> None:
    @settings(
        max_examples=20_000,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(SOME, VOLUMES)
    def holds(layouts: list[Layout], claim: CachedVolume) -> None:
        assert wrong_pair(layouts, claim, decide) == []

    with pytest.raises(AssertionError):
        holds()


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(NODES, WIPE, RULES, st.randoms(use_true_random=False))
def test_the_order_in_which_the_kernel_finds_disks_changes_nothing(
    layouts: list[Layout], wipe: list[str], rule: DiskRule, random: Any
) -> None:
    order = list(range(len(layouts)))
    random.shuffle(order)
    first, again = choose(rule, wipe, read(layouts)), choose(rule, wipe, read(layouts, order))
    assert list(map(stable_id, first.disks)) == list(map(stable_id, again.disks))


TWO = DiskRule(count=2, transport="nvme", size_gb=1920)


def chosen(*layouts: Layout, rule: DiskRule = TWO, wipe: tuple[str, ...] = ()) -> Choice:
    return choose(rule, wipe, read(list(layouts)))


def serials(found: Choice) -> list[str | None]:
    return [disk.serial for disk in found.disks]


def test_the_usual_node_gets_its_clean_disks() -> None:
    found = chosen(clean(1, content="the system"), clean(3), clean(2), clean(4, transport="sata"))
    assert serials(found) == ["S2", "S3"]


def test_each_refusal_names_the_disk_and_why() -> None:
    found = chosen(clean(1), clean(2, content="array that runs"), clean(3, content="the system"))
    head, *said = found.refusals
    assert head == "1 of 2x 1920 GB nvme may be written"
    assert "nvme-A_S2 (nvme1n1, 1920 GB, serial S2): raid0 md127" in said
    assert any("nvme-A_S3" in line and "the operating system is on it" in line for line in said)


def test_of_more_than_are_wanted_the_first_by_id_when_all_are_alike() -> None:
    assert serials(chosen(clean(5), clean(4), clean(3))) == ["S3", "S4"]
    found = chosen(clean(5), clean(4), clean(3, model="B"))
    assert "are not alike: list the `ids`" in found.refusals[0]


def test_a_disk_is_erased_only_when_there_are_too_few_clean_ones() -> None:
    dirty = clean(1, content="foreign superblock")
    assert serials(chosen(dirty, clean(2), clean(3), wipe=("S1",))) == ["S2", "S3"]
    assert serials(chosen(dirty, clean(2), wipe=("S1",))) == ["S2", "S1"]


def test_ids_name_disks_by_link_serial_or_wwn() -> None:
    rule = DiskRule(count=3, ids=("nvme-A_S1", "S2", "eui.9"))
    assert serials(chosen(clean(1), clean(2), clean(3, wwn="eui.9"), rule=rule)) == [
        "S1", "S2", "S3",
    ]  # fmt: skip
    found = chosen(clean(1), clean(2), rule=rule)
    assert found.refusals == ("no disk is named eui.9",)
    twice = DiskRule(count=2, ids=("nvme-A_S1", "S1"))
    assert "named twice" in chosen(clean(1), rule=twice).refusals[0]


def test_a_stick_or_a_disk_of_another_machine_is_no_candidate() -> None:
    rule = DiskRule(count=1, size_gb=1920)
    for way in ("usb", "iscsi", "fc", "tcp", "rdma"):
        assert chosen(clean(1, transport=way), rule=rule).refusals


def test_what_was_not_read_of_a_disk_is_named_when_disks_are_missing() -> None:
    found = chosen(clean(1), clean(2, transport=None), clean(3, size_gb=None))
    assert [line for line in found.refusals if "was not read" in line]


def test_disks_that_were_not_read_are_none() -> None:
    assert choose(TWO, (), None).refusals == ("the disks could not be read",)


def test_members_of_our_own_array_are_no_candidates() -> None:
    members = [clean(n, content="our superblock") for n in (1, 2)]
    found = choose(TWO, ("S1", "S2"), read([*members, clean(3), clean(4)]), uuid=OURS)
    assert found.present
    assert serials(found) == ["S1", "S2"]
    found = choose(TWO, (), read([members[0], clean(3), clean(4)]), uuid=OURS)
    assert "1 of its 2 members are here, and it does not run" in found.refusals[0]


SATA = DiskRule(count=1, transport="sata", size_gb=1920)
PAIR = CachedVolume(
    name="cache", origin=SATA, cache=DiskRule(count=1, transport="nvme", size_gb=1920),
    origin_uuid=ORIGIN, cache_uuid=CACHE,
)  # fmt: skip


def test_a_volume_gets_its_origin_and_its_cache() -> None:
    node = [clean(1), clean(2, transport="sata")]
    assert serials(choose_pair(PAIR, read(node))) == ["S2", "S1"]
    alike = PAIR.model_copy(update={"origin": PAIR.cache})
    assert serials(choose_pair(alike, read([clean(1), clean(2)]))) == ["S1", "S2"]
    assert "0 of 1x 1920 GB nvme may be written" in choose_pair(alike, read([clean(1)])).refusals


def test_a_half_of_our_volume_is_never_completed() -> None:
    node = [clean(1, content="our cache"), clean(2, transport="sata"), clean(3)]
    (head, disk) = choose_pair(PAIR.model_copy(update={"wipe": ("S1",)}), read(node)).refusals
    assert head == "1 of its 2 disks are here, and they are no whole volume"
    assert "serial S1" in disk


def test_our_volume_is_started_whatever_the_rules_say_now() -> None:
    node = [clean(1, content="our cache"), clean(2, content="our origin"), clean(3), clean(4)]
    found = choose_pair(PAIR, read(node))
    assert found.present
    assert serials(found) == ["S2", "S1"]
    copied = [*node, clean(5, content="our cache")]
    assert "3 of its 2 disks" in choose_pair(PAIR, read(copied)).refusals[0]


def test_every_content_was_made_up_for_a_reason() -> None:
    """Each of them, alone on a node, is refused, and erased only where it may be."""
    rule = DiskRule(count=1, transport="nvme", size_gb=1920)
    for name, content in CONTENTS.items():
        layout = clean(1, content=name)
        assert bool(chosen(layout, rule=rule).disks) == (name == "nothing"), name
        erased = bool(chosen(layout, rule=rule, wipe=("S1",)).disks)
        assert erased == content.erasable, name
