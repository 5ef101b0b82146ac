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


@dataclass(frozen=True)
class GpuHealth:
    """One GPU. None: the driver does not say (N/A, [N/A], ERR!, or no such field).

    bus      as nvidia-smi prints it, lower case; memory in MiB, temperatures in C
    ecc      uncorrectable errors since the driver was loaded; `sram_aggregate`: in its life
    remap_*  row remapping (Ampere and later); `retired`: pages (before Ampere)
    reasons  active reasons for low clocks, without their prefix; None: not told
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
            or _text(node, "power_readings/power_limit")
        ),
        reasons=_reasons(node),
        pcie_gen=whole(_text(link, "pcie_gen/current_link_gen")),
        pcie_gen_max=whole(_text(link, "pcie_gen/max_link_gen")),
        pcie_width=whole(_text(link, "link_widths/current_link_width")),
        pcie_width_max=whole(_text(link, "link_widths/max_link_width")),
    )


def _text(node: ET.Element | None, path: str) -> str | None:
    found = None if node is None else node.findtext(path)
    return found.strip() if found and found.strip() not in ("", "N/A", "[N/A]", "ERR!") else None


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
