"""Judges of the kernel: its modules, and the words on its command line."""

from __future__ import annotations

from nodeprep.judge import text
from nodeprep.judge.finding import Finding, unknown
from nodeprep.judge.shapes import KernelArgumentData, ModuleData
from nodeprep.judge.versions import release_key
from nodeprep.model.claim import KernelArgument, Module

# --- modules -------------------------------------------------------------------------------------


def wanted_module(claim: Module) -> str:
    loaded = "loaded" if claim.loaded else "not loaded"
    return f"{loaded}, and there for every kernel that may be booted" if claim.built else loaded


def judge_module(claim: Module, data: ModuleData) -> Finding:
    found = _judge_loaded(claim, data)
    if not claim.built:
        return found
    if data.running is None or data.kernels is None or data.running not in data.kernels:
        return unknown("no kernel was found in /boot and /lib/modules", read=found.read)
    bootable = _bootable(data.running, data.kernels)
    lacking = [kernel for kernel in bootable if not data.kernels[kernel]]
    there = f"{'not ' if lacking else ''}there for {text.listed(lacking or bootable)}"
    problems = tuple(_lack(claim.name, kernel, data.running) for kernel in lacking)
    return Finding(f"{found.read}; {there}", (*found.problems, *problems))


def _judge_loaded(claim: Module, data: ModuleData) -> Finding:
    read = "loaded" if data.loaded else "built into the kernel" if data.builtin else "not loaded"
    if claim.loaded:
        fine = data.loaded or data.builtin
        return Finding(read, () if fine else (f"module {claim.name} is not loaded",))
    if data.builtin:
        return Finding(read, (f"{claim.name} is built into this kernel",))
    return Finding(read, (f"module {claim.name} is loaded",) if data.loaded else ())


def _bootable(running: str, kernels: dict[str, bool]) -> list[str]:
    """The kernel that runs, and the newer ones: a boot takes the newest that is installed."""
    newer = [kernel for kernel in kernels if release_key(kernel) >= release_key(running)]
    return sorted(newer, key=lambda kernel: (release_key(kernel), kernel))


def _lack(module: str, kernel: str, running: str) -> str:
    if kernel == running:
        return f"the running kernel {kernel} has no module {module}"
    return f"kernel {kernel} is installed and has no module {module}: a reboot would lose it"


# --- the command line ----------------------------------------------------------------------------


def wanted_argument(claim: KernelArgument) -> str:
    word = claim.name if claim.value is None else f"{claim.name}={claim.value}"
    return f"{'no ' if claim.state == 'absent' else ''}{word}, now and after a boot"


def judge_argument(claim: KernelArgument, data: KernelArgumentData) -> Finding:
    wanted = [] if claim.state == "absent" else [claim.value or ""]
    running, persisted = (_words(claim.name, v) for v in (data.running, data.persisted))
    problems = []
    is_running = list(dict.fromkeys(data.running)) == wanted
    if not is_running:
        problems.append(f"the running kernel has {running}")
    if list(dict.fromkeys(data.persisted)) != wanted:
        files = text.listed(data.configured_in)
        behind = f"; {files} names it: update-grub was not run, or another file overrides it"
        problems.append(
            f"the next boot has {persisted} ({data.persisted_in}){behind if files else ''}"
        )
    read = f"{running} running, {persisted} at the next boot"
    return Finding(read, tuple(problems), reboot=not is_running)


def _words(name: str, values: list[str]) -> str:
    return " ".join(f"{name}={value}" if value else name for value in values) or f"no {name}"
