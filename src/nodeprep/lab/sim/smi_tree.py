"""All that nvidia-smi knows of one GPU, as one tree: what `-q` and `-q -x` both write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import board as boards
from . import driver, physics, smi_formats

if TYPE_CHECKING:
    from .board import Board, Gpu

    # (label in the text or "", tag in the XML or "", a value or more of the same)
    Item = tuple[str, str, Any]

REASONS = (
    ("Idle", "gpu_idle"),
    ("Applications Clocks Setting", "applications_clocks_setting"),
    ("SW Power Cap", "sw_power_cap"),
    ("HW Slowdown", "hw_slowdown"),
    ("    HW Thermal Slowdown", "hw_thermal_slowdown"),
    ("    HW Power Brake Slowdown", "hw_power_brake_slowdown"),
    ("Sync Boost", "sync_boost"),
    ("SW Thermal Slowdown", "sw_thermal_slowdown"),
    ("Display Clock Setting", "display_clocks_setting"),
)
NA = "N/A"


def able(on: bool) -> str:
    return "Enabled" if on else "Disabled"


def yes(on: bool) -> str:
    return "Yes" if on else "No"


def bus_id(gpu: Gpu) -> str:
    """As nvidia-smi writes it: 00000000:17:00.0."""
    return "0000" + str(gpu["address"]).upper()


def tree(board: Board, gpu: Gpu) -> list[Item]:
    """Everything that the driver tells of one GPU, in its order; written down as 535 tells it."""
    items = [*_identity(board, gpu), *_bus(board, gpu), *_state(board, gpu), *_errors(board, gpu),
             *_thermal(board, gpu), *_clocks(board, gpu), *_rest(board, gpu)]  # fmt: skip
    return smi_formats.as_branch(items, smi_formats.branch(driver.version(board)))


def _identity(board: Board, gpu: Gpu) -> list[Item]:
    kind = boards.spec(board)
    return [
        ("Product Name", "product_name", kind["name"]),
        ("Product Brand", "product_brand", "NVIDIA"),
        ("Product Architecture", "product_architecture", kind["architecture"]),
        ("Display Mode", "display_mode", "Enabled"),
        ("Display Active", "display_active", "Disabled"),
        ("Persistence Mode", "persistence_mode", able(gpu["persistence"])),
        ("Addressing Mode", "addressing_mode", "None"),
        ("MIG Mode", "mig_mode", [
            ("Current", "current_mig", able(gpu["mig"]["current"])),
            ("Pending", "pending_mig", able(gpu["mig"]["pending"])),
        ]),
        ("", "mig_devices", "None"),
        ("Accounting Mode", "accounting_mode", "Disabled"),
        ("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000"),
        ("Driver Model", "driver_model", [
            ("Current", "current_dm", NA), ("Pending", "pending_dm", NA),
        ]),
        ("Serial Number", "serial", gpu["serial"]),
        ("GPU UUID", "uuid", gpu["uuid"]),
        ("Minor Number", "minor_number", str(gpu["minor"])),
        ("VBIOS Version", "vbios_version", gpu["vbios"]),
        ("MultiGPU Board", "multigpu_board", "No"),
        ("Board ID", "board_id", "0x%x" % (int(gpu["address"][5:7], 16) << 8)),
        ("Board Part Number", "board_part_number", kind["board_part"]),
        ("GPU Part Number", "gpu_part_number", kind["gpu_part"]),
        ("FRU Part Number", "gpu_fru_part_number", NA),
        ("Module ID", "gpu_module_id", str(gpu["minor"] + 1)),
        ("Inforom Version", "inforom_version", [
            ("Image Version", "img_version", kind["image"]),
            ("OEM Object", "oem_object", "2.0"),
            ("ECC Object", "ecc_object", "6.16"),
            ("Power Management Object", "pwr_object", NA),
        ]),
        ("Inforom BBX Object Flush", "inforom_bbx_flush", [
            ("Latest Timestamp", "latest_timestamp", NA),
            ("Latest Duration", "latest_duration", NA),
        ]),
        ("GPU Operation Mode", "gpu_operation_mode", [
            ("Current", "current_gom", NA), ("Pending", "pending_gom", NA),
        ]),
        ("GSP Firmware Version", "gsp_firmware_version", driver.version(board)),
        ("GPU Virtualization Mode", "gpu_virtualization_mode", [
            ("Virtualization Mode", "virtualization_mode", "None"),
            ("Host VGPU Mode", "host_vgpu_mode", NA),
        ]),
        ("GPU Reset Status", "gpu_reset_status", [
            ("Reset Required", "reset_required", yes(gpu["reset_required"])),
            ("Drain and Reset Recommended", "drain_and_reset_recommended",
             yes(gpu["remap"]["pending"])),
        ]),
        ("IBMNPU", "ibmnpu", [("Relaxed Ordering Mode", "relaxed_ordering_mode", NA)]),
    ]  # fmt: skip


def _bus(board: Board, gpu: Gpu) -> list[Item]:
    kind = boards.spec(board)
    gen, most = str(physics.pcie_generation(board, gpu)), str(kind["gen"])
    bus = gpu["address"][5:7].upper()
    return [
        ("PCI", "pci", [
            ("Bus", "pci_bus", bus),
            ("Device", "pci_device", "00"),
            ("Domain", "pci_domain", "0000"),
            ("Device Id", "pci_device_id", (kind["device"] + "10de").upper()),
            ("Bus Id", "pci_bus_id", bus_id(gpu)),
            ("Sub System Id", "pci_sub_system_id", kind["subsystem"].upper()),
            ("GPU Link Info", "pci_gpu_link_info", [
                ("PCIe Generation", "pcie_gen", [
                    ("Max", "max_link_gen", most),
                    ("Current", "current_link_gen", gen),
                    ("Device Current", "device_current_link_gen", gen),
                    ("Device Max", "max_device_link_gen", most),
                    ("Host Max", "max_host_link_gen", most),
                ]),
                ("Link Width", "link_widths", [
                    ("Max", "max_link_width", "16x"),
                    ("Current", "current_link_width", "%dx" % gpu["pcie"]["width"]),
                ]),
            ]),
            ("Bridge Chip", "pci_bridge_chip", [
                ("Type", "bridge_chip_type", NA), ("Firmware", "bridge_chip_fw", NA),
            ]),
            ("Replays Since Reset", "replay_counter", str(gpu["pcie"]["replays"])),
            ("Replay Number Rollovers", "replay_rollover_counter", "0"),
            ("Tx Throughput", "tx_util", "0 KB/s"),
            ("Rx Throughput", "rx_util", "0 KB/s"),
            ("Atomic Caps Inbound", "atomic_caps_inbound", NA),
            ("Atomic Caps Outbound", "atomic_caps_outbound", NA),
        ]),
    ]  # fmt: skip


def _state(board: Board, gpu: Gpu) -> list[Item]:
    kind = boards.spec(board)
    active = physics.reasons(board, gpu)
    used = 1 + sum(process["mib"] for process in gpu["processes"])
    busy = "98 %" if physics.loaded(board) else "0 %"
    return [
        ("Fan Speed", "fan_speed", NA),
        ("Performance State", "performance_state", "P0"),
        ("Clocks Event Reasons", "clocks_event_reasons", [
            (label, "clocks_event_reason_" + name, "Active" if name in active else "Not Active")
            for label, name in REASONS
        ]),
        ("FB Memory Usage", "fb_memory_usage", [
            ("Total", "total", "%d MiB" % kind["memory"]),
            ("Reserved", "reserved", "%d MiB" % kind["reserved"]),
            ("Used", "used", "%d MiB" % used),
            ("Free", "free", "%d MiB" % (kind["memory"] - kind["reserved"] - used)),
        ]),
        ("BAR1 Memory Usage", "bar1_memory_usage", [
            ("Total", "total", "%d MiB" % kind["bar1"]),
            ("Used", "used", "1 MiB"),
            ("Free", "free", "%d MiB" % (kind["bar1"] - 1)),
        ]),
        ("Conf Compute Protected Memory Usage", "cc_protected_memory_usage", [
            ("Total", "total", "0 MiB"), ("Used", "used", "0 MiB"), ("Free", "free", "0 MiB"),
        ]),
        ("Compute Mode", "compute_mode", gpu["compute_mode"]),
        ("Utilization", "utilization", [
            (label, tag, NA if gpu["mig"]["current"] else value)
            for label, tag, value in (
                ("Gpu", "gpu_util", busy), ("Memory", "memory_util", "0 %"),
                ("Encoder", "encoder_util", "0 %"), ("Decoder", "decoder_util", "0 %"),
                ("JPEG", "jpeg_util", "0 %"), ("OFA", "ofa_util", "0 %"))
        ]),
        ("Encoder Stats", "encoder_stats", _sessions()),
        ("FBC Stats", "fbc_stats", _sessions()),
    ]  # fmt: skip


def _sessions() -> list[Item]:
    return [("Active Sessions", "session_count", "0"), ("Average FPS", "average_fps", "0"),
            ("Average Latency", "average_latency", "0")]  # fmt: skip


def counters(gpu: Gpu, span: str) -> list[Item]:
    """ECC counters of `volatile` or `aggregate`; N/A when ECC is off."""
    values = gpu["ecc"][span]
    on = gpu["ecc"]["mode"]
    return [(name.replace("sram_", "SRAM ").replace("dram_", "DRAM ").title()
             .replace("Sram", "SRAM").replace("Dram", "DRAM"), name,
             str(values[name]) if on else NA) for name in boards.COUNTERS]  # fmt: skip


def _errors(board: Board, gpu: Gpu) -> list[Item]:
    retired = gpu["retired"] or {}
    remap, banks = gpu["remap"], boards.spec(board)["remap_banks"]
    single = str(retired.get("single", NA))
    double = str(retired.get("double", NA))
    pending = yes(retired["pending"]) if retired else NA
    items: list[Item] = [
        ("ECC Mode", "ecc_mode", [
            ("Current", "current_ecc", able(gpu["ecc"]["mode"])),
            ("Pending", "pending_ecc", able(gpu["ecc"]["pending"])),
        ]),
        ("ECC Errors", "ecc_errors", [
            ("Volatile", "volatile", counters(gpu, "volatile")),
            ("Aggregate", "aggregate", counters(gpu, "aggregate")),
        ]),
        ("Retired Pages", "retired_pages", [
            ("Single Bit ECC", "", single),
            ("Double Bit ECC", "", double),
            ("Pending Page Blacklist", "", pending),
            ("", "multiple_single_bit_retirement", [
                ("", "retired_count", single), ("", "retired_pagelist", NA)]),
            ("", "double_bit_retirement", [
                ("", "retired_count", double), ("", "retired_pagelist", NA)]),
            ("", "pending_blacklist", pending),
            ("", "pending_retirement", pending),
        ]),
    ]  # fmt: skip
    if gpu["mig"]["current"]:
        return [*items, ("Remapped Rows", "remapped_rows", NA)]
    low = remap["degraded_banks"]
    histogram = (("Max", banks - low), ("High", 0), ("Partial", 0), ("Low", low), ("None", 0))
    return [*items, ("Remapped Rows", "remapped_rows", [
        ("Correctable Error", "remapped_row_corr", str(remap["correctable"])),
        ("Uncorrectable Error", "remapped_row_unc", str(remap["uncorrectable"])),
        ("Pending", "remapped_row_pending", yes(remap["pending"])),
        ("Remapping Failure Occurred", "remapped_row_failure", yes(remap["failure"])),
        ("Bank Remap Availability Histogram", "row_remapper_histogram", [
            (label, "row_remapper_histogram_" + label.lower(), "%d bank(s)" % count)
            for label, count in histogram
        ]),
    ])]  # fmt: skip


def _thermal(board: Board, gpu: Gpu) -> list[Item]:
    kind = boards.spec(board)
    limits, power = kind["temps"], gpu["power"]
    # Hopper tells distances to its limit, Ampere degrees.
    relative = kind["architecture"] == "Hopper"
    word = "T.Limit " if relative else ""
    tag = "_tlimit" if relative else ""
    now = physics.temperature(board, gpu)
    draw, limit = "%.2f W" % physics.power_draw(board, gpu), "%.2f W" % power["limit"]
    return [
        ("Temperature", "temperature", [
            ("GPU Current Temp", "gpu_temp", "%d C" % now),
            ("GPU T.Limit Temp", "gpu_temp_tlimit", "%d C" % (87 - now) if relative else NA),
            ("GPU Shutdown %sTemp" % word, "gpu_temp_max%s_threshold" % tag,
             "%d C" % limits["shutdown"]),
            ("GPU Slowdown %sTemp" % word, "gpu_temp_slow%s_threshold" % tag,
             "%d C" % limits["slowdown"]),
            ("GPU Max Operating %sTemp" % word, "gpu_temp_max_gpu%s_threshold" % tag,
             "%d C" % limits["max_operating"]),
            ("GPU Target Temperature", "gpu_target_temperature", NA),
            ("Memory Current Temp", "memory_temp", "%d C" % gpu["temps"]["memory"]),
            ("Memory Max Operating %sTemp" % word, "gpu_temp_max_mem%s_threshold" % tag,
             "%d C" % limits["memory_max"]),
        ]),
        ("", "supported_gpu_target_temp", [
            ("", "gpu_target_temp_min", NA), ("", "gpu_target_temp_max", NA)]),
        ("GPU Power Readings", "gpu_power_readings", [
            ("", "power_state", "P0"),
            ("Power Draw", "power_draw", draw),
            ("Current Power Limit", "current_power_limit", limit),
            ("Requested Power Limit", "requested_power_limit", limit),
            ("Default Power Limit", "default_power_limit", "%.2f W" % kind["power"]),
            ("Min Power Limit", "min_power_limit", "%.2f W" % kind["power_min"]),
            ("Max Power Limit", "max_power_limit", "%.2f W" % kind["power"]),
        ]),
        ("Module Power Readings", "module_power_readings", [("", "power_state", "P0")] + [
            (label, label.lower().replace(" ", "_"), NA)
            for label in ("Power Draw", "Current Power Limit", "Requested Power Limit",
                          "Default Power Limit", "Min Power Limit", "Max Power Limit")
        ]),
    ]  # fmt: skip


def _clocks(board: Board, gpu: Gpu) -> list[Item]:
    kind = boards.spec(board)
    now, full, memory = physics.clocks(board, gpu), kind["clocks"], "%d MHz" % kind["mem_clock"]
    top = "%d MHz" % full["graphics"]
    wanted = physics.application_clock(board, gpu)
    return [
        ("Clocks", "clocks", _clock_items(now)),
        ("Applications Clocks", "applications_clocks", [
            ("Graphics", "graphics_clock", "%d MHz" % wanted),
            ("Memory", "mem_clock", memory)]),
        ("Default Applications Clocks", "default_applications_clocks", [
            ("Graphics", "graphics_clock", top), ("Memory", "mem_clock", memory)]),
        ("Deferred Clocks", "deferred_clocks", [("Memory", "mem_clock", NA)]),
        ("Max Clocks", "max_clocks", _clock_items(dict(full, mem=kind["mem_clock"]))),
        ("Max Customer Boost Clocks", "max_customer_boost_clocks", [
            ("Graphics", "graphics_clock", top)]),
        ("Clock Policy", "clock_policy", [
            ("Auto Boost", "auto_boost", NA), ("Auto Boost Default", "auto_boost_default", NA)]),
        ("Voltage", "voltage", [("Graphics", "graphics_volt", "725.000 mV")]),
    ]  # fmt: skip


def _clock_items(values: dict[str, int]) -> list[Item]:
    return [(label, tag, "%d MHz" % values[key]) for label, tag, key in (
        ("Graphics", "graphics_clock", "graphics"), ("SM", "sm_clock", "sm"),
        ("Memory", "mem_clock", "mem"), ("Video", "video_clock", "video"))]  # fmt: skip


def fabric_state(board: Board) -> tuple[str, str]:
    """State and status of the fabric registration: only Hopper and later take part."""
    if board["kind"] != "nvswitch" or boards.spec(board)["architecture"] == "Ampere":
        return NA, NA
    return ("Completed", "Success") if driver.fabric_running(board) else ("In Progress", NA)


def _rest(board: Board, gpu: Gpu) -> list[Item]:
    state, status = fabric_state(board)
    top = boards.spec(board)["clocks"]["graphics"]
    steps = [("", "supported_graphics_clock", "%d MHz" % clock) for clock in range(top, 209, -15)]
    memory = [("", "value", "%d MHz" % boards.spec(board)["mem_clock"])]
    return [
        ("Fabric", "fabric", [("State", "state", state), ("Status", "status", status)]),
        ("", "supported_clocks", [("", "supported_mem_clock", memory + steps)]),
        ("Processes", "", _process_text(gpu) if gpu["processes"] else "None"),
        ("", "processes", [("", "process_info", [
            ("", "gpu_instance_id", NA), ("", "compute_instance_id", NA),
            ("", "pid", str(process["pid"])), ("", "type", "C"),
            ("", "process_name", process["name"]),
            ("", "used_memory", "%d MiB" % process["mib"])]) for process in gpu["processes"]]),
        ("", "accounted_processes", []),
    ]  # fmt: skip


def _process_text(gpu: Gpu) -> list[Item]:
    items: list[Item] = []
    for process in gpu["processes"]:
        details = [
            ("Type", "", "C"),
            ("Name", "", process["name"]),
            ("Used GPU Memory", "", "%d MiB" % process["mib"]),
        ]
        items += [("GPU instance ID", "", NA), ("Compute instance ID", "", NA)]
        items.append(("Process ID", "", details))
    return items
