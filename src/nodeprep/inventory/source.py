"""Loads an inventory with Ansible's own loader. The only file that imports Ansible's internals."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from nodeprep.errors import BadInput
from nodeprep.inventory.template import Locked

# Ansible reads these at import; a doubled key is a mistake, not a warning.
_ANSIBLE_ENVIRONMENT = {
    "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "error",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
    "ANSIBLE_DEPRECATION_WARNINGS": "false",
    "ANSIBLE_LOCALHOST_WARNING": "false",
}
_MAGIC = {
    "ansible_playbook_python", "ansible_config_file", "ansible_version", "ansible_check_mode",
    "ansible_diff_mode", "ansible_forks", "ansible_run_tags", "ansible_skip_tags",
    "ansible_verbosity", "ansible_inventory_sources", "omit", "groups", "group_names",
    "playbook_dir", "inventory_file", "inventory_dir", "inventory_hostname",
    "inventory_hostname_short", "environment", "hostvars", "vars",
}  # fmt: skip
_GROUP_KEYS = ("vars", "children", "hosts")
_CALLS_PLUGIN = re.compile(r"\{\{.*\b(lookup|query|q)\s*\(", re.DOTALL)


@dataclass(frozen=True)
class Host:
    """A host with its merged variables, as plain Python. `origins`: key -> file:line."""

    name: str
    groups: tuple[str, ...]
    variables: dict[str, Any]
    origins: dict[str, str]


@dataclass(frozen=True)
class Source:
    """What Ansible's loader found.

    members   pattern -> names of the hosts that it matches
    secrets   plain texts that came out of a vault: never to be shown or stored
    volatile  true when a value came from a lookup, so that the file's content does not tell it
    """

    hosts: tuple[Host, ...]
    everyone: tuple[Host, ...]
    groups: dict[str, list[str]]
    members: dict[str, frozenset[str]]
    secrets: frozenset[str]
    volatile: bool


@dataclass
class _Reading:
    secrets: set[str] = field(default_factory=set)
    volatile: bool = False


def load(
    path: Path, *, limit: str | None, patterns: Iterable[str], vault_password_file: Path | None
) -> Source:
    """Read the inventory at `path`; hosts outside `limit` (Ansible's patterns) are left out.

    Raises BadInput for what cannot be read: a missing file, malformed YAML, unknown group keys,
    doubled keys, a vaulted file without its password, a limit that matches no host.
    """
    if not path.exists():
        raise BadInput(f"inventory {path} does not exist", hint="nodeprep init writes a starter")
    os.environ.update({k: v for k, v in _ANSIBLE_ENVIRONMENT.items() if k not in os.environ})
    from ansible.errors import AnsibleError  # noqa: PLC0415  # 0.25 s: only when a file is read
    from ansible.inventory.manager import InventoryManager  # noqa: PLC0415
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
    from ansible.vars.manager import VariableManager  # noqa: PLC0415

    loader = DataLoader()
    try:
        _unlock(loader, vault_password_file)
        _check_structure(loader, path)
        with _warnings_kept() as warnings:
            manager = InventoryManager(loader=loader, sources=[str(path)])
            everyone = manager.get_hosts("all")
            members = {p: frozenset(h.name for h in manager.get_hosts(p)) for p in patterns}
            manager.subset(limit)
            chosen = {host.name for host in manager.get_hosts("all")}
        _refuse_warnings(path, warnings)
        variables = VariableManager(loader=loader, inventory=manager)
        reading = _Reading()
        hosts = tuple(_host(host, variables, loader, reading) for host in everyone)
        groups = {
            name: [member.name for member in group.get_hosts()]
            for name, group in manager.groups.items()
        }
    except AnsibleError as error:
        raise _as_bad_input(path, error) from None
    if not everyone:
        raise BadInput(f"inventory {path} names no hosts")
    if not chosen:
        raise BadInput(
            f"--limit {limit!r} matches no host of {path}",
            hint=f"hosts: {', '.join(host.name for host in hosts[:12])}",
        )
    return Source(
        hosts=tuple(host for host in hosts if host.name in chosen),
        everyone=hosts,
        groups=groups,
        members=members,
        secrets=frozenset(reading.secrets),
        volatile=reading.volatile,
    )


def vault_secret(file: Path | None) -> bytes | None:
    """The vault password: from `file`, a script or text, or ANSIBLE_VAULT_PASSWORD_FILE."""
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
    from ansible.parsing.vault import get_file_vault_secret  # noqa: PLC0415

    name = file or os.environ.get("ANSIBLE_VAULT_PASSWORD_FILE")
    if not name:
        return None
    if not Path(name).exists():
        raise BadInput(f"vault password file {name} does not exist")
    secret = get_file_vault_secret(filename=str(name), vault_id="default", loader=DataLoader())
    secret.load()
    return bytes(secret.bytes)


def _unlock(loader: Any, vault_password_file: Path | None) -> None:
    from ansible.parsing.vault import VaultSecret, VaultSecretsContext  # noqa: PLC0415

    word = vault_secret(vault_password_file)
    secrets = [] if word is None else [("default", VaultSecret(word))]
    loader.set_vault_secrets(secrets)
    # Inline values are opened by an ambient context, which a process may set once.
    VaultSecretsContext._current = None
    VaultSecretsContext.initialize(VaultSecretsContext(secrets))


class _warnings_kept:  # used as a context manager
    """Ansible only warns of what is an error here; this keeps its words instead of printing."""

    def __enter__(self) -> list[str]:
        from ansible.utils.display import Display  # noqa: PLC0415

        self._display = Display()
        self._kept: list[str] = []
        self._display.warning = lambda msg, *_a, **_k: self._kept.append(str(msg))
        return self._kept

    def __exit__(self, *_: object) -> None:
        del self._display.warning


def _refuse_warnings(path: Path, warnings: list[str]) -> None:
    problems = tuple(w for w in warnings if "unexpected key" in w or "Unable to parse" in w)
    if problems:
        raise BadInput(f"inventory {path} cannot be read as meant", problems=problems)


def _check_structure(loader: Any, path: Path) -> None:
    """Unknown group keys, with a suggestion, in a YAML inventory."""
    if path.suffix not in (".yaml", ".yml"):
        return
    data = loader.load_from_file(str(path))
    if not isinstance(data, dict):
        raise BadInput(
            f"{path}: an inventory is a mapping of groups, this is {type(data).__name__}",
            hint="begin with `all:` and `children:` under it; nodeprep init writes a starter",
        )
    problems: list[str] = []
    for name, group in data.items():
        _check_group(str(name), group, problems, path)
    if problems:
        raise BadInput(f"inventory {path} is not as it must be", problems=tuple(problems))


def _check_group(name: str, group: Any, problems: list[str], path: Path) -> None:
    if group is None:
        return
    if not isinstance(group, dict):
        problems.append(f"{path}: group {name!r}: must be a mapping, found {group!r:.60}")
        return
    for key, value in group.items():
        if key not in _GROUP_KEYS:
            close = get_close_matches(str(key), _GROUP_KEYS, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"allowed: {', '.join(_GROUP_KEYS)}"
            problems.append(f"{_origin(key) or path}: group {name!r}: unknown key {key!r}; {meant}")
        elif value is not None and not isinstance(value, dict):
            problems.append(
                f"{_origin(value) or path}: group {name!r}: `{key}` must be a mapping, "
                f"found {value!r:.60}"
            )
        elif key == "children":
            for child, inner in (value or {}).items():
                _check_group(str(child), inner, problems, path)


def _host(host: Any, variables: Any, loader: Any, reading: _Reading) -> Host:
    raw = variables.get_vars(host=host, include_hostvars=False)
    own = {key: value for key, value in raw.items() if key not in _MAGIC}
    groups = {group.name for group in host.get_groups()} - {"all", "ungrouped"}
    return Host(
        name=host.name,
        groups=tuple(sorted(groups)),
        variables={
            key: _plain(_looked_up(value, raw, loader, reading), reading)
            for key, value in own.items()
        },
        origins={key: _origin(value) for key, value in own.items()},
    )


def _looked_up(value: Any, variables: Mapping[str, Any], loader: Any, reading: _Reading) -> Any:
    """Ansible itself resolves what calls a plugin: nodeprep's own templates are plain Jinja."""
    if not (isinstance(value, str) and _is_text(value) and _CALLS_PLUGIN.search(value)):
        return value
    from ansible.template import Templar  # noqa: PLC0415

    reading.volatile = True
    found = Templar(loader=loader, variables=dict(variables)).template(value)
    if isinstance(found, str):
        reading.secrets.add(found)  # from the environment or a file: as good as a secret
    return found


def _is_text(value: Any) -> bool:
    from ansible.parsing.vault import EncryptedString  # noqa: PLC0415

    return not isinstance(value, EncryptedString)


def _plain(value: Any, reading: _Reading) -> Any:
    """Tagged values as plain Python; vaulted ones decrypted and remembered, or Locked."""
    from ansible._internal._datatag._tags import VaultedValue  # noqa: PLC0415
    from ansible.errors import AnsibleError  # noqa: PLC0415

    if not _is_text(value):
        try:
            text = str(value)
        except AnsibleError:
            return Locked()
        reading.secrets.add(text)
        return text
    if isinstance(value, Mapping):
        return {str(k): _plain(v, reading) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, reading) for item in value]
    if isinstance(value, str):
        text = str.__str__(value)
        if VaultedValue.is_tagged_on(value):
            reading.secrets.add(text)
        return text
    if isinstance(value, bool):
        return bool(value)
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return value


def _origin(value: Any) -> str:
    from ansible._internal._datatag._tags import Origin  # noqa: PLC0415

    origin = Origin.get_tag(value)
    if origin is None or not origin.path:
        return ""
    path = Path(origin.path)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{origin.line_num}" if origin.line_num else str(shown)


def _as_bad_input(path: Path, error: Exception) -> BadInput:
    text = " ".join(str(error).split())
    if "vault" in text.lower():
        return BadInput(
            f"inventory {path}: a vaulted file cannot be opened: {text[:200]}",
            hint="give --vault-password-file, or set ANSIBLE_VAULT_PASSWORD_FILE",
        )
    origin = _origin(getattr(error, "obj", None)) if getattr(error, "obj", None) else ""
    where = f" at {origin}" if origin and str(path) not in text else ""
    return BadInput(f"inventory {path} cannot be read{where}: {text[:400]}")
