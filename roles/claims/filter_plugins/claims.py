"""Filters of the role claims: which claims to converge, and which of them differ on the node.

Plain Python, so that `ansible-playbook` works where nodeprep is not installed. The rules of
expansion and identity are those of `nodeprep.model.claim`; a test holds the two together.
"""

from __future__ import annotations

import itertools
import json
import posixpath
import re
from typing import Any

from ansible.errors import AnsibleFilterError

Claim = dict[str, Any]
WHOLE = ("sysctl", "kernel_argument")  # a role's are in one file
VERSIONS_TOLD = 5  # by not_offered, the newest
ENABLED = ("enabled", "static", "generated", "alias", "indirect", "linked", "transient")


def todo(claims: list[Claim], role: str, unmet: Any = None) -> dict[str, list[Claim]]:
    """Claims to converge, by kind: expanded, those that apply, and of these the unmet ones.

    `unmet` maps a role to ids that do not hold; None converges all. Sysctls and kernel arguments
    come whole or not at all, because all of a role's live in one file.
    """
    chosen = [claim for raw in claims for claim in _expand(raw) if _applies(claim, role)]
    wanted = None if unmet is None else set(unmet.get(role, ()))
    by_kind: dict[str, list[Claim]] = {}
    for claim in chosen:
        by_kind.setdefault(claim["kind"], []).append(claim)
    if wanted is None:
        return by_kind
    return {
        kind: some if kind in WHOLE else [c for c in some if _id(c, role) in wanted]
        for kind, some in by_kind.items()
        if any(_id(c, role) in wanted for c in some)
    }


def _expand(raw: Any) -> list[Claim]:
    claim = {**raw, "notify": _listed(raw.get("notify", ()))}
    if "each" not in claim:
        return [claim]
    each = claim.pop("each")
    return [{**claim, **one, "notify": _listed(one.get("notify", claim["notify"]))} for one in each]


def _listed(notify: Any) -> list[str]:
    return [notify] if isinstance(notify, str) else list(notify)


def _applies(claim: Claim, role: str) -> bool:
    applies = claim.get("applies", True)
    if not isinstance(applies, bool):
        raise AnsibleFilterError(f"{_id(claim, role)}: `applies` must be a boolean: {applies!r}")
    return applies


def _id(claim: Claim, role: str) -> str:
    return f"{role}/{claim['kind']}:{claim['name']}"


def notified(claims: list[Claim]) -> list[str]:
    """Handlers that these claims notify, each once."""
    return list(dict.fromkeys(name for claim in claims for name in claim["notify"]))


def secret(claims: list[Claim]) -> bool:
    """Whether a claim holds a secret, so that Ansible must not show the claims."""
    return any(one.get("secret") for raw in claims for one in [raw, *raw.get("each", ())])


def files(claims: list[Claim], how: str) -> list[Claim]:
    """Claims on files made in one way: `absent`, `template`, `content`, and `secret …` of both."""
    return [claim for claim in claims if _made(claim) == how]


def _made(claim: Claim) -> str:
    if claim.get("state", "present") == "absent":
        return "absent"
    way = "template" if claim.get("template") else "content"
    return f"secret {way}" if claim.get("secret") else way


def parents(claims: list[Claim]) -> list[str]:
    """Folders that must be there before the files and links can be written."""
    paths = (posixpath.dirname(c["name"]) for c in claims if c.get("state", "present") == "present")
    return sorted(set(paths))


def packages(claims: list[Claim], dpkg: str) -> dict[str, list[Claim]]:
    """What to do to packages: `install`, `remove`, `hold`, `unhold`.

    `dpkg` holds lines of `package<TAB>version<TAB>status` as dpkg-query shows them.
    """
    have = _dpkg(dpkg)
    plan: dict[str, list[Claim]] = {"install": [], "remove": [], "hold": [], "unhold": []}
    for claim in claims:
        version, selection = have.get(claim["name"], (None, ""))
        if claim.get("state", "present") == "absent":
            if version is not None:
                plan["remove"].append(claim)
            continue
        wanted = claim.get("version")
        install = version is None or (bool(wanted) and version != wanted)
        if install:
            plan["install"].append(claim)
        if claim.get("held") is True and (install or selection != "hold"):
            plan["hold"].append(claim)
        if claim.get("held") is False and selection == "hold":
            plan["unhold"].append(claim)
    return plan


def _dpkg(text: str) -> dict[str, tuple[str | None, str]]:
    """Name -> (installed version or None, selection)."""
    have: dict[str, tuple[str | None, str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("\t")
        version, _, status = rest.partition("\t")
        words = status.split()
        if len(words) == 3 and (words[2] == "installed" or name not in have):
            have[name] = (version if words[2] == "installed" else None, words[0])
    return have


def apt_names(claims: list[Claim]) -> list[str]:
    """Packages as apt takes them: `name` or `name=version`."""
    return [f"{c['name']}={c['version']}" if c.get("version") else c["name"] for c in claims]


def not_offered(claims: list[Claim], madison: str) -> str:
    """Packages that no repository has in the wanted version, with the versions that there are.

    `madison` is the output of `apt-cache madison name…`. Empty when all can be had.
    """
    offered: dict[str, list[str]] = {}
    for line in madison.splitlines():
        name, _, rest = line.partition("|")
        offered.setdefault(name.strip(), []).append(rest.partition("|")[0].strip())
    told = []
    for claim, wanted in zip(claims, apt_names(claims), strict=True):
        there = list(dict.fromkeys(offered.get(claim["name"], ())))
        if not there or claim.get("version") not in (None, "", *there):
            told.append(f"{wanted} (there: {', '.join(there[:VERSIONS_TOLD]) or 'none'})")
    return ", ".join(told)


def sysctls(claims: list[Claim], text: str) -> list[Claim]:
    """Sysctls whose running value differs. `text` is the output of `sysctl key…`."""
    running = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            running[key.strip()] = value.split()
    return [c for c in claims if running.get(c["name"]) != _value(c).split()]


def assignment(claim: Claim) -> str:
    """A sysctl as sysctl.d and `sysctl --write` take it: `key=value`."""
    return f"{claim['name']}={_value(claim)}"


def _value(claim: Claim) -> str:
    value = claim["value"]
    return str(int(value)) if isinstance(value, bool) else str(value)


def modules(claims: list[Claim], text: str) -> list[Claim]:
    """Modules that are loaded and should not be, or the reverse. `text`: names in /sys/module."""
    loaded = {line.strip().replace("-", "_") for line in text.splitlines()}
    return [c for c in claims if (c["name"].replace("-", "_") in loaded) != c.get("loaded", True)]


def built_files(claims: list[Claim]) -> list[str]:
    """Files of the modules of which `built` is claimed, without their suffix."""
    return [claim.get("file") or claim["name"] for claim in claims if claim.get("built")]


def unbuilt(claims: list[Claim], text: str) -> list[str]:
    """Kernels that lack a module of which `built` is claimed: the running one, and newer ones.

    `text`: the running release; then a line for each kernel, its release and its modules.
    """
    running, *kernels = [line.split() for line in text.splitlines() if line.strip()]
    wanted = set(built_files(claims))
    lacking = [
        release
        for release, *there in kernels
        if _release_key(release) >= _release_key(running[0]) and wanted - set(there)
    ]
    return list(dict.fromkeys(lacking))


def _release_key(release: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", release)]


def arguments(claims: list[Claim], text: str) -> list[Claim]:
    """Kernel arguments that the running kernel lacks, or has and must not. `text`: its words."""
    all_words = re.findall(r'(?:[^\s"]|"[^"]*(?:"|$))+', text)
    of_the_kernel = itertools.takewhile(lambda word: word != "--", all_words)
    words = [word.replace('"', "").partition("=") for word in of_the_kernel]
    return [claim for claim in claims if not _argument_holds(claim, words)]


def _argument_holds(claim: Claim, words: list[tuple[str, str, str]]) -> bool:
    name = claim["name"].replace("-", "_")
    values = {value for word, _, value in words if word.replace("-", "_") == name}
    return values == ({_argument_value(claim)} if _is_present(claim) else set())


def _is_present(claim: Claim) -> bool:
    return claim.get("state", "present") == "present"


def _argument_value(claim: Claim) -> str:
    value = claim.get("value")
    return "" if value is None else str(value)


def argument_words(claims: list[Claim]) -> str:
    """What the kernel's command line gets: `iommu=pt nosmt`."""
    return " ".join(
        f"{claim['name']}={value}" if (value := _argument_value(claim)) else claim["name"]
        for claim in claims
        if _is_present(claim)
    )


def argument_names(claims: list[Claim]) -> str:
    """An extended regular expression of all names; `-` and `_` are the same to the kernel."""
    names = [re.sub("[-_]", "[-_]", claim["name"].replace(".", "[.]")) for claim in claims]
    return "|".join(names)


def show(text: str) -> list[dict[str, str]]:
    """The blocks of `systemctl show`, in the order of the units that were asked for."""
    blocks: list[dict[str, str]] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        pairs = (line.partition("=") for line in block.splitlines() if "=" in line)
        blocks.append({key: value for key, _, value in pairs})
    return [block for block in blocks if block]


def units(claims: list[Claim], text: str) -> list[Claim]:
    """Units of which an attribute differs from what `systemctl show` tells."""
    found = show(text)
    if len(found) != len(claims):
        raise AnsibleFilterError(f"systemctl told of {len(found)} units, not of {len(claims)}")
    return [
        claim for claim, unit in zip(claims, found, strict=True) if not _unit_holds(claim, unit)
    ]


def _unit_holds(claim: Claim, unit: dict[str, str]) -> bool:
    is_now = {
        "enabled": unit.get("UnitFileState", "") in ENABLED,
        "active": unit.get("ActiveState") in ("active", "activating", "reloading"),
        "masked": unit.get("LoadState") == "masked",
    }
    return all(claim.get(key) in (None, value) for key, value in is_now.items())


def mount_unit(path: str) -> str:
    """The unit of a mount point, as `systemd-escape --path --suffix=mount` names it.

    >>> mount_unit("/data/nas-1")
    'data-nas\\\\x2d1.mount'
    """
    clean = posixpath.normpath(path).strip("/")
    escaped = "".join(
        "-" if char == "/" else char if _plain(index, char) else _hex(char)
        for index, char in enumerate(clean)
    )
    return f"{escaped or '-'}.mount"


def _plain(index: int, char: str) -> bool:
    return bool(re.match(r"[A-Za-z0-9:_]" if index == 0 else r"[A-Za-z0-9:_.]", char))


def _hex(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def mount_links(claims: list[Claim]) -> list[str]:
    """What to resolve of each mount's device: `UUID=…` is a link of udev's, others stay."""
    return [
        re.sub(r"^(UUID|LABEL)=", lambda tag: f"/dev/disk/by-{tag[1].lower()}/", claim["device"])
        for claim in claims
    ]


def mounts(claims: list[Claim], text: str, devices: list[str]) -> list[Claim]:
    """Mounts that are not in /proc/self/mountinfo as claimed (`text` is its content).

    devices   what `mount_links` lead to, in the order of the claims
    """
    lines = text.splitlines()
    return [
        claim
        for claim, device in zip(claims, devices, strict=True)
        if not any(_mounted(claim, device, line) for line in lines)
    ]


def _mounted(claim: Claim, device: str, line: str) -> bool:
    before, _, after = line.partition(" - ")
    left, right = before.split(), after.split()
    if len(left) < 6 or len(right) < 3 or left[4] != claim["name"] or right[0] == "autofs":
        return False
    options = {*left[5].split(","), *right[2].split(",")}
    wanted = {option for option in claim.get("options", ()) if option != "nofail"}
    same = right[0] == claim["fstype"] and right[1] in (claim["device"], device)
    return same and options >= wanted


# How nvidia-smi asks for a setting, and how it is given: (fields, option, yes, no).
_GPU = {
    "persistence_mode": (["persistence_mode"], "-pm", "1", "0"),
    "mig_mode": (["mig.mode.current"], "-mig", "1", "0"),
    "ecc_mode": (["ecc.mode.current"], "-e", "1", "0"),
    "power_limit_w": (["power.limit"], "-pl", "", ""),
    "application_clocks": (
        ["clocks.applications.memory", "clocks.applications.graphics"], "-ac", "", "",
    ),
    "application_clocks_default": (
        ["clocks.applications.memory", "clocks.default_applications.memory",
         "clocks.applications.graphics", "clocks.default_applications.graphics"], "-rac", "", "",
    ),
}  # fmt: skip


def gpu_settable(claims: list[Claim]) -> list[Claim]:
    """The claims about GPUs that nvidia-smi can set. A driver's version, for one, it cannot."""
    return [claim for claim in claims if claim["name"] in _GPU]


def gpu_query(claims: list[Claim]) -> str:
    """Fields for `nvidia-smi --query-gpu=`, in the order of the claims."""
    return ",".join(field for claim in claims for field in _GPU[claim["name"]][0])


def gpus(claims: list[Claim], text: str) -> list[Claim]:
    """Settings that at least one GPU lacks. `text`: the csv,noheader,nounits of `gpu_query`."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line]
    differing, column = [], 0
    for claim in claims:
        end = column + len(_GPU[claim["name"]][0])
        if not rows or any(not _gpu_holds(claim, row[column:end]) for row in rows):
            differing.append(claim)
        column = end
    return differing


def _gpu_holds(claim: Claim, cells: list[str]) -> bool:
    value = claim["value"]
    if len(cells) == 4:
        return (cells[0] == cells[1] and cells[2] == cells[3]) is value
    if isinstance(value, bool):
        return cells == ["Enabled" if value else "Disabled"]
    try:
        return float(cells[0]) == float(value)
    except ValueError:
        return ",".join(cells) == str(value)


def gpu_set(claim: Claim) -> list[str]:
    """The arguments of nvidia-smi that set a claim."""
    fields, option, yes, no = _GPU[claim["name"]]
    value = claim["value"]
    if len(fields) == 4:
        return [option]
    return [option, (yes if value else no) if isinstance(value, bool) else str(value)]


def nics(results: list[Any]) -> list[Claim]:
    """The interfaces that differ, or whose last change nobody confirmed yet."""
    return [one["claim"] for one in results if _nic_differs(_nic_answer(one))]


def nic_changes(results: list[Any]) -> list[str]:
    """What would change, a line for each interface. One that could not be compared would."""
    answers = [(one["claim"]["name"], _nic_answer(one)) for one in results]
    return [f"{name}: {said['change']}" for name, said in answers if _nic_differs(said)]


def _nic_answer(result: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(result.get("stdout") or "")
    except ValueError:
        return {"change": "it could not be compared"}
    return answer


def _nic_differs(said: dict[str, Any]) -> bool:
    return bool(said["change"] or said.get("impossible") or said.get("pending"))


def mig_differs(claims: list[Claim], text: str) -> bool:
    """Whether a GPU of `nvidia-smi -L` has other MIG devices than are claimed."""
    blocks = re.split(r"^GPU ", text, flags=re.MULTILINE)[1:]
    found = {
        ",".join(sorted(re.findall(r"^\s+MIG (\S+)", block, re.MULTILINE))) for block in blocks
    }
    return found != {str(claim["value"]) for claim in claims}


class FilterModule:
    """What Ansible finds here."""

    def filters(self) -> dict[str, Any]:
        names = (
            todo, notified, secret, files, parents, packages, apt_names, not_offered, sysctls,
            assignment, modules, built_files, unbuilt, arguments, argument_words, argument_names,
            show, units, mount_unit, mount_links, mounts, gpu_settable, gpu_query, gpus, gpu_set,
            mig_differs, nics, nic_changes,
        )  # fmt: skip
        return {f"claims_{function.__name__}": function for function in names}
