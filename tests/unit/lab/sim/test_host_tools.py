"""lscpu, lspci, dmidecode, lsblk, ethtool and the kernel's log, from the same board."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.lab.sim.conftest import Node

WITH_GPUS = ("a100-sxm4-40g-x4", "a100-pcie-40g-x4", "a100-sxm4-80g-x8", "h100-sxm5-80g-x8")


def test_lscpu_as_json_and_as_text_agree(node: Node) -> None:
    fields = {row["field"]: row["data"] for row in json.loads(node.out("lscpu -J"))["lscpu"]}
    assert (fields["Socket(s):"], fields["Core(s) per socket:"], fields["CPU(s):"]) == (
        "2", "32", "128",
    )  # fmt: skip
    text = dict(re.split(r": +", line, maxsplit=1) for line in node.out("lscpu").splitlines())
    assert text == {name[:-1]: value for name, value in fields.items()}
    assert fields["NUMA node1 CPU(s):"] == "32-63,96-127"


@pytest.mark.parametrize("model", WITH_GPUS)
def test_lspci_shows_gpus_and_switches(node: Node, model: str) -> None:
    node.become(model)
    rows = node.out("lspci -D -n -mm").splitlines()
    gpus = [row.split()[0] for row in rows if '"0302" "10de"' in row]
    switches = [row.split()[0] for row in rows if '"0680" "10de"' in row]
    assert gpus == [gpu["address"] for gpu in node.board["gpus"]]
    assert switches == [switch["address"] for switch in node.board["nvswitches"]]


def test_lspci_in_its_forms(node: Node) -> None:
    assert node.out("lspci -D -nn -d 10de:").splitlines()[0] == (
        "0000:17:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 40GB] "
        "[10de:20b0] (rev a1)"
    )
    assert '0000:17:00.0 "0302" "10de" "20b0" -ra1 "10de" "134f"' in node.out("lspci -D -n -mm")
    assert node.out("lspci -d 10de:1af1") == ""
    assert "LnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)" in node.out("lspci -vv -s 17:00.0")


def test_dmidecode_lists_each_slot_once(node: Node) -> None:
    text = node.out("dmidecode -t 17")
    slots = re.findall(r"^\tLocator: (\S+)$", text, re.MULTILINE)
    assert len(slots) == len(set(slots)) == 32
    assert text.count("\tSize: 32 GB\n") == 16
    assert text.count("\tSize: No Module Installed\n") == 16


def test_dmidecode_chooses_types(node: Node) -> None:
    text = node.out("dmidecode -t bios -t baseboard")
    assert re.findall(r"DMI type (\d+)", text) == ["0", "2"]
    assert f"Serial Number: {node.board['host']['board_serial']}" in text
    assert node.out("dmidecode -s system-serial-number").strip() == node.board["host"]["serial"]


def test_lsblk_gives_the_columns_that_were_asked_for(node: Node) -> None:
    disks = json.loads(node.out("lsblk -J -b -o NAME,SIZE,SERIAL,WWN,TRAN"))["blockdevices"]
    assert [list(disk)[:5] for disk in disks] == [["name", "size", "serial", "wwn", "tran"]] * 3
    assert [disk["tran"] for disk in disks] == ["sata", "sata", "nvme"]
    assert all(isinstance(disk["size"], int) for disk in disks)
    assert [child["name"] for child in disks[0]["children"]] == ["sda1", "sda2"]


def test_lsblk_in_its_other_forms(node: Node) -> None:
    assert node.out("lsblk -dno NAME,SIZE").splitlines()[-1].split() == ["nvme0n1", "1.7T"]
    assert 'NAME="sda2" MOUNTPOINT="/"' in node.out("lsblk -P -o NAME,MOUNTPOINT")
    assert json.loads(node.out("lsblk -J -b -o NAME /dev/sdb"))["blockdevices"] == [{"name": "sdb"}]


def test_lsblk_refuses_what_it_does_not_know(node: Node) -> None:
    assert node.run("lsblk -o NAME,BEAUTY") == (1, "", "lsblk: unknown column: BEAUTY\n")
    assert node.run("lsblk /dev/sdz").rc == 32


def test_ethtool_tells_speed_driver_and_place(node: Node) -> None:
    text = node.out("ethtool ens5f0")
    assert "\tSpeed: 10000Mb/s\n\tDuplex: Full\n" in text
    assert text.endswith("\tLink detected: yes\n")
    driver = node.out("ethtool -i ens5f0")
    assert "driver: ixgbe\n" in driver
    assert "bus-info: 0000:05:00.0\n" in driver


def test_ethtool_keeps_settings_within_their_maxima(node: Node) -> None:
    node.out("ethtool -L ens5f0 combined 16")
    node.out("ethtool -G ens5f0 rx 4096 tx 4096")
    node.out("ethtool -C ens5f0 adaptive-rx off rx-usecs 80")
    node.out("ethtool -K ens5f0 lro on")
    assert node.out("ethtool -l ens5f0").rstrip().endswith("Combined:\t16")
    assert "RX:\t\t4096" in node.out("ethtool -g ens5f0").split("Current")[1]
    assert "rx-usecs:\t80" in node.out("ethtool -c ens5f0")
    node.out("ethtool -A ens5f0 rx off")
    assert "RX:\t\toff\nTX:\t\ton" in node.out("ethtool -a ens5f0")
    assert "large-receive-offload: on" in node.out("ethtool -k ens5f0")
    assert node.run("ethtool -L ens5f0 combined 640").rc == 1


def test_a_driver_forgets_its_settings_at_a_reboot(node: Node) -> None:
    node.out("ethtool -G ens5f0 rx 4096")
    node.out("ethtool -K ens5f0 lro on")
    assert node.board["nics"][0]["rings"]["rx"] == 4096
    node.write({**node.board, "boot_id": "another"})
    assert "RX:\t\t512" in node.out("ethtool -g ens5f0").split("Current")[1]
    assert "large-receive-offload: off" in node.out("ethtool -k ens5f0")


def test_ethtool_knows_no_other_device(node: Node) -> None:
    assert node.run("ethtool eth7") == (75, "", "netlink error: No such device\n")


@pytest.mark.parametrize(
    ("command", "stamp"),
    [
        ("dmesg", r"\[ *\d+\.\d{6}\] "),
        ("dmesg -T", r"\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "),
        ("dmesg --time-format iso", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d "),
        ("journalctl -k -q --no-pager -o short-unix", r"\d+\.\d{6} \S+ kernel: "),
    ],
)
def test_an_xid_stands_in_the_kernels_log(node: Node, command: str, stamp: str) -> None:
    assert "Xid" not in node.out(command)
    last = node.inject("xid_79", gpu=0, age_s=60).out(command).splitlines()[-1]
    assert re.fullmatch(
        stamp + r"NVRM: Xid \(PCI:0000:17:00\): 79, .*GPU has fallen off the bus\.", last
    )


def test_a_reboot_clears_the_kernels_log(node: Node) -> None:
    node.inject("xid_48")
    node.out("dmesg")
    node.write({**node.board, "boot_id": "another"})
    assert "Xid" not in node.out("dmesg")
