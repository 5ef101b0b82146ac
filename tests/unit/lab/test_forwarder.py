"""The forwarder, with this machine's own namespace as the lab's."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeprep.lab import forwarder, netns

PORT = 24622
LISTEN = "127.77.249.11"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stepping into a namespace needs root; it is tried on lab nodes."""
    monkeypatch.setattr(netns, "inside", lambda _path: contextlib.nullcontext())


def routes(file: Path, mode: str) -> Path:
    entry = {"listen": LISTEN, "port": PORT, "to": "127.77.249.1", "mode": mode}
    file.write_text(json.dumps({"netns": "/run/netns/x", "nodes": [entry]}))
    return file


@contextlib.asynccontextmanager
async def node(port: int) -> AsyncIterator[None]:
    """Something that speaks first, as sshd does, then echoes until the client has said all."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        writer.write(await reader.read())
        writer.close()

    async with await asyncio.start_server(serve, "127.77.249.1", port):
        yield


@contextlib.asynccontextmanager
async def running(file: Path) -> AsyncIterator[forwarder.Forwarder]:
    one = forwarder.Forwarder(file)
    await one.apply()
    try:
        yield one
    finally:
        one.close()


async def talk(text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(LISTEN, PORT)
    try:
        writer.write(text)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


def test_bytes_go_both_ways_and_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarder, "_SSH", PORT)
    load = b"x" * 300_000

    async def scene() -> bytes:
        async with node(PORT), running(routes(tmp_path / "f", "open")):
            return await talk(load)

    assert asyncio.run(scene()) == b"SSH-2.0-test\r\n" + load


def test_a_node_that_is_off_resets_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarder, "_SSH", PORT)

    async def scene() -> None:
        async with running(routes(tmp_path / "f", "open")):
            with pytest.raises(ConnectionError):
                await talk(b"")

    asyncio.run(scene())


def test_a_hanging_port_accepts_and_never_speaks(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(routes(tmp_path / "f", "hangs")):
            reader, writer = await asyncio.open_connection(LISTEN, PORT)
            writer.write(b"hello")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.2)
            writer.close()

    asyncio.run(scene())


def test_a_changed_file_changes_what_is_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarder, "_SSH", PORT)

    async def scene() -> None:
        async with node(PORT), running(routes(tmp_path / "f", "refused")) as one:
            with pytest.raises(ConnectionRefusedError):
                await talk(b"")
            routes(tmp_path / "f", "open")
            await one.apply()
            assert await talk(b"word") == b"SSH-2.0-test\r\nword"
            routes(tmp_path / "f", "refused")
            await one.apply()
            with pytest.raises(ConnectionRefusedError):
                await talk(b"")

    asyncio.run(scene())
