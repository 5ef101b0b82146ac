"""The NAS's units and mounts, with the cache of what was read and without."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nodeprep import inventory
from nodeprep.model.claim import File, Mount, Package, Service
from nodeprep.model.node import Document

ROOT = Path(__file__).parents[3]


def compiled(folder: Path, **variables: object) -> Document:
    data = yaml.safe_load((ROOT / "inventory/lab.yaml").read_text())
    data["all"]["children"]["gpu_nodes"]["vars"] |= variables
    file = folder / "inventory" / "lab.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(data))
    return inventory.load(file).documents[0]


def texts(document: Document) -> dict[str, str]:
    claims = document.claims_of("nfs_client")
    return {claim.name: claim.content or "" for claim in claims if isinstance(claim, File)}


def test_without_a_cache_nothing_of_it_is_claimed(tmp_path: Path) -> None:
    document = compiled(tmp_path)
    claims = document.claims_of("nfs_client")
    names = {claim.name for claim in claims}
    assert not {"cachefilesd", "nodeprep-fscache.service", "/etc/cachefilesd.conf"} & names
    (mount,) = (claim for claim in claims if isinstance(claim, Mount))
    assert "fsc" not in mount.options


def test_with_one_the_mounts_use_it_and_it_waits_for_its_disk(tmp_path: Path) -> None:
    document = compiled(tmp_path, nfs_client_fscache=True, nfs_client_fscache_dir="/cache/fs")
    claims = document.claims_of("nfs_client")
    assert any(isinstance(claim, Package) and claim.name == "cachefilesd" for claim in claims)
    found = texts(document)
    assert ",fsc,_netdev,nofail\n" in found["/etc/systemd/system/data-training.mount"]
    unit = found["/etc/systemd/system/nodeprep-fscache.service"]
    assert "RequiresMountsFor=/cache/fs\n" in unit
    assert "Before=remote-fs-pre.target\n" in unit
    (mount,) = (claim for claim in claims if isinstance(claim, Mount))
    assert "fsc" in mount.options, "a mount without it is drift"
    service = next(c for c in claims if isinstance(c, Service) and "fscache" in c.name)
    assert (service.enabled, service.active) == (True, True)
    assert not service.applies, "the lab's nodes have no NFS, as the profile says"


@pytest.mark.parametrize(("free", "lines"), [(10, "10 7 3"), (20, "20 17 13")])
def test_it_gives_space_back_before_the_disk_is_full(tmp_path: Path, free: int, lines: str) -> None:
    document = compiled(tmp_path, nfs_client_fscache=True, nfs_client_fscache_free_percent=free)
    run, cull, stop = lines.split()
    text = texts(document)["/etc/cachefilesd.conf"]
    assert f"brun {run}%\nbcull {cull}%\nbstop {stop}%\n" in text
