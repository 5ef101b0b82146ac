"""How nvidia-smi tells of a GPU, by driver branch: what was renamed, added and given up since 470.

The tree is built as 535 prints it (`smi_tree`); here it is turned into that of another branch. What
was renamed is as seen in public outputs; the very release that brought each change may be another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .smi_tree import Item

    Edit = Callable[[list[Item]], list[Item]]

NATIVE = 535
GIVEN_UP = "Requested functionality has been deprecated"
NA = "N/A"


def branch(version: str) -> int:
    """535 of 535.183.01, and for what is no version."""
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else NATIVE


def as_branch(items: list[Item], number: int) -> list[Item]:
    if number == NATIVE:
        return items
    for before, edits in _OLDER:
        for edit in edits if number < before else ():
            items = edit(items)
    for since, edits in _NEWER:
        for edit in edits if number >= since else ():
            items = edit(items)
    return items


def _without(*tags: str) -> Edit:
    def edit(items: list[Item]) -> list[Item]:
        return [
            (label, tag, edit(value) if isinstance(value, list) else value)
            for label, tag, value in items
            if tag not in tags
        ]

    return edit


def _inside(parent: str, edit: Edit) -> Edit:
    """`edit` for what stands in `parent`, wherever that is."""

    def found(items: list[Item]) -> list[Item]:
        return [
            (label, tag, value if not isinstance(value, list) else
             edit(value) if tag == parent else found(value))
            for label, tag, value in items
        ]  # fmt: skip

    return found


def _tags(old: str, new: str) -> Edit:
    def edit(items: list[Item]) -> list[Item]:
        return [
            (label, tag.replace(old, new), edit(value) if isinstance(value, list) else value)
            for label, tag, value in items
        ]

    return edit


def _says(word: str, *tags: str) -> Edit:
    """These elements say `word`, whatever they said."""

    def edit(items: list[Item]) -> list[Item]:
        return [
            (label, tag, edit(value) if isinstance(value, list) else word if tag in tags else value)
            for label, tag, value in items
        ]

    return edit


def _after(sibling: str, *more: Item) -> Edit:
    def edit(items: list[Item]) -> list[Item]:
        found: list[Item] = []
        for label, tag, value in items:
            found.append((label, tag, edit(value) if isinstance(value, list) else value))
            found += more if tag == sibling else ()
        return found

    return edit


def _old_memory(items: list[Item]) -> list[Item]:
    """What the driver keeps for itself was not told: the total is smaller by it."""
    sizes = {tag: int(str(value).split()[0]) for _, tag, value in items}
    total = ("Total", "total", "%d MiB" % (sizes["total"] - sizes["reserved"]))
    return [total if item[1] == "total" else item for item in items if item[1] != "reserved"]


def _old_power(items: list[Item]) -> list[Item]:
    found: list[Item] = []
    for label, tag, value in items:
        if tag == "requested_power_limit":
            found.append(("Enforced Power Limit", "enforced_power_limit", value))
        elif tag == "current_power_limit":
            found.append(("Power Limit", "power_limit", value))
        else:
            found.append((label, tag, value))
        if tag == "power_state":
            found.append(("Power Management", "power_management", "Supported"))
    return found


def _split_sram(items: list[Item]) -> list[Item]:
    found: list[Item] = []
    for label, tag, value in items:
        if tag == "sram_uncorrectable":
            # All of them as SEC-DED: the board does not tell them apart.
            parity = value if value == NA else "0"
            found.append(("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", parity))
            found.append(("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", value))
        else:
            found.append((label, tag, value))
    return found


def _threshold(items: list[Item]) -> list[Item]:
    count = next(value for _, tag, value in items if tag == "sram_uncorrectable_secded")
    exceeded = NA if count == NA else "Yes" if int(count) > 4 else "No"
    return [*items, ("SRAM Threshold Exceeded", "sram_threshold_exceeded", exceeded)]


def _two_draws(items: list[Item]) -> list[Item]:
    found: list[Item] = []
    for label, tag, value in items:
        if tag == "power_draw":
            found.append(("Average Power Draw", "average_power_draw", value))
            found.append(("Instantaneous Power Draw", "instant_power_draw", value))
        else:
            found.append((label, tag, value))
    return found


def _sram_sources(items: list[Item]) -> list[Item]:
    """Empty where there were no errors; the board does not tell where they were."""
    places = ("l2", "sm", "microcontroller", "pcie", "other")
    return [*items, ("Aggregate Uncorrectable SRAM Sources", "aggregate_uncorrectable_sram_sources",
                     [("SRAM " + place, "sram_" + place, "0") for place in places])]  # fmt: skip


def _group(label: str, tag: str, *children: str, value: Any = NA) -> Item:
    return label, tag, [(child.replace("_", " ").title(), child, value) for child in children]


# Before that branch; since that branch. In time's order, each on top of the ones before.
_OLDER: tuple[tuple[int, tuple[Edit, ...]], ...] = (
    (535, (_tags("clocks_event_reason", "clocks_throttle_reason"), _without("jpeg_util",
                                                                          "ofa_util"))),
    (530, (_without("module_power_readings", "cc_protected_memory_usage", "gpu_reset_status",
                    "addressing_mode"),
           _inside("gpu_power_readings", _old_power),
           _tags("gpu_power_readings", "power_readings"))),
    (525, (_without("fabric", "inforom_bbx_flush", "gpu_fru_part_number", "atomic_caps_inbound",
                    "atomic_caps_outbound", "device_current_link_gen", "max_device_link_gen",
                    "max_host_link_gen"),)),
    (510, (_inside("fb_memory_usage", _old_memory),
           _without("product_architecture", "gsp_firmware_version", "gpu_part_number"))),
)  # fmt: skip
_NEWER: tuple[tuple[int, tuple[Edit, ...]], ...] = (
    (550, (_inside("volatile", _split_sram), _inside("aggregate", _split_sram),
           _inside("aggregate", _threshold), _inside("ecc_errors", _sram_sources),
           _after("host_vgpu_mode", ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", NA)))),
    (560, (_inside("gpu_power_readings", _two_draws), _inside("module_power_readings", _two_draws),
           _after("ecc_mode", _group("", "dram_encryption_mode", "current_dram_encryption",
                                     "pending_dram_encryption")))),
    (570, (_says(GIVEN_UP, "display_mode", "reset_required", "drain_and_reset_recommended",
                 "graphics_volt"),
           _after("display_mode", ("Display Attached", "display_attached", "No")),
           _after("gpu_reset_status", ("GPU Recovery Action", "gpu_recovery_action", "None")),
           _says("\n\t\t\tNone\n\t\t", "mig_devices"),
           _after("gpu_fru_part_number", _group("Platform Info", "platformInfo",
                                                "chassis_serial_number", "slot_number",
                                                "tray_index", "host_id", "peer_type", "module_id")),
           _after("clocks_event_reasons",
                  _group("Clocks Event Reasons Counters", "clocks_event_reasons_counters",
                         "clocks_event_reasons_counters_sw_power_cap",
                         "clocks_event_reasons_counters_sw_therm_slowdown",
                         "clocks_event_reasons_counters_hw_therm_slowdown",
                         "clocks_event_reasons_counters_hw_power_brake", value="0 us"),
                  ("Sparse Operation Mode", "sparse_operation_mode", NA)),
           _after("module_power_readings", ("Power Smoothing", "power_smoothing", NA)))),
    (580, (_inside("applications_clocks", _says(GIVEN_UP, "graphics_clock", "mem_clock")),
           _inside("ecc_errors", _after(
               "aggregate_uncorrectable_sram_sources",
               ("Channel Repair Pending", "channel_repair_pending", "No"),
               ("TPC Repair Pending", "tpc_repair_pending", "No"))))),
)  # fmt: skip
