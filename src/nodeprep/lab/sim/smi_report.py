"""`nvidia-smi -q` and `-q -x`: the tree of each GPU, written as text or as XML."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from . import board as boards
from . import driver, smi_formats
from .smi_tree import bus_id, tree

if TYPE_CHECKING:
    from .board import Board, Gpu
    from .smi_tree import Item


def _now() -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y")


def as_xml(board: Board, gpus: list[Gpu]) -> str:
    rows = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v%d.dtd">'
        % (12 if smi_formats.branch(driver.version(board)) >= 525 else 11),
        "<nvidia_smi_log>",
        "\t<timestamp>%s</timestamp>" % _now(),
        "\t<driver_version>%s</driver_version>" % driver.version(board),
        "\t<cuda_version>%s</cuda_version>" % driver.cuda_version(board),
        "\t<attached_gpus>%d</attached_gpus>" % len(boards.enumerated(board)),
    ]
    for gpu in gpus:
        rows.append('\t<gpu id="%s">' % bus_id(gpu))
        items = tree(board, gpu)
        rows += _xml(_blank(items) if gpu["state"] == "lost" else items, 2)
        rows.append("\t</gpu>\n")
    return "\n".join([*rows, "</nvidia_smi_log>"]) + "\n"


def _xml(items: list[Item], depth: int) -> list[str]:
    rows = []
    for _, tag, value in items:
        if not tag:
            continue
        if isinstance(value, list):
            rows.append("%s<%s>" % ("\t" * depth, tag))
            rows += _xml(value, depth + 1)
            rows.append("%s</%s>" % ("\t" * depth, tag))
        else:
            rows.append("%s<%s>%s</%s>" % ("\t" * depth, tag, escape(str(value)), tag))
    return rows


_KNOWN = ("product_name", "serial", "uuid", "minor_number", "pci_bus_id", "pci_bus", "pci_device",
          "pci_domain", "pci_device_id", "pci_sub_system_id")  # fmt: skip


def _blank(items: list[Item]) -> list[Item]:
    """A GPU that is lost still has its name and place; all else is an error."""
    return [
        (label, tag, _blank(value) if isinstance(value, list) else
         value if tag in _KNOWN else "GPU is lost")
        for label, tag, value in items
    ]  # fmt: skip


def as_text(board: Board, gpus: list[Gpu]) -> str:
    rows = [
        "",
        "==============NVSMI LOG==============",
        "",
        _line("Timestamp", _now(), 0),
        _line("Driver Version", driver.version(board), 0),
        _line("CUDA Version", driver.cuda_version(board), 0),
        "",
        _line("Attached GPUs", str(len(boards.enumerated(board))), 0),
    ]
    for gpu in gpus:
        rows.append("GPU " + bus_id(gpu))
        items = tree(board, gpu)
        rows += _text(_blank(items) if gpu["state"] == "lost" else items, 1)
        rows.append("")
    return "\n".join(rows) + "\n"


def _line(label: str, value: str, depth: int) -> str:
    return ("    " * depth + label).ljust(42) + ": " + value


_HEX = {"pci_bus", "pci_device", "pci_domain", "pci_device_id", "pci_sub_system_id"}


def _text(items: list[Item], depth: int) -> list[str]:
    rows = []
    for label, tag, value in items:
        if not label:
            continue
        if isinstance(value, list):
            rows.append("    " * depth + label)
            rows += _text(value, depth + 1)
        else:
            rows.append(_line(label, ("0x" if tag in _HEX else "") + str(value), depth))
    return rows
