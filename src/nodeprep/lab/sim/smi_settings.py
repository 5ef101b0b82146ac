"""`nvidia-smi -pm/-e/-mig/-pl/-lgc/-rgc/-ac/-rac/-c/-p/-r`: settings that the board keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from .result import Result
from .smi_tree import able, bus_id

if TYPE_CHECKING:
    from .board import Board, Gpu

_DONE = "All done.\n"
_ON = {"1": True, "ENABLED": True, "0": False, "DISABLED": False}
_MODES = {"0": "Default", "DEFAULT": "Default", "2": "Prohibited", "PROHIBITED": "Prohibited",
          "3": "Exclusive_Process", "EXCLUSIVE_PROCESS": "Exclusive_Process"}  # fmt: skip


def _bad(option: str, value: str) -> Result:
    return Result(2, 'Invalid argument for option %s: "%s"\n' % (option, value))


def persistence(board: Board, gpus: list[Gpu], value: str) -> Result:
    if value.upper() not in _ON:
        return _bad("-pm", value)
    on = _ON[value.upper()]
    text = ""
    for gpu in gpus:
        word = "already " if gpu["persistence"] is on else ""
        text += "Persistence mode is %s%s for GPU %s.\n" % (word, able(on), bus_id(gpu)) if word \
            else "%s persistence mode for GPU %s.\n" % (able(on), bus_id(gpu))  # fmt: skip
        gpu["persistence"] = on
    return Result(out=text + _DONE)


def ecc(board: Board, gpus: list[Gpu], value: str) -> Result:
    """Takes hold at the next reboot."""
    if value.upper() not in _ON:
        return _bad("-e", value)
    on = _ON[value.upper()]
    text = ""
    for gpu in gpus:
        if gpu["ecc"]["pending"] is on:
            text += "ECC support is already %s for GPU %s.\n" % (able(on), bus_id(gpu))
        else:
            text += "%s ECC support for GPU %s.\n" % (able(on), bus_id(gpu))
        gpu["ecc"]["pending"] = on
    changed = any(gpu["ecc"]["pending"] is not gpu["ecc"]["mode"] for gpu in gpus)
    return Result(out=text + _DONE + ("Reboot required.\n" if changed else ""))


def mig(board: Board, gpus: list[Gpu], value: str) -> Result:
    """At once on an idle GPU; one in use keeps it pending until a reset."""
    if value.upper() not in _ON:
        return _bad("-mig", value)
    on = _ON[value.upper()]
    text = ""
    for gpu in gpus:
        gpu["mig"]["pending"] = on
        if gpu["processes"]:
            state = "pending enable" if on else "pending disable"
            text += "Warning: MIG mode is in %s state for GPU %s:" % (state, bus_id(gpu))
            text += "In use by another client\n"
            continue
        if gpu["mig"]["current"] is not on:
            gpu["mig"]["instances"] = []
        gpu["mig"]["current"] = on
        text += "%s MIG Mode for GPU %s\n" % (able(on), bus_id(gpu))
    return Result(out=text + _DONE)


def power_limit(board: Board, gpus: list[Gpu], value: str) -> Result:
    kind = boards.spec(board)
    try:
        watts = float(value)
    except ValueError:
        return _bad("-pl", value)
    if not kind["power_min"] <= watts <= kind["power"]:
        text = "Provided power limit %.2f W is not a valid power limit which should be between " \
            "%.2f W and %.2f W for GPU %s\n" % (
                watts, kind["power_min"], kind["power"], bus_id(gpus[0]))  # fmt: skip
        return Result(2, text + "Terminating early due to previous errors.\n")
    text = ""
    for gpu in gpus:
        text += "Power limit for GPU %s was set to %.2f W from %.2f W.\n" % (
            bus_id(gpu), watts, gpu["power"]["limit"])  # fmt: skip
        gpu["power"]["limit"] = watts
    return Result(out=text + _DONE)


def lock_clocks(board: Board, gpus: list[Gpu], value: str) -> Result:
    words = value.split(",")
    if not all(word.isdigit() for word in words) or len(words) > 2:
        return _bad("-lgc", value)
    low, high = int(words[0]), int(words[-1])
    text = ""
    for gpu in gpus:
        gpu["locked_clocks"] = [low, min(high, boards.spec(board)["clocks"]["sm"])]
        text += 'GPU clocks set to "(gpuClkMin %d, gpuClkMax %d)" for GPU %s\n' % (
            low, high, bus_id(gpu))  # fmt: skip
    return Result(out=text + _DONE)


def reset_clocks(board: Board, gpus: list[Gpu], _: str) -> Result:
    text = ""
    for gpu in gpus:
        gpu["locked_clocks"] = None
        text += "All done resetting GPU clocks for GPU %s\n" % bus_id(gpu)
    return Result(out=text + _DONE)


def application_clocks(board: Board, gpus: list[Gpu], value: str) -> Result:
    """Memory and graphics in MHz: the one memory clock, and graphics in steps of 15 MHz."""
    kind = boards.spec(board)
    words = value.split(",")
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return _bad("-ac", value)
    memory, graphics = int(words[0]), int(words[1])
    if memory != kind["mem_clock"] or graphics > kind["clocks"]["graphics"] or graphics % 15:
        return Result(2, 'Specified clock combination "(MEM %d, SM %d)" is not supported for GPU '
                      "%s. Run 'nvidia-smi -q -d SUPPORTED_CLOCKS' to see list of supported clock "
                      "combinations\n" % (memory, graphics, bus_id(gpus[0])))  # fmt: skip
    text = ""
    for gpu in gpus:
        gpu["application_clocks"] = [memory, graphics]
        text += 'Applications clocks set to "(MEM %d, SM %d)" for GPU %s\n' % (
            memory, graphics, bus_id(gpu))  # fmt: skip
    return Result(out=text + _DONE)


def reset_application_clocks(board: Board, gpus: list[Gpu], _: str) -> Result:
    text = ""
    for gpu in gpus:
        gpu["application_clocks"] = None
        text += "All done resetting applications clocks for GPU %s\n" % bus_id(gpu)
    return Result(out=text + _DONE)


def compute_mode(board: Board, gpus: list[Gpu], value: str) -> Result:
    if value.upper() not in _MODES:
        return _bad("-c", value)
    text = ""
    for gpu in gpus:
        gpu["compute_mode"] = _MODES[value.upper()]
        text += "Set compute mode to %s for GPU %s.\n" % (
            gpu["compute_mode"].upper(), bus_id(gpu))  # fmt: skip
    return Result(out=text + _DONE)


def clear_ecc(board: Board, gpus: list[Gpu], value: str) -> Result:
    spans = {"0": "volatile", "VOLATILE": "volatile", "1": "aggregate", "AGGREGATE": "aggregate"}
    if value.upper() not in spans:
        return _bad("-p", value)
    text = ""
    for gpu in gpus:
        gpu["ecc"][spans[value.upper()]] = dict.fromkeys(boards.COUNTERS, 0)
        text += "Reset %s ECC errors for GPU %s.\n" % (spans[value.upper()], bus_id(gpu))
    return Result(out=text + _DONE)


def reset(board: Board, gpus: list[Gpu], _: str) -> Result:
    """A reset maps pending rows out and clears what is volatile; one in use is refused."""
    text = ""
    for gpu in gpus:
        if gpu["processes"]:
            text = "The following GPUs could not be reset:\n  GPU %s: In use by another client\n\n"
            return Result(3, text % bus_id(gpu) + "1 device is currently being used by one or more "
                          "other processes (e.g., Fabric Manager, CUDA application, graphics "
                          "application such as an X server, or a monitoring application such as "
                          "another instance of nvidia-smi).\n")  # fmt: skip
        gpu["remap"]["pending"] = False
        gpu["reset_required"] = False
        gpu["ecc"]["mode"] = gpu["ecc"]["pending"]
        gpu["ecc"]["volatile"] = dict.fromkeys(boards.COUNTERS, 0)
        gpu["mig"]["current"] = gpu["mig"]["pending"]
        text += "GPU %s was successfully reset.\n" % bus_id(gpu)
    return Result(out=text + _DONE)
