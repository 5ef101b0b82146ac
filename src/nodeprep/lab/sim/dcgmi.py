"""`dcgmi` of DCGM 3.3: `diag` (also `-j`), `discovery -l`, `--version`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import board as boards
from . import driver, physics
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board, Gpu

_SOFTWARE = ("Denylist", "NVML Library", "CUDA Main Library", "Permissions and OS Blocks",
             "Persistence Mode", "Environment Variables", "Page Retirement/Row Remap",
             "Graphics Processes", "Inforom")  # fmt: skip
# Level from which a test runs, its category and its name.
_HARDWARE = (
    (2, "Integration", "PCIe"),
    (2, "Hardware", "GPU Memory"),
    (3, "Hardware", "Diagnostic"),
    (3, "Stress", "Targeted Stress"),
    (3, "Stress", "Targeted Power"),
    (3, "Stress", "Memory Bandwidth"),
    (4, "Hardware", "Memtest"),
    (4, "Hardware", "Pulse Test"),
)
_NAMED_LEVELS = {"quick": 1, "medium": 2, "long": 3, "xlong": 4}


def run(args: list[str], board: Board) -> Result:
    if "--version" in args or "-v" in args[:1]:
        return Result(out="dcgmi  version: 3.3.5\n")
    verb = args[0] if args else ""
    if verb not in ("diag", "discovery"):
        return Result(1, err="Error: Invalid subsystem. See 'dcgmi --help'.\n")
    if driver.problem(board):
        return Result(255, "Error: Unable to complete. Reason: DCGM initialization error\n")
    if verb == "discovery":
        return _discovery(board)
    level = _level(args)
    if not level:
        return Result(255, "Error: Invalid test level.\n")
    physics.put_under_load(board)
    categories = diagnose(board, level)
    failed = any(result["status"] == "Fail" for category in categories
                 for test in category["tests"] for result in test["results"])  # fmt: skip
    text = _json(board, categories) if "-j" in args or "--json" in args else _table(categories)
    return Result(226 if failed else 0, text)


def _level(args: list[str]) -> int:
    for option in ("-r", "--run"):
        if option in args[:-1]:
            word = args[args.index(option) + 1]
            return _NAMED_LEVELS.get(word) or (int(word) if word in ("1", "2", "3", "4") else 0)
    return 0


def diagnose(board: Board, level: int) -> list[dict[str, Any]]:
    """Test categories in DCGM's own shape: tests, each with results and, if bad, warnings."""
    gpus = boards.usable(board)
    everyone = ",".join(str(index) for index in range(len(gpus)))
    deployment = []
    for name in _SOFTWARE:
        warnings = [text for index, gpu in enumerate(gpus)
                    for text in _software(board, name, index, gpu)]  # fmt: skip
        deployment.append({"name": name, "results": [_result(everyone, warnings)]})
    categories: list[dict[str, Any]] = [{"category": "Deployment", "tests": deployment}]
    for first, category, name in _HARDWARE:
        if level < first:
            continue
        results = [dict(_result(str(index), _hardware(board, name, index, gpu)),
                        **_figures(board, name, index, gpu))
                   for index, gpu in enumerate(gpus)]  # fmt: skip
        test = {"name": name, "results": results}
        known = next((c for c in categories if c["category"] == category), None)
        if known:
            known["tests"].append(test)
        else:
            categories.append({"category": category, "tests": [test]})
    return categories


def _result(gpus: str, warnings: list[str]) -> dict[str, Any]:
    if not warnings:
        return {"gpu_ids": gpus, "status": "Pass"}
    status = "Warn" if warnings[0].startswith("Persistence") else "Fail"
    return {"gpu_ids": gpus, "status": status, "warnings": [
        {"warning": text, "error_id": 1, "error_category": 1, "error_severity": 2}
        for text in warnings]}  # fmt: skip


def _software(board: Board, name: str, index: int, gpu: Gpu) -> list[str]:
    remap, retired = gpu["remap"], gpu["retired"] or {}
    if name == "Persistence Mode" and not gpu["persistence"]:
        return ["Persistence mode for GPU %d is disabled. Enable persistence mode by running "
                "\"nvidia-smi -i %d -pm 1 \" as root." % (index, index)]  # fmt: skip
    if name == "Page Retirement/Row Remap":
        if remap["failure"]:
            return ["GPU %d had uncorrectable memory errors and row remapping failed. Run a field "
                    "diagnostic on the GPU." % index]  # fmt: skip
        if remap["pending"] or retired.get("pending"):
            return ["A pending row remap was detected on GPU %d. Reset the GPU." % index]
    if name == "CUDA Main Library" and driver.cuda_problem(board):
        return ["CUDA: %s" % driver.cuda_problem(board)]
    return []


def _hardware(board: Board, name: str, index: int, gpu: Gpu) -> list[str]:
    kind = boards.spec(board)
    errors = gpu["ecc"]["volatile"]
    if name in ("GPU Memory", "Memtest", "Diagnostic"):
        bad = errors["dram_uncorrectable"] + errors["sram_uncorrectable"]
        if bad:
            return ["Detected %d volatile double-bit ECC errors for GPU %d." % (bad, index)]
    if name == "PCIe" and (gpu["pcie"]["gen"] < kind["gen"] or gpu["pcie"]["width"] < 16):
        return ["GPU %d: PCIe bandwidth %.1f GB/s is below the minimum" % (
            index, physics.host_link(board, gpu))]  # fmt: skip
    if name.startswith("Targeted") and physics.clock_factor(board, gpu) < 0.9:
        return ["GPU %d: clocks are throttled (%s)" % (
            index, ", ".join(sorted(gpu["throttle"])) or "power or clock limit")]  # fmt: skip
    return []


def _figures(board: Board, name: str, index: int, gpu: Gpu) -> dict[str, Any]:
    """What a test tells beside its status, as with -v."""
    if name == "PCIe":
        link = physics.host_link(board, gpu)
        ways = (("GPU to Host bandwidth:\t\t", 1.012), ("Host to GPU bandwidth:\t\t", 1.0),
                ("bidirectional bandwidth:\t", 1.44))  # fmt: skip
        return {"info": ["GPU %d %s%.2f GB/s" % (index, way, link * part) for way, part in ways]}
    if name == "Targeted Stress":
        level = boards.spec(board)["sms"] * 170 * physics.clock_factor(board, gpu)
        return {"info": ["GPU %d relative stress level:\t%d" % (index, level)]}
    return {}


def _json(board: Board, categories: list[dict[str, Any]]) -> str:
    gpus = boards.usable(board)
    return json.dumps({"DCGM GPU Diagnostic": {
        "Driver Version Detected": driver.version(board),
        "GPU Device IDs": [boards.spec(board)["device"]] * len(gpus),
        "GPU Device Serials": {str(index): gpu["serial"] for index, gpu in enumerate(gpus)},
        "test_categories": categories,
        "version": "3.3.5",
    }}, indent=2) + "\n"  # fmt: skip


def _table(categories: list[dict[str, Any]]) -> str:
    rule = "+" + "-" * 27 + "+" + "-" * 48 + "+"
    rows = ["Successfully ran diagnostic for group.", rule,
            "| %-25s | %-46s |" % ("Diagnostic", "Result"),
            "+" + "=" * 27 + "+" + "=" * 48 + "+"]  # fmt: skip
    for category in categories:
        rows.append(("|-----  %s  " % category["category"]).ljust(28, "-") + "+" + "-" * 48 + "|")
        for test in category["tests"]:
            for result in test["results"]:
                word = result["status"]
                if category["category"] != "Deployment":
                    word += " - GPU: " + result["gpu_ids"]
                rows.append("| %-25s | %-46s |" % (test["name"], word))
                rows += ["| %-25s | %-46s |" % ("Warning", warning["warning"][:46])
                         for warning in result.get("warnings", [])]  # fmt: skip
    return lines([*rows, rule])


def _discovery(board: Board) -> Result:
    gpus = boards.usable(board)
    rule = "+--------+----------------------------------------------------------------------+"
    rows = ["%d GPUs found." % len(gpus), rule,
            "| GPU ID | Device Information                                                   |",
            rule]  # fmt: skip
    for index, gpu in enumerate(gpus):
        texts = ("Name: " + boards.spec(board)["name"],
                 "PCI Bus ID: 0000" + gpu["address"].upper(),
                 "Device UUID: " + gpu["uuid"])  # fmt: skip
        rows += ["| %-6s | %-68s |" % (index if number == 0 else "", text)
                 for number, text in enumerate(texts)]  # fmt: skip
        rows.append(rule)
    switches = board["nvswitches"]
    rows += ["%d NvSwitches found." % len(switches), "+-----------+", "| Switch ID |",
             "+-----------+"]  # fmt: skip
    rows += ["| %-9d |" % number for number in range(len(switches))]
    return Result(out=lines([*rows, "+-----------+"]))
