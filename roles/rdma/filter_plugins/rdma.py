"""Filters of the role rdma: which NICs have RDMA, and what is asked of each. Pure."""

from __future__ import annotations

from typing import Any

Claim = dict[str, Any]
PRIORITIES = 8
# Device and port behind an interface, such as mlx5_0/1: two NICs in a bond have one device, and a
# device may have several ports, so `rdma` is asked, not the interface's own folder in sysfs.
_LINK = "link=$(rdma link show | sed -n 's,^link \\([^ ]*\\) .* netdev {name}\\( .*\\)*$,\\1,p')"
_PORT = "${link%/*}/ports/${link#*/}"


def names(nics: list[dict[str, Any]]) -> list[str]:
    """The interfaces with RDMA, of a profile's `parts.nics`."""
    return [nic["name"] for nic in nics if nic.get("rdma")]


def links(nics: list[dict[str, Any]], interfaces: list[str]) -> list[Claim]:
    """State and rate of each link. One of any where there is none, so that it is told of."""
    speed = {nic["name"]: nic["speed_mbps"] for nic in nics}
    found = [_state(name) for name in interfaces or ["any NIC"]]
    return found + [_rate(name, speed[name]) for name in interfaces if name in speed]


def _state(name: str) -> Claim:
    return {
        "name": f"link of {name}",
        "argv": ["rdma", "link", "show"],
        "expect": rf"^link \S+ state ACTIVE physical_state LINK_UP netdev {name}( |$)",
    }


def _rate(name: str, mbps: int) -> Claim:
    return {
        "name": f"rate of {name}",
        "argv": ["sh", "-c", f"{_LINK.format(name=name)}; cat /sys/class/infiniband/{_PORT}/rate"],
        "expect": rf"^{mbps / 1000:g}(\.0)? Gb/sec",
    }


def fabric(interfaces: list[str], priority: int, dscp: int, tos: int) -> list[Claim]:
    """Lossless class, its DSCP, and what RoCE connections begin with, of each interface."""
    return [
        claim
        for name in interfaces or ["any NIC"]
        for claim in (_pfc(name, priority), _dscp(name, dscp, priority), _roce(name, tos))
    ]


def _pfc(name: str, priority: int) -> Claim:
    wanted = " ".join(f"{p}:{'on' if p == priority else 'off'}" for p in range(PRIORITIES))
    return {
        "name": f"flow control by priority of {name}",
        "argv": ["dcb", "pfc", "show", "dev", name],
        "expect": rf"prio-pfc\s+{wanted}\b",
    }


def _dscp(name: str, dscp: int, priority: int) -> Claim:
    return {
        "name": f"DSCP of {name}",
        "argv": ["dcb", "-N", "app", "show", "dev", name, "dscp-prio"],
        "expect": rf"dscp-prio\b.*\b{dscp}:{priority}\b",
    }


def _roce(name: str, tos: int) -> Claim:
    read = f"cd /sys/kernel/config/rdma_cm/{_PORT} && cat default_roce_mode default_roce_tos"
    return {
        "name": f"RoCE defaults of {name}",
        "argv": ["sh", "-c", f"{_LINK.format(name=name)}; {read}"],
        "expect": rf"RoCE v2\n{tos}$",
    }


def congestion(interfaces: list[str], priority: int) -> list[Claim]:
    """ECN of each interface: both ends on, or the firmware's own where the driver has no switch."""
    return [
        {
            "name": f"ECN of {name}",
            "argv": ["sh", "-c", _ECN.format(name=name, priority=priority)],
            "expect": "^(1 1|no switch in this driver: as the firmware has it)$",
        }
        for name in interfaces or ["any NIC"]
    ]


_ECN = (
    "cd /sys/class/net/{name} || exit 1; [ -d ecn ] ||"
    " {{ echo no switch in this driver: as the firmware has it; exit 0; }};"
    " echo $(cat ecn/roce_np/enable/{priority} ecn/roce_rp/enable/{priority})"
)


class FilterModule:
    """What Ansible finds here."""

    def filters(self) -> dict[str, Any]:
        return {
            "rdma_names": names,
            "rdma_links": links,
            "rdma_fabric": fabric,
            "rdma_congestion": congestion,
        }
