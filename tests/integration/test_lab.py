"""Lab nodes look like freshly rented servers, and behave like machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
import pytest

from nodeprep.lab import rack as racks
from nodeprep.lab import sources, state

if TYPE_CHECKING:
    from tests.conftest import Rack

pytestmark = pytest.mark.lab


@contextmanager
def login(rack: Rack, node: str) -> Iterator[paramiko.SSHClient]:
    """Root, by password, through the forwarder: as a customer would the first time."""
    address = rack.status(node)
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect(
        address.host,
        port=address.port,
        username="root",
        password=rack.password,
        look_for_keys=False,
        allow_agent=False,
    )
    try:
        yield client
    finally:
        client.close()


def said(client: paramiko.SSHClient, command: str) -> str:
    return client.exec_command(command)[1].read().decode()


def host_key(rack: Rack, node: str) -> str:
    with login(rack, node) as client:
        transport = client.get_transport()
        assert transport is not None
        return transport.get_remote_server_key().get_base64()


def test_root_logs_in_by_password_on_every_node(rack: Rack) -> None:
    for node in ("gpu1", "gpu2", "gpu3", "nas1"):
        with login(rack, node) as client:
            assert said(client, "hostname; id -un").split() == [node, "root"]


def test_another_password_is_refused(rack: Rack) -> None:
    address = rack.status("gpu1")
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    with pytest.raises(paramiko.AuthenticationException):
        client.connect(
            address.host,
            port=address.port,
            username="root",
            password="not the one",
            look_for_keys=False,
            allow_agent=False,
        )


def test_systemd_is_up_and_nothing_failed(rack: Rack) -> None:
    assert rack.run("gpu1", "systemctl", "is-system-running", "--wait").strip() == "running"


def test_a_fresh_node_has_no_admin_user_and_nothing_of_a_cluster(rack: Rack) -> None:
    rack.fresh("gpu2")
    assert rack.execute("gpu2", ["id", "nodeprep"]).returncode != 0
    installed = rack.run("gpu2", "dpkg-query", "-f", "${Package}\n", "-W").split()
    assert not {"chrony", "openmpi-bin", "libnccl2"} & set(installed)
    assert "python3" in installed


def test_packages_come_from_the_lab_and_every_fetch_is_logged(rack: Rack) -> None:
    rack.fresh("gpu2")
    script = "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y jq"
    rack.run("gpu2", "sh", "-c", script)
    assert rack.run("gpu2", "jq", "-n", "40+2").strip() == "42"
    log = state.LabDir(rack.name).http_log.read_text()
    fetched = [line.split(maxsplit=3) for line in log.splitlines()]
    assert [one for one in fetched if one[1] == "10.77.0.12" and "/jq_" in one[3]]


def test_no_node_knows_the_mirror_that_its_image_was_built_from(rack: Rack) -> None:
    hosts = {source.uri.split("/")[2] for source in sources.of_machine()}
    hosts -= {"deb.debian.org", "security.debian.org"}
    for host in hosts:
        script = f"grep -rlIF {host} /etc /var /usr/lib/nodeprep-sim 2>/dev/null || true"
        assert rack.run("gpu3", "sh", "-c", script) == ""


def test_nodes_find_each_other_by_name_and_nobody_else(rack: Rack) -> None:
    assert rack.run("gpu1", "getent", "hosts", "nas1").split()[0] == "10.77.0.201"
    rack.run("gpu1", "ping", "-c1", "-W2", "gpu2")
    assert rack.execute("gpu1", ["getent", "hosts", "example.com"]).returncode != 0
    began = time.monotonic()
    outside = rack.execute("gpu1", ["ping", "-c1", "-W5", "192.0.2.1"])
    assert outside.returncode != 0
    assert time.monotonic() - began < 4, "a connection to nowhere hangs instead of failing"


def test_the_nic_has_the_reference_sites_name(rack: Rack) -> None:
    assert "10.77.0.11/16" in rack.run("gpu1", "ip", "-br", "address", "show", "ens5f0")


def test_what_is_simulated_is_declared_on_the_node(rack: Rack) -> None:
    declared = rack.run("gpu1", "cat", "/etc/nodeprep-simulated").split()
    assert "lspci" in declared
    for tool in declared:
        assert rack.run("gpu1", "readlink", "-f", f"/usr/local/sbin/{tool}").startswith(
            "/usr/lib/nodeprep-sim/"
        )
    assert "NVIDIA" in rack.run("gpu1", "lspci")
    assert "NVIDIA" not in rack.run("nas1", "lspci")


def test_a_node_can_neither_set_the_clock_nor_make_a_disk(rack: Rack) -> None:
    assert rack.execute("gpu1", ["date", "-s", "2001-01-01"]).returncode != 0
    assert rack.execute("gpu1", ["mknod", "/dev/sdz", "b", "8", "0"]).returncode != 0
    assert rack.run("gpu1", "find", "/dev", "-type", "b") == ""


def boot_id(rack: Rack, node: str) -> str:
    return rack.run(node, "cat", "/proc/sys/kernel/random/boot_id").strip()


def wait_for(what: Callable[[], bool], *, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_reboot_boots_again_and_keeps_the_disk(rack: Rack) -> None:
    before, key = boot_id(rack, "gpu3"), host_key(rack, "gpu3")
    rack.run("gpu3", "touch", "/root/kept")
    with login(rack, "gpu3") as client:
        said(client, "systemctl reboot")

    def again() -> bool:
        done = rack.status("gpu3").ssh == "answers"
        return done and boot_id(rack, "gpu3") != before

    wait_for(again)
    rack.run("gpu3", "test", "-e", "/root/kept")
    assert host_key(rack, "gpu3") == key


def test_poweroff_is_off_until_up(rack: Rack) -> None:
    rack.execute("gpu3", ["systemctl", "poweroff"])
    wait_for(lambda: rack.status("gpu3").power == "off")
    assert rack.status("gpu3").ssh == "refused"
    racks.up(rack.name, gpus=3, nas=1)
    assert rack.status("gpu3").ssh == "answers"


def test_up_leaves_running_nodes_alone(rack: Rack) -> None:
    before = boot_id(rack, "gpu1")
    racks.up(rack.name, gpus=3, nas=1)
    assert boot_id(rack, "gpu1") == before


def test_reset_is_another_machine(rack: Rack) -> None:
    before = host_key(rack, "gpu2")
    rack.run("gpu2", "touch", "/root/mine")
    others = boot_id(rack, "gpu1")
    rack.fresh("gpu2")
    assert host_key(rack, "gpu2") != before
    assert rack.execute("gpu2", ["test", "-e", "/root/mine"]).returncode != 0
    assert boot_id(rack, "gpu1") == others


def test_the_lab_tells_the_time(rack: Rack) -> None:
    rack.fresh("gpu2")
    script = (
        "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y chrony"
        " && echo 'server 10.77.0.1 iburst' > /etc/chrony/sources.d/lab.sources"
        " && systemctl restart chrony && chronyc waitsync 20 0.5 0 0.5"
    )
    rack.run("gpu2", "sh", "-c", script)
    assert "10.77.0.1" in rack.run("gpu2", "chronyc", "-n", "sources")


def test_the_inventory_names_every_node(rack: Rack, tmp_path: Path) -> None:
    text = rack.inventory(tmp_path).read_text()
    for node in ("gpu1", "gpu2", "gpu3", "nas1"):
        assert rack.status(node).host in text
