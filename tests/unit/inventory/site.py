"""A small site on disk: an inventory, a profile, a playbook and one role, to be bent by tests."""

from __future__ import annotations

from pathlib import Path

INVENTORY = """
all:
  vars:
    nodeprep_site: small
    nodeprep_profile: plain
    node_os: debian12
    nodeprep_admin_user: operator
    ansible_user: "{{ nodeprep_admin_user }}"
  children:
    gpu_nodes:
      hosts:
        gpu[1:2]:
      vars:
        greet_word: "good day, {{ inventory_hostname }}"
    storage:
      hosts:
        nas1: {ansible_host: 192.0.2.9, ansible_port: 2222}
"""
FILES = {
    "inventory/small.yaml": INVENTORY,
    "inventory/profiles/plain.yaml": "name: plain\n",
    "playbooks/provision.yml": """
- hosts: gpu_nodes
  roles: [{role: greet, tags: [greet]}]
- hosts: storage
  roles: [greet]
""",
    "roles/greet/defaults/main.yml": """
greet_word: hello
greet_version: "1.2"
greet_names: [ann, bob]
greet_sysctls: {net.one: 1, net.two: "1 2 3"}
greet_fast: true
""",
    "roles/greet/meta/argument_specs.yml": """
argument_specs:
  main:
    options:
      greet_word: {type: str}
      greet_version: {type: str}
      greet_names: {type: list, elements: str}
      greet_sysctls: {type: dict}
      greet_fast: {type: bool}
""",
    "roles/greet/vars/main.yml": """
greet_claims:
  - {kind: file, name: /etc/greet.conf, template: etc/greet.conf.j2, notify: Restart greet}
  - {kind: package, name: greet, version: "{{ greet_version }}-1", held: true}
  - {kind: sysctl, each: "{{ greet_sysctls | dict2items(key_name='name') }}"}
  - {kind: module, name: greet, applies: "{{ node_profile.platform.kernel_modules }}", why: "no"}
""",
    "roles/greet/templates/etc/greet.conf.j2": (
        "{% for name in greet_names %}\n{{ greet_word }} {{ name }}\n{% endfor %}\n"
    ),
}


def write(folder: Path, changes: dict[str, str] | None = None) -> Path:
    """Lay the site out under `folder`, with some files changed; returns the inventory's path."""
    for name, text in {**FILES, **(changes or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "inventory" / "small.yaml"
