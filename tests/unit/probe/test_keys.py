"""Keys are made once, recorded once, and never replaced behind anybody's back."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import paramiko
import pytest

from nodeprep.errors import BadInput, HostKeyChanged
from nodeprep.probe import keys
from nodeprep.remote import KnownHosts
from tests.unit import servers

NAME = "[127.0.0.1]:2222"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_pair_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "site" / "id_ed25519"
    public = keys.ensure(path)
    assert public.startswith("ssh-ed25519 ")
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert path.with_name("id_ed25519.pub").read_text() == public + "\n"
    assert sorted(item.name for item in path.parent.iterdir()) == ["id_ed25519", "id_ed25519.pub"]


def test_a_pair_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "id"
    first = keys.ensure(path)
    before = path.read_bytes()
    assert keys.ensure(path) == first
    assert path.read_bytes() == before


def test_a_private_key_alone_is_enough(tmp_path: Path) -> None:
    key = servers.make_key(tmp_path / "id")
    assert keys.ensure(tmp_path / "id").split()[1] == key.get_base64()
    assert not (tmp_path / "id.pub").exists()


def test_a_file_that_is_no_key_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "id"
    path.write_text("precious")
    with pytest.raises(BadInput, match="cannot be read"):
        keys.ensure(path)
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="key pair"):
        keys.ensure(tmp_path / "file" / "id")


def test_a_host_key_is_recorded_once(tmp_path: Path) -> None:
    known, key = tmp_path / "site" / "known_hosts", servers.make_key(tmp_path / "host")
    assert keys.record(known, NAME, key)
    assert not keys.record(known, NAME, key)
    assert known.read_text() == servers.entry(2222, key)
    assert mode(known) == 0o600


def test_another_key_of_the_host_is_refused_and_the_record_stays(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    first, second = servers.make_key(tmp_path / "a"), paramiko.ECDSAKey.generate()
    keys.record(known, NAME, first)
    with pytest.raises(HostKeyChanged) as caught:
        keys.record(known, NAME, second)
    assert first.fingerprint in caught.value.message
    assert second.fingerprint in caught.value.message
    assert known.read_text() == servers.entry(2222, first)


def test_a_file_without_a_last_line_end_is_not_glued_to(tmp_path: Path) -> None:
    known, key = tmp_path / "known_hosts", servers.make_key(tmp_path / "host")
    known.write_text("# kept by hand")
    keys.record(known, NAME, key)
    assert known.read_text() == "# kept by hand\n" + servers.entry(2222, key)


def record_many(known: Path, key_file: Path, start: int) -> None:
    key = paramiko.Ed25519Key(filename=str(key_file))
    for port in range(start, start + 25):
        keys.record(known, f"[127.0.0.1]:{port}", key)


def test_many_processes_may_record_at_once(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    servers.make_key(tmp_path / "host")
    spawn = multiprocessing.get_context("spawn")
    starts = (3000, 3010, 3020)  # ranges that overlap
    children = [
        spawn.Process(target=record_many, args=(known, tmp_path / "host", start))
        for start in starts
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    lines = known.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 45
    assert all(KnownHosts(known).of(f"[127.0.0.1]:{port}") for port in range(3000, 3045))
