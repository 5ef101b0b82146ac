"""Judges of what the system runs: packages, services, the kernel's settings, tools."""

from __future__ import annotations

import re

from nodeprep.judge import text
from nodeprep.judge.finding import Finding, unknown
from nodeprep.judge.shapes import (
    GovernorData,
    GpuData,
    OutputData,
    PackageData,
    ServiceData,
    SysctlData,
)
from nodeprep.model.claim import Governor, Gpu, Output, Package, Service, Sysctl

# --- packages ------------------------------------------------------------------------------------


def wanted_package(claim: Package) -> str:
    if claim.state == "absent":
        return "not installed"
    held = "" if claim.held is None else ", held" if claim.held else ", not held"
    return f"{claim.version or 'installed'}{held}"


def judge_package(claim: Package, data: PackageData) -> Finding:
    if data.version is None:
        read = "not installed"
        absent = claim.state == "absent"
        return Finding(read, () if absent else (f"{claim.name} is not installed",))
    read = data.version + (", held" if data.held else "")
    if claim.state == "absent":
        return Finding(read, (f"{claim.name} must not be installed",))
    problems = []
    if claim.version is not None and data.version != claim.version:
        problems.append(f"version {data.version} is installed, not {claim.version}")
    if claim.held is not None and claim.held != data.held:
        problems.append("it is not held" if claim.held else "it is held")
    if data.error:
        problems.append(f"dpkg left it {data.error}")
    action = "run `dpkg --configure -a` on the node, then provision" if data.error else ""
    return Finding(read, tuple(problems), action=action)


# --- services ------------------------------------------------------------------------------------

# Words of `systemctl is-enabled` for units that something starts at boot …
_ENABLED = frozenset({"enabled", "static", "alias", "indirect", "generated"})
# … and that nothing does of its own. A static unit is neither: it has nothing to enable.
_DISABLED = frozenset({"disabled", "masked", "static", "indirect", ""})


def wanted_service(claim: Service) -> str:
    says = {
        ("enabled", True): "enabled",
        ("enabled", False): "disabled",
        ("active", True): "active",
        ("active", False): "stopped",
        ("masked", True): "masked",
        ("masked", False): "not masked",
    }
    words = [
        says[key, value]
        for key in ("enabled", "active", "masked")
        if (value := getattr(claim, key)) is not None
    ]
    return ", ".join(words) or "a unit that exists"


def judge_service(claim: Service, data: ServiceData) -> Finding:
    if not data.load_state or not data.active:
        return unknown("systemd did not say what it knows of this unit")
    gone = data.load_state == "not-found"
    read = ", ".join(filter(None, (data.enabled or data.load_state, data.active, data.sub)))
    if gone and (claim.enabled or claim.active or _claims_nothing(claim)):
        return Finding(read, (f"there is no unit {claim.name}",))
    if data.load_state in ("error", "bad-setting") and claim.masked is not True:
        return Finding(read, (f"its unit file is broken ({data.load_state})",))
    problems = [*_boot_problems(claim, data), *_run_problems(claim, data)]
    return Finding(read, tuple(problems))


def _claims_nothing(claim: Service) -> bool:
    return claim.enabled is None and claim.active is None and claim.masked is None


def _boot_problems(claim: Service, data: ServiceData) -> list[str]:
    problems = []
    if claim.enabled is True and data.enabled not in _ENABLED:
        until = " until the next boot only" if data.enabled == "enabled-runtime" else ""
        problems.append(f"it is {data.enabled or 'not enabled'}{until}, not enabled")
    if claim.enabled is False and data.enabled not in _DISABLED:
        problems.append(f"it is {data.enabled}, not disabled")
    masked = "masked" in (data.enabled, data.load_state) and data.enabled != "masked-runtime"
    if claim.masked is not None and claim.masked != masked:
        problems.append("it is not masked" if claim.masked else "it is masked")
    return problems


def _run_problems(claim: Service, data: ServiceData) -> list[str]:
    running = data.active in ("active", "reloading")
    if claim.active is True and not running:
        return [f"it is {data.active} ({data.sub}), not active" if data.sub else "it is not active"]
    if claim.active is False and data.active not in ("inactive", "failed"):
        return [f"it is {data.active}, and must be stopped"]
    return []


# --- kernel --------------------------------------------------------------------------------------


def wanted_sysctl(claim: Sysctl) -> str:
    return f"{' '.join(claim.value.split())}, now and after a boot"


def judge_sysctl(claim: Sysctl, data: SysctlData) -> Finding:
    wanted = " ".join(claim.value.split())
    running = None if data.running is None else " ".join(data.running.split())
    persisted = None if data.persisted is None else " ".join(data.persisted.split())
    where = data.persisted_in or "?"
    at_boot = "set nowhere at boot" if persisted is None else f"{persisted} at boot ({where})"
    if running is None:
        problems = ["this kernel has no such parameter (is the module that brings it loaded?)"]
        return Finding(f"no such parameter, {at_boot}", tuple(problems))
    problems = []
    if running != wanted:
        problems.append(f"the running value is {running}, not {wanted}")
    if persisted is None:
        problems.append("nothing sets it at boot")
    elif persisted != wanted:
        problems.append(f"the next boot sets {persisted}, from {where}")
    return Finding(f"{running} running, {at_boot}", tuple(problems))


def wanted_governor(claim: Governor) -> str:
    return f"{claim.value} on every CPU"


def judge_governor(claim: Governor, data: GovernorData) -> Finding:
    if not data.values:
        return unknown(
            "no CPU shows a frequency governor",
            read="no cpufreq",
            action="if this class of machine has none, say so in its profile (platform.cpufreq)",
        )
    read = ", ".join(f"{name} on {count} CPUs" for name, count in sorted(data.values.items()))
    others = {name: count for name, count in data.values.items() if name != claim.value}
    if others or data.values.get(claim.value, 0) < 1:
        count = sum(others.values())
        return Finding(read, (f"{text.plural(count, 'CPU')} not governed by {claim.value}",))
    return Finding(read)


# --- tools ---------------------------------------------------------------------------------------


def wanted_gpu(claim: Gpu) -> str:
    return f"{text.switch(claim.value)} on every GPU"


def judge_gpu(claim: Gpu, data: GpuData) -> Finding:
    if not data.values:
        return unknown("nvidia-smi lists no GPU", read="no GPU")
    unsaid = [address for address, value in sorted(data.values.items()) if value is None]
    other = [
        (address, value)
        for address, value in sorted(data.values.items())
        if value is not None and not _same(value, claim.value)
    ]
    read = text.listed([f"{a}: {text.switch(v)}" for a, v in sorted(data.values.items())])
    if other:
        said = text.listed([f"{text.switch(value)} on {address}" for address, value in other])
        return Finding(read, (f"it is {said}",))
    if unsaid:
        return unknown(
            f"the driver does not say it of {text.listed(unsaid)}",
            read=read,
            action="look for XID lines in the kernel's log; power the node off and on",
        )
    return Finding(f"{text.switch(claim.value)} on {text.plural(len(data.values), 'GPU')}")


def _same(read: object, wanted: object) -> bool:
    if isinstance(read, bool) or isinstance(wanted, bool):
        return read is wanted
    if isinstance(read, int | float) and isinstance(wanted, int | float):
        return abs(read - wanted) < 0.01
    return str(read) == str(wanted)


def wanted_output(claim: Output) -> str:
    return f"`{' '.join(claim.argv)}` prints {claim.expect}"


def judge_output(claim: Output, data: OutputData) -> Finding:
    printed = data.text.strip()
    read = text.line(printed) or "nothing"
    tool = claim.argv[0]
    if data.rc in (126, 127) or data.rc < 0:
        return unknown(f"{tool} could not run (exit status {data.rc})", read=read)
    if not printed:
        return unknown(f"{tool} printed nothing (exit status {data.rc})", read=read)
    try:
        found = re.search(claim.expect, data.text, re.MULTILINE)
    except re.error as error:
        return unknown(f"`expect` is no regular expression: {error}", read=read)
    if data.rc != 0:
        return Finding(read, (f"{tool} ended with exit status {data.rc}",))
    if found is None:
        return Finding(read, ("what it printed does not match",))
    start = data.text.rfind("\n", 0, found.start()) + 1
    end = data.text.find("\n", found.end())
    return Finding(text.line(data.text[start : end if end >= 0 else None]) or read)
