"""The health of every GPU, out of `nvidia-smi -q -x`, in old and new drivers' spelling."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "nvidia-smi -q -x"
# Of the reasons why clocks are low, those that point at the hardware or its cooling.
HARDWARE_REASONS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
_WORDS = {"yes": True, "enabled": True, "active": True}
_WORDS |= {"no": False, "disabled": False, "not active": False}
_REASON_TAGS = ("clocks_event_reasons", "clocks_throttle_reasons")
# What a driver says in place of a value, bare or in brackets.
_UNSAID = ("n/a", "err!", "unknown error", "gpu is lost", "not supported", "insufficient perm",
           "requested functionality", "function not found", "unable to")  # fmt: skip


@dataclass(frozen=True)
class Process:
    """Who works on a GPU. `kind`: C compute, G graphics, or both; `memory_mib` None: not told."""

    pid: str
    name: str
    kind: str
    memory_mib: int | None


@dataclass(frozen=True)
class GpuHealth:
    """One GPU. None: the driver does not say (N/A, [N/A], ERR!, or no such field).

    bus      as nvidia-smi prints it, lower case; memory in MiB, temperatures in C
    ecc      uncorrectable errors since the driver was loaded; `sram_aggregate`: in its life
    remap_*  row remapping (Ampere and later); `retired`: pages (before Ampere)
    reasons  active reasons for low clocks, without their prefix; None: not told
    repairs  what the driver itself asks for: a reset, a repair that waits for one
    replays  of the PCIe link, since the GPU was reset; clocks of the SMs in MHz
    """

    bus: str
    model: str
    vbios: str | None
    memory_mib: int | None
    ecc_on: bool | None
    ecc_uncorrectable: int | None
    sram_aggregate: int | None
    remap_pending: bool | None
    remap_failure: bool | None
    retired: int | None
    retired_pending: bool | None
    temperature: float | None
    power_limit: float | None  # W
    reasons: tuple[str, ...] | None
    pcie_gen: int | None
    pcie_gen_max: int | None
    pcie_width: int | None
    pcie_width_max: int | None
    memory_used_mib: int | None = None
    ecc_corrected: int | None = None
    sram_exceeded: bool | None = None
    repairs: tuple[str, ...] = ()
    replays: int | None = None
    compute_mode: str | None = None
    sm_clock: int | None = None
    sm_clock_max: int | None = None
    processes: tuple[Process, ...] = ()


def parse_smi(text: str) -> tuple[GpuHealth, ...]:
    """ParseError for what is no whole document of nvidia-smi, or has no GPU."""
    body = clean(text)
    start, end = body.find("<nvidia_smi_log"), body.rfind("</nvidia_smi_log>")
    if start < 0 or end < start or "<!ENTITY" in body:
        raise ParseError(TOOL, f"no whole document in: {excerpt(text) or 'nothing'}")
    try:
        # Entities cannot be declared: what stands before the root is cut off.
        root = ET.fromstring(body[start : end + len("</nvidia_smi_log>")])  # noqa: S314
    except (ET.ParseError, ValueError) as problem:
        raise ParseError(TOOL, f"broken XML ({problem})") from None
    gpus = tuple(_gpu(node) for node in root.findall("gpu"))
    if not gpus:
        raise ParseError(TOOL, "no GPU in the document")
    return gpus


def parse_smi_samples(text: str) -> tuple[tuple[GpuHealth, ...], ...]:
    """Several documents, one after another; all must be whole."""
    first, *documents = clean(text).split("<nvidia_smi_log")
    if not documents:
        raise ParseError(TOOL, f"no document in: {excerpt(first) or 'nothing'}")
    return tuple(parse_smi(f"<nvidia_smi_log{document}") for document in documents)


def _gpu(node: ET.Element) -> GpuHealth:
    ecc, remap = node.find("ecc_errors"), node.find("remapped_rows")
    link = node.find("pci/pci_gpu_link_info")
    return GpuHealth(
        bus=node.get("id", "").lower(),
        model=_text(node, "product_name") or "",
        vbios=_text(node, "vbios_version"),
        memory_mib=whole(_text(node, "fb_memory_usage/total")),
        ecc_on=_flag(_text(node, "ecc_mode/current_ecc")),
        ecc_uncorrectable=_uncorrectable(None if ecc is None else ecc.find("volatile")),
        sram_aggregate=_sram(None if ecc is None else ecc.find("aggregate")),
        remap_pending=_flag(_text(remap, "remapped_row_pending")),
        remap_failure=_flag(_text(remap, "remapped_row_failure")),
        retired=_retired(node),
        retired_pending=_flag(
            _text(node, "retired_pages/pending_retirement")
            or _text(node, "retired_pages/pending_blacklist")
        ),
        temperature=number(_text(node, "temperature/gpu_temp")),
        power_limit=number(
            _text(node, "gpu_power_readings/current_power_limit")
            or _text(node, "gpu_power_readings/power_limit")
            or _text(node, "power_readings/power_limit")
        ),
        reasons=_reasons(node),
        pcie_gen=whole(_text(link, "pcie_gen/current_link_gen")),
        pcie_gen_max=whole(_text(link, "pcie_gen/max_link_gen")),
        pcie_width=whole(_text(link, "link_widths/current_link_width")),
        pcie_width_max=whole(_text(link, "link_widths/max_link_width")),
        memory_used_mib=whole(_text(node, "fb_memory_usage/used")),
        ecc_corrected=_corrected(None if ecc is None else ecc.find("volatile")),
        sram_exceeded=_flag(_text(ecc, "aggregate/sram_threshold_exceeded")),
        repairs=_repairs(node, ecc),
        replays=whole(_text(node, "pci/replay_counter")),
        compute_mode=_text(node, "compute_mode"),
        sm_clock=whole(_text(node, "clocks/sm_clock")),
        sm_clock_max=whole(_text(node, "max_clocks/sm_clock")),
        processes=tuple(_process(one) for one in node.findall("processes/process_info")),
    )


def _text(node: ET.Element | None, path: str) -> str | None:
    found = (None if node is None else node.findtext(path)) or ""
    bare = found.strip().strip("[]").strip().lower()
    return found.strip() if bare and not bare.startswith(_UNSAID) else None


def _process(node: ET.Element) -> Process:
    return Process(
        pid=_text(node, "pid") or "?",
        name=_text(node, "process_name") or "?",
        kind=_text(node, "type") or "?",
        memory_mib=whole(_text(node, "used_memory")),
    )


def _repairs(node: ET.Element, ecc: ET.Element | None) -> tuple[str, ...]:
    """Drivers ask by flags (525 to 565), then by an action (from 570 on)."""
    flags = {
        "a reset": _flag(_text(node, "gpu_reset_status/reset_required")),
        "drain and reset": _flag(_text(node, "gpu_reset_status/drain_and_reset_recommended")),
        "channel repair": _flag(_text(ecc, "channel_repair_pending")),
        "TPC repair": _flag(_text(ecc, "tpc_repair_pending")),
    }
    action = _text(node, "gpu_recovery_action") or "None"
    return (*(name for name, so in flags.items() if so), *((action,) if action != "None" else ()))


def _flag(word: str | None) -> bool | None:
    return _WORDS.get((word or "").strip().lower())


def _uncorrectable(ecc: ET.Element | None) -> int | None:
    """SRAM and DRAM together; before Ampere the double-bit total. None if any part is unknown."""
    if ecc is None:
        return None
    old = whole(_text(ecc, "double_bit/total"))
    if old is not None:
        return old
    sram, dram = _sram(ecc), whole(_text(ecc, "dram_uncorrectable"))
    return None if sram is None or dram is None else sram + dram


def _corrected(ecc: ET.Element | None) -> int | None:
    old = whole(_text(ecc, "single_bit/total"))
    if old is not None:
        return old
    counts = [whole(_text(ecc, name)) for name in ("sram_correctable", "dram_correctable")]
    return None if None in counts else sum(count for count in counts if count is not None)


def _sram(ecc: ET.Element | None) -> int | None:
    """From driver 535 on SRAM errors may be told in two parts: parity and SEC-DED."""
    if ecc is None:
        return None
    one = whole(_text(ecc, "sram_uncorrectable"))
    if one is not None:
        return one
    parity = whole(_text(ecc, "sram_uncorrectable_parity"))
    secded = whole(_text(ecc, "sram_uncorrectable_secded"))
    return None if parity is None or secded is None else parity + secded


def _retired(node: ET.Element) -> int | None:
    counts = [
        whole(_text(node, f"retired_pages/{cause}/retired_count"))
        for cause in ("multiple_single_bit_retirement", "double_bit_retirement")
    ]
    return None if None in counts else sum(count for count in counts if count is not None)


def _reasons(node: ET.Element) -> tuple[str, ...] | None:
    block = next((found for tag in _REASON_TAGS if (found := node.find(tag)) is not None), None)
    flags = {} if block is None else {_short(child.tag): _flag(child.text) for child in block}
    known = {reason: flags.get(reason) for reason in HARDWARE_REASONS}
    if None in known.values():
        return None
    return tuple(name for name, active in flags.items() if active)


def _short(tag: str) -> str:
    for prefix in ("clocks_event_reason_", "clocks_throttle_reason_"):
        tag = tag.removeprefix(prefix)
    return tag
