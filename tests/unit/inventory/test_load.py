"""An inventory becomes one document a node; what is wrong with it is said all at once."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.inventory import site

from nodeprep.inventory import Site
from nodeprep.model.claim import File, Package, Sysctl

Load = Callable[..., Site]
Problems = Callable[..., str]
INVENTORY = "inventory/small.yaml"
VARS = "roles/greet/vars/main.yml"


def changed(old: str, new: str) -> dict[str, str]:
    assert old in site.INVENTORY
    return {INVENTORY: site.INVENTORY.replace(old, new)}


def test_ranges_groups_and_variables_are_ansibles_own(load: Load) -> None:
    found = load()
    assert [d.node.name for d in found.documents] == ["gpu1", "gpu2", "nas1"]
    nas = found.documents[2].node
    assert (nas.connection.host, nas.connection.port) == ("192.0.2.9", 2222)
    assert nas.connection.user == "operator"
    assert nas.groups == ("storage",)


def test_a_template_is_rendered_with_the_hosts_own_values(load: Load) -> None:
    claim = load().documents[0].claims[0]
    text = "good day, gpu1 ann\ngood day, gpu1 bob\n"
    assert isinstance(claim, File)
    assert claim.content == text
    assert claim.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert claim.id == "greet/file:/etc/greet.conf"
    assert claim.notify == ("Restart greet",)


def test_text_around_an_expression_stays_text(load: Load) -> None:
    package = load().documents[0].claims[1]
    assert isinstance(package, Package)
    assert package.version == "1.2-1"


def test_each_repeats_a_claim_over_its_mappings(load: Load) -> None:
    found = [c for c in load().documents[0].claims if isinstance(c, Sysctl)]
    assert [(c.name, c.value) for c in found] == [("net.one", "1"), ("net.two", "1 2 3")]


def test_a_lack_of_the_platform_makes_a_claim_inapplicable(load: Load) -> None:
    lacking = "name: plain\nplatform: {kernel_modules: false, why: a container}\n"
    with_modules, without = load(), load({"inventory/profiles/plain.yaml": lacking})
    assert [c.applies for c in with_modules.documents[0].claims if c.kind == "module"] == [True]
    assert [c.applies for c in without.documents[0].claims if c.kind == "module"] == [False]


def test_limit_takes_ansibles_patterns(load: Load) -> None:
    assert [d.node.name for d in load(limit="all:!gpu2").documents] == ["gpu1", "nas1"]
    assert [d.node.name for d in load(limit="storage").documents] == ["nas1"]


def test_a_limit_that_matches_nothing_is_an_error(problems: Problems) -> None:
    assert "matches no host" in problems({}, limit="gpu9")


def test_the_digest_follows_the_desired_state_and_nothing_else(load: Load) -> None:
    first = load().documents[2].digest
    moved = load(changed("192.0.2.9", "192.0.2.10")).documents[2].digest
    other = load({"roles/greet/defaults/main.yml":
                  site.FILES["roles/greet/defaults/main.yml"].replace("ann", "eve")})  # fmt: skip
    assert first == moved
    assert other.documents[2].digest != first


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("greet_word:", "greet_wrod:", "`greet_wrod` is not known; did you mean `greet_word`?"),
        ("nodeprep_site:", "nodeprep_stie:", "did you mean `nodeprep_site`?"),
        ("hosts:\n        gpu", "hots:\n        gpu", "unknown key 'hots'; did you mean 'hosts'?"),
        ("nodeprep_profile: plain", "nodeprep_profile: plian", "did you mean 'plain'?"),
        ("    nodeprep_profile: plain\n", "", "`nodeprep_profile` is missing"),
        ("node_os: debian12", "node_os: debian13", "allowed: debian12, ubuntu2204, ubuntu2404"),
        ("ansible_port: 2222", "ansible_port: 70000", "connection: port"),
        ("gpu[1:2]:", "gpu[1:2]: {greet_names: ann}", "must be a list, found 'ann'"),
        ("gpu[1:2]:", "gpu[1:2]: {greet_fast: maybe}", "must be true or false"),
        ("gpu[1:2]:", "gpu[1:2]: {greet_word: '{{ nothing }}'}", "'nothing' is undefined"),
        ("gpu[1:2]:", "gpu[1:2]: {greet_word: '{{ greet_word }}'}", "refer to each other"),
        ("gpu[1:2]:", "gpu[1:2]:\n        gpu[1:2]:", "gpu[1:2]"),
        ("  children:", "  children: [", "malformed|YAML"),
        ("storage:", "elsewhere:", "no play of the playbook is for it"),
    ],
)
def test_a_mistake_is_named_with_what_was_found(
    problems: Problems, old: str, new: str, said: str
) -> None:
    text = problems(changed(old, new))
    assert any(part in text for part in said.split("|")), text
    assert "small.yaml" in text


def test_all_mistakes_are_told_at_once(problems: Problems) -> None:
    both = site.INVENTORY.replace("greet_word:", "greet_wrod:").replace("debian12", "debian13")
    text = problems({INVENTORY: both})
    assert "greet_wrod" in text
    assert "debian13" in text


def test_two_names_for_one_address_are_refused(problems: Problems) -> None:
    twin = "nas1: {ansible_host: 192.0.2.9, ansible_port: 2222}"
    text = problems(changed(twin, f"{twin}\n        nas2: {{ansible_host: 192.0.2.9, "
                                  "ansible_port: 2222}"))  # fmt: skip
    assert "already host nas1" in text


def test_a_plain_text_password_is_refused_and_not_shown(problems: Problems) -> None:
    named = "nodeprep_site: small"
    text = problems(changed(named, f"{named}\n    nodeprep_bootstrap_password: hunter22"))
    assert "plain text" in text
    assert "hunter22" not in text


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ("greet_claims: [{kind: fil, name: x}]", "fil"),
        ("greet_claims: [{kind: file, name: /x, mode: 7}]", "mode"),
        ("greet_claims: [{kind: file, name: /x, contents: y}]", "contents: unknown key"),
        ("greet_claims: [{kind: file, name: /x, template: none.j2}]", "none.j2"),
        ("greet_claims: [{kind: module, name: x, applies: false}]", "must say why"),
        ("greet_claims: [{kind: link, name: x}]", "target: is missing"),
        ("greet_claims: [{kind: module, name: x}, {kind: module, name: x}]", "claimed twice"),
        ("greet_claims: [{kind: module, each: 5}]", "must be a list of mappings"),
        ("greet_claims: [file]", "a claim is a mapping"),
    ],
)
def test_a_wrong_claim_is_named(problems: Problems, claims: str, said: str) -> None:
    assert said in problems({VARS: claims})


def vault(text: str, folder: Path) -> tuple[str, Path]:
    """`text` as an inline vault value, and the file with the password that opens it."""
    word = folder / "vault-password"
    word.write_text("open sesame\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-vault"), "encrypt_string",
         "--vault-password-file", word, "--stdin-name", "nodeprep_bootstrap_password"],
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout, word


def test_a_vaulted_password_is_found_and_is_in_no_document(load: Load, tmp_path: Path) -> None:
    value, word = vault("correct horse", tmp_path)
    lines = "\n    ".join(value.strip().splitlines())
    change = changed("nodeprep_site: small", f"nodeprep_site: small\n    {lines}")
    found = load(change, vault_password_file=word, secrets=True)
    assert found.passwords == {"gpu1": "correct horse", "gpu2": "correct horse",
                               "nas1": "correct horse"}  # fmt: skip
    assert "correct horse" not in "".join(d.model_dump_json() for d in found.documents)
    locked = load(change)  # drift on a timer needs no vault password
    assert locked.passwords == {}
    assert locked.documents == found.documents


def test_a_vaulted_value_in_a_file_stays_only_as_a_hash(load: Load, tmp_path: Path) -> None:
    value, word = vault("correct horse", tmp_path)
    lines = "\n    ".join(value.replace("nodeprep_bootstrap_password", "greet_word")
                          .strip().splitlines())  # fmt: skip
    greeting = '        greet_word: "good day, {{ inventory_hostname }}"\n'
    text = site.INVENTORY.replace("      vars:\n" + greeting, "")
    change = {INVENTORY: text.replace("nodeprep_site: small", f"nodeprep_site: small\n    {lines}")}
    found = load(change, vault_password_file=word)
    claim = found.documents[0].claims[0]
    assert isinstance(claim, File)
    assert claim.secret
    assert claim.content is None
    assert claim.sha256 == hashlib.sha256(b"correct horse ann\ncorrect horse bob\n").hexdigest()
    cached = "".join(p.read_text() for p in (tmp_path / "cache").rglob("*.json"))
    assert "correct horse" not in cached


def test_a_locked_value_that_a_claim_needs_asks_for_the_vault(
    problems: Problems, tmp_path: Path
) -> None:
    value, _ = vault("correct horse", tmp_path)
    lines = "\n        ".join(value.replace("nodeprep_bootstrap_password", "greet_version")
                              .strip().splitlines())  # fmt: skip
    greeting = 'greet_word: "good day, {{ inventory_hostname }}"'
    assert "--vault-password-file" in problems(changed(greeting, f"{greeting}\n        {lines}"))
