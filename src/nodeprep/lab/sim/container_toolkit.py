"""`nvidia-ctk` of the NVIDIA Container Toolkit 1.17: CDI specifications, and no more.

What a specification mounts is cut short to the libraries that tell which driver it is for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from . import board as boards
from . import driver, installed
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board

_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
_LIBRARIES = ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so")
_MISMATCH = "ERROR_LIB_RM_VERSION_MISMATCH"


def ctk(args: list[str], board: Board) -> Result:
    if args[:1] in (["--version"], ["-v"]):
        return Result(out="NVIDIA Container Toolkit CLI version 1.17.8\n")
    if args[:2] == ["cdi", "generate"]:
        return _generate(args[2:], board)
    if args[:2] == ["cdi", "list"]:
        return _list(args[2:])
    if args[:2] == ["system", "create-dev-char-symlinks"]:
        return Result()  # a lab node has no devices to link to
    return Result(1, err="No help topic for '%s'\n" % " ".join(args[:2]))


def _option(args: list[str], name: str) -> list[str]:
    """Every value of `--name value` and `--name=value`."""
    given = [arg.partition("=")[2] for arg in args if arg.startswith("--%s=" % name)]
    return given + [args[at + 1] for at, arg in enumerate(args[:-1]) if arg == "--" + name]


def _generate(args: list[str], board: Board) -> Result:
    trouble = driver.problem(board)
    if trouble:
        why = _MISMATCH if "mismatch" in trouble.out else "ERROR_DRIVER_NOT_LOADED"
        text = (
            "failed to generate CDI spec: failed to create device CDI specs: failed to initialize"
        )
        return Result(1, err=_said("error", "%s NVML: %s" % (text, why)))
    spec = _spec(board)
    output = _option(args, "output")
    if not output:
        return Result(out=spec)
    place = Path(output[0])
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".new")
    draft.write_text(spec, encoding="utf-8")
    draft.replace(place)
    return Result(err=_said("info", "Generated CDI spec with version 0.5.0"))


def _spec(board: Board) -> str:
    rows = ["---", "cdiVersion: 0.5.0", "containerEdits:", "  deviceNodes:"]
    rows += ["  - path: /dev/%s" % name for name in ("nvidia-uvm", "nvidia-uvm-tools", "nvidiactl")]
    rows += ["  env:", "  - NVIDIA_VISIBLE_DEVICES=void", "  mounts:"]
    for library in _LIBRARIES:
        path = "/usr/lib/x86_64-linux-gnu/%s.%s" % (library, installed.library(board))
        rows += ["  - containerPath: " + path, "    hostPath: " + path]
    rows += ["devices:"]
    gpus = list(enumerate(boards.usable(board)))
    for index, gpu in gpus:
        for name in (index, gpu["uuid"]):
            rows += _device(str(name), [index])
    rows += _device("all", [index for index, _ in gpus])
    return lines([*rows, "kind: nvidia.com/gpu"])


def _device(name: str, indices: list[int]) -> list[str]:
    nodes = ["    - path: /dev/nvidia%d" % index for index in indices]
    quoted = '"%s"' % name if name.isdigit() else name
    return ["- containerEdits:", "    deviceNodes:", *nodes, "  name: " + quoted]


def _list(args: list[str]) -> Result:
    found = set()
    for folder in _option(args, "spec-dir") or _SPEC_DIRS:
        for path in sorted(Path(folder).glob("*.yaml")):
            text = path.read_text(encoding="utf-8")
            kind = "".join(re.findall(r"^kind: (\S+)$", text, re.MULTILINE)[:1])
            names = re.findall(r'^  name: "?([^"\n]+)"?$', text, re.MULTILINE)
            found |= {"%s=%s" % (kind, name) for name in names}
    return Result(out=lines(sorted(found)), err=_said("info", "Found %d CDI devices" % len(found)))


def _said(level: str, text: str) -> str:
    return 'time="2024-06-10T00:00:00Z" level=%s msg="%s"\n' % (level, text)
