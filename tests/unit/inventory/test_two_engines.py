"""Claims mean the same to nodeprep's compiler and to Ansible, for every role and every site.

Ansible's own templating renders each role's claims and templates; nodeprep's documents must agree.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nodeprep import inventory
from nodeprep.inventory import Site, roles, source
from nodeprep.model.claim import CLAIM, CachedVolume, Claim, File
from nodeprep.model.node import Document

ROOT = Path(__file__).parents[3]
INVENTORIES = [ROOT / "inventory" / name for name in ("la.yaml", "lab.yaml")]
os.environ.setdefault("ANSIBLE_DEPRECATION_WARNINGS", "false")


@cache
def site(path: Path) -> tuple[Site, source.Source]:
    found = inventory.load(path)
    patterns = roles.playbook([found.playbook.parent]).patterns
    hosts = source.load(path, limit=None, patterns=patterns, vault_password_file=None)
    return found, hosts


@cache
def expand() -> Any:
    path = ROOT / "roles" / "claims" / "filter_plugins" / "claims.py"
    spec = importlib.util.spec_from_file_location("claims_filters", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module._expand


def trusted(value: Any) -> Any:
    from ansible.template import trust_as_template

    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: trusted(item) for key, item in value.items()}
    return [trusted(item) for item in value] if isinstance(value, list) else value


def templar(role: roles.Role, document: Document, hosts: source.Source) -> Any:
    from ansible.parsing.dataloader import DataLoader
    from ansible.plugins.loader import filter_loader
    from ansible.template import Templar

    for name in (role.folder.name, "site_build"):  # its own, and the one that roles depend on
        filter_loader.add_directory(str(role.folder.parent / name / "filter_plugins"))

    host = next(h for h in hosts.hosts if h.name == document.node.name)
    variables = {
        **trusted(dict(role.defaults)),
        **trusted(
            {k: v for k, v in host.variables.items() if isinstance(v, str | int | list | dict)}
        ),
        **trusted(dict(role.variables)),
        "inventory_hostname": host.name,
        "groups": hosts.groups,
        "group_names": list(host.groups),
        "node_profile": document.node.profile.model_dump(mode="json"),
    }
    return Templar(loader=DataLoader(), variables=variables)


def by_ansible(role: roles.Role, document: Document, hosts: source.Source) -> list[Claim]:
    engine = templar(role, document, hosts)
    rendered = engine.template(trusted(role.claims))
    found = []
    for raw in rendered:
        for item in expand()(raw):
            claim = CLAIM.validate_python({**item, "role": role.name})
            if isinstance(claim, File) and claim.template and claim.applies:
                text = engine.template(trusted(role.template(claim.template)))
                claim = claim.model_copy(update={"content": str(text)})
            found.append(claim)
    return found


CASES = [
    pytest.param(path, document.node.name, role, id=f"{path.stem}-{document.node.name}-{role}")
    for path in INVENTORIES
    for document in site(path)[0].documents
    for role in document.roles
]


@pytest.mark.parametrize(("path", "node", "name"), CASES)
def test_both_engines_claim_the_same(path: Path, node: str, name: str) -> None:
    found, hosts = site(path)
    document = next(d for d in found.documents if d.node.name == node)
    role = roles.role(name, found.roles_path)
    ours = [c.model_copy(update={"sha256": None}) if isinstance(c, File) else c
            for c in document.claims_of(name)]  # fmt: skip
    theirs = by_ansible(role, document, hosts)
    assert [c.id for c in ours] == [c.id for c in theirs]
    assert ours == theirs
    assert ours, "a role without claims has nothing to hold"


def test_of_a_cached_volume_that_no_site_here_has(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "inventory", tmp_path / "inventory")
    path = tmp_path / "inventory" / "la.yaml"
    plain = "          - path: /data/cache\n            use: data\n"
    text = path.read_text()
    assert plain in text
    cached = text.replace("          - path: /cache\n            use: cache\n", "")
    path.write_text(cached.replace(plain, f"{plain}            cache: {{use: cache}}\n"))
    test_both_engines_claim_the_same(path, "la-gpu01", "nvme_cache")
    claims = site(path)[0].documents[0].claims_of("nvme_cache")
    assert {"nvme_cache/package:lvm2", "nvme_cache/cached_volume:cache"} <= {c.id for c in claims}
    (rules,) = (c for c in claims if isinstance(c, File) and "udev" in c.name)
    (volume,) = (c for c in claims if isinstance(c, CachedVolume))
    for uuid in (volume.origin_uuid, volume.cache_uuid):
        assert f'KERNEL=="nvme*", ENV{{ID_FS_UUID}}=="{uuid}"' in (rules.content or "")


def test_a_difference_would_be_seen() -> None:
    """The sabotaged twin: a template that the two engines render differently."""
    found, hosts = site(INVENTORIES[0])
    document = found.documents[0]
    role = roles.role(document.roles[0], found.roles_path)
    bent = roles.Role(role.name, role.folder, role.defaults,
                      {**role.variables, f"{role.name}_claims":
                       [*role.claims, {"kind": "module", "name": "odd"}]},
                      role.options)  # fmt: skip
    assert by_ansible(bent, document, hosts) != by_ansible(role, document, hosts)
