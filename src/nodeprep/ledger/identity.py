"""Tells whether a machine is the one that was accepted. Pure."""

from __future__ import annotations

from nodeprep.ledger.records import Identity, IdentityChange
from nodeprep.model.hardware import Hardware


def identity_of(hardware: Hardware | None) -> Identity:
    """The serials that tell this machine from its twins; a part that was not read is None."""
    if hardware is None:
        return Identity()
    uuids = None
    if hardware.gpus is not None and all(gpu.uuid for gpu in hardware.gpus):
        uuids = tuple(sorted(gpu.uuid for gpu in hardware.gpus if gpu.uuid))
    return Identity(board_serial=hardware.board_serial or None, gpu_uuids=uuids)


def changes(accepted: Identity, found: Identity) -> tuple[IdentityChange, ...]:
    """What was swapped. A part that either side did not read is not compared: `inspect` says so."""
    return (*_board(accepted, found), *_gpus(accepted, found))


def _board(accepted: Identity, found: Identity) -> tuple[IdentityChange, ...]:
    was, now = accepted.board_serial, found.board_serial
    if was is None or now is None or was == now:
        return ()
    return (IdentityChange(part="board", accepted=was, found=now),)


def _gpus(accepted: Identity, found: Identity) -> tuple[IdentityChange, ...]:
    if accepted.gpu_uuids is None or found.gpu_uuids is None:
        return ()
    gone = sorted(set(accepted.gpu_uuids) - set(found.gpu_uuids))
    came = sorted(set(found.gpu_uuids) - set(accepted.gpu_uuids))
    longest = max(len(gone), len(came))
    pairs = zip(gone + ["none"] * longest, came + ["none"] * longest, strict=False)
    return tuple(
        IdentityChange(part="gpu", accepted=was, found=now) for was, now in list(pairs)[:longest]
    )
