"""Every host fault can be seen on the node or from the controller, and taken back."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.integration.test_lab import host_key, login, said

from nodeprep.errors import BadInput
from nodeprep.lab import hostfaults

if TYPE_CHECKING:
    from tests.conftest import Rack

pytestmark = pytest.mark.lab
NODE = "gpu2"


def no_python(rack: Rack) -> bool:
    return rack.execute(NODE, ["sh", "-c", "python3 -c 1"]).returncode == 127


def disk_full(rack: Rack) -> bool:
    told = [
        rack.execute(NODE, ["sh", "-c", f"head -c 8192 /dev/zero > {folder}/probe"]).stderr
        for folder in ("/etc", "/var", "/usr", "/root", "/tmp")
    ]
    reads = rack.execute(NODE, ["cat", "/etc/hostname"]).stdout.strip() == NODE
    return reads and all("No space left" in text for text in told)


def apt_lock_held(rack: Rack) -> bool:
    script = "apt-get -o DPkg::Lock::Timeout=0 -y autoremove"
    done = rack.execute(NODE, ["sh", "-c", script])
    return done.returncode != 0 and "lock" in done.stderr


def no_dns(rack: Rack) -> bool:
    return rack.execute(NODE, ["getent", "hosts", "gpu1"]).returncode != 0


def nic_setting_kills_link(rack: Rack) -> bool:
    """Set and set back inside the node, which needs no link for that."""
    script = (
        "was=$(ethtool -g ens5f0 | sed -n '/Current/,$s/^RX:[^0-9]*//p')\n"
        "ethtool -G ens5f0 rx 1024; cat /sys/class/net/ens5f0/carrier\n"
        "ethtool -G ens5f0 rx $was; sleep 1; cat /sys/class/net/ens5f0/carrier\n"
    )
    said = rack.execute(NODE, ["sh", "-c", script]).stdout.split()
    assert said[-1] == "1", "set back, the link is there again"
    return said != ["1", "1"]


def noisy_output(rack: Rack) -> bool:
    with login(rack, NODE) as client:
        text = said(client, "echo word")
    assert text.endswith("word\n")
    return len(text) > 1_000_000 and "\x1b[" in text


def ssh_hangs(rack: Rack) -> bool:
    address = rack.status(NODE)
    with socket.create_connection((address.host, address.port), 2) as made:
        made.settimeout(1)
        try:
            return made.recv(1) == b""
        except TimeoutError:
            return True


def port_refused(rack: Rack) -> bool:
    address = rack.status(NODE)
    try:
        socket.create_connection((address.host, address.port), 2).close()
    except ConnectionRefusedError:
        return True
    return False


SEEN: dict[str, Callable[[Rack], bool]] = {
    "no_python": no_python,
    "disk_full": disk_full,
    "apt_lock_held": apt_lock_held,
    "no_dns": no_dns,
    "nic_setting_kills_link": nic_setting_kills_link,
    "noisy_output": noisy_output,
    "ssh_hangs": ssh_hangs,
    "port_refused": port_refused,
}


@pytest.fixture(autouse=True)
def _healed(rack: Rack) -> Iterator[None]:
    yield
    if rack.status(NODE).faults:
        rack.fresh(NODE)


def test_every_host_fault_is_tried_here() -> None:
    elsewhere = {"host_key_changed", *hostfaults.OF_THE_CABLE}  # the latter in test_between.py
    assert set(SEEN) | elsewhere == set(hostfaults.CATALOGUE)


@pytest.mark.parametrize("fault", SEEN)
def test_a_fault_is_seen_and_cleared(rack: Rack, fault: str) -> None:
    seen = SEEN[fault]
    assert not seen(rack), "the fault is there before it was injected"
    rack.inject(NODE, fault)
    assert rack.status(NODE).faults == (fault,)
    _soon(lambda: seen(rack))
    rack.clear(NODE)
    assert rack.status(NODE).faults == ()
    _soon(lambda: not seen(rack))


def _soon(what: Callable[[], bool]) -> None:
    """The forwarder hears of a change a moment later."""
    deadline = time.monotonic() + 5
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_changed_host_keys_stay_changed(rack: Rack) -> None:
    before = host_key(rack, NODE)
    rack.inject(NODE, "host_key_changed")
    _soon(lambda: rack.status(NODE).ssh == "answers")
    assert host_key(rack, NODE) != before


def test_the_apt_lock_lets_go_by_itself(rack: Rack) -> None:
    rack.inject(NODE, "apt_lock_held", seconds="2")
    assert apt_lock_held(rack)
    time.sleep(2.5)
    assert not apt_lock_held(rack)


def test_a_board_fault_is_seen_by_the_stand_ins_and_cleared(rack: Rack) -> None:
    before = rack.run(NODE, "lspci", "-n")
    rack.inject(NODE, "gpu_missing")
    assert rack.run(NODE, "lspci", "-n") != before
    rack.clear(NODE)
    assert rack.run(NODE, "lspci", "-n") == before


def test_an_unknown_fault_is_refused_with_the_known_ones(rack: Rack) -> None:
    with pytest.raises(BadInput, match="no_python"):
        rack.inject(NODE, "nonsense")
