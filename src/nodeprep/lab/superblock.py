"""The superblock of a Linux md array (version 1.2), as one that was left behind on a disk.

Format: include/uapi/linux/raid/md_p.h, struct mdp_superblock_1; little endian, 4 KiB from the
start of the disk. Enough for blkid and mdadm to recognise a member of an array.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

_OFFSET = 4096
_MAGIC = 0xA92B4EFC
_DATA_OFFSET = 2048  # sectors
_CHUNK = 1024  # sectors


def write(disk: Path, *, name: str, size_bytes: int) -> None:
    """Make `disk` the first of two members of a RAID 0 called `name` (`host:array`)."""
    block = _superblock(name, size_bytes // 512)
    with disk.open("r+b") as stream:
        stream.seek(_OFFSET)
        stream.write(block)


def _superblock(name: str, sectors: int) -> bytes:
    array, member = (hashlib.md5(f"{what} {name}".encode(), usedforsecurity=False).digest()
                     for what in ("array", "member"))  # fmt: skip
    data = sectors - _DATA_OFFSET
    roles = struct.pack("<HH", 0, 1)
    head = struct.pack("<IIII16s32s", _MAGIC, 1, 0, 0, array, name.encode())
    head += struct.pack("<QIIQIIII", 0, 0, 0, data, _CHUNK, 2, 0, 0)  # ctime … new_level
    head += struct.pack("<QIIII", 0, 0, 0, 0, 0)  # no reshape
    head += struct.pack("<QQQQ", _DATA_OFFSET, data, _OFFSET // 512, 0)
    head += struct.pack("<II16sBBHI", 0, 0, member, 0, 0, 0, 0)
    head += struct.pack("<QQQ", 0, 1, 2**64 - 1)  # utime, events, resync_offset
    tail = struct.pack("<I32x", len(roles) // 2)  # max_dev
    checksum = _checksum(head + struct.pack("<I", 0) + tail + roles)
    return head + struct.pack("<I", checksum) + tail + roles


def _checksum(block: bytes) -> int:
    total: int = sum(word for (word,) in struct.iter_unpack("<I", block))
    return ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF
