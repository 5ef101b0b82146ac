"""Measures one pair: path MTU, TCP and UDP both ways. What is unknown is left out, with the why."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from nodeprep.accept.between.figures import NOTHING, Both, ClockFigures, PairFigures, Trouble
from nodeprep.accept.parsers.chrony import parse_tracking
from nodeprep.accept.parsers.iperf3 import Iperf3, load_json, parse_iperf3
from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number
from nodeprep.accept.session import Ran
from nodeprep.errors import NodeprepError
from nodeprep.model.base import Frozen

PORT = 5200  # iperf3's own is the next; each test of a pair has a port of its own
_PORTS = 16  # a round: those of the round before may not be free yet
_HEADERS = 28  # IPv4 and UDP, or ICMP echo
_SMALLEST = 576  # bytes: what every IPv4 path carries
_DEFAULT_MTU = 1500
_SETUP_S = 8.0  # what a test may take beyond its own duration: connect, results, a slow node
_LISTEN_S = 12.0
_UDP_TRIES = 3  # iperf3 says hello by one datagram, and waits half a minute when that is lost
_NOT_FOUND = 127
_SENT = 0.8  # of the datagrams that should have been sent, and of those that should have arrived


class Seconds(Frozen):
    """How long each test sends, by kind. `ceiling` 0: as much UDP as possible is not tried."""

    tcp: int = 2
    udp: int = 1
    ceiling: int = 0


class Node(Protocol):
    """A node that is connected to; `nodeprep.remote.Remote` is one."""

    @property
    def name(self) -> str: ...
    def run(self, command: str, *, sudo: bool, timeout_s: float) -> Ran: ...


class _NotMeasured(Exception):
    def __init__(self, why: str, node: str = "") -> None:
        super().__init__(why)
        self.trouble = Trouble(why=why, node=node)


class _Said(NamedTuple):
    """What the client printed, and how many datagrams the receiver's kernel handed out since."""

    text: str
    heard: int


class PairTest:
    """Node a serves, node b asks. `addresses`: by which each is found. `udp_mbps`: offered."""

    def __init__(
        self,
        a: Node,
        b: Node,
        addresses: tuple[str, str],
        *,
        number: int,
        seconds: Seconds,
        udp_mbps: float,
    ) -> None:
        self._a, self._b = a, b
        self._address, self._back = addresses
        self._number = number
        self._port = PORT + _PORTS * (number % 64)
        self._seconds = seconds
        self._udp_mbps = udp_mbps

    def run(self) -> PairFigures:
        """One after the other: a test must not share the link with another."""
        troubles: dict[str, Trouble] = {}
        mtus, path_mtu = self._try("path_mtu", troubles, self._path_mtu, ((None, None), None))
        tcp: Both = self._try("tcp", troubles, self._tcp, NOTHING)
        size = (path_mtu or min((mtu for mtu in mtus if mtu), default=_SMALLEST)) - _HEADERS
        blank: tuple[Both, Both] = (NOTHING, NOTHING)
        loss, jitter = self._try("loss", troubles, lambda: self._udp(size), blank)
        ceiling: Both = NOTHING
        if self._seconds.ceiling:
            ceiling = self._try("ceiling", troubles, lambda: self._ceiling(size), NOTHING)
        return PairFigures(
            a=self._a.name,
            b=self._b.name,
            round=self._number,
            tcp=tcp,
            loss=loss,
            jitter=jitter,
            offered=self._udp_mbps / 1000,
            ceiling=ceiling,
            mtu=mtus,
            path_mtu=path_mtu,
            troubles=troubles,
        )

    def nothing(self, trouble: Trouble) -> PairFigures:
        """What is told when it could not even be tried."""
        troubles = dict.fromkeys(("path_mtu", "tcp", "loss"), trouble)
        return PairFigures(a=self._a.name, b=self._b.name, round=self._number, troubles=troubles)

    def _try(
        self, what: str, troubles: dict[str, Trouble], work: Callable[[], Any], nothing: Any
    ) -> Any:
        try:
            return work()
        except _NotMeasured as problem:
            troubles[what] = problem.trouble
        except NodeprepError as problem:
            troubles[what] = Trouble(why=problem.message)
        return nothing

    # Path MTU

    def _path_mtu(self) -> tuple[tuple[int, int], int]:
        """The MTU of the interface at both ends, and the largest packet that came back."""
        mtu_a = self._interface_mtu(self._a, self._back)
        mtu_b = self._interface_mtu(self._b, self._address)
        largest = min(mtu_a, mtu_b)
        if self._echoes(largest, tries=3):
            return (mtu_a, mtu_b), largest
        if not self._echoes(_SMALLEST, tries=3):
            raise _NotMeasured(f"{self._a.name} does not answer a ping of {_SMALLEST} bytes")
        low, high = _SMALLEST, largest
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._echoes(middle, tries=1) else (low, middle)
        return (mtu_a, mtu_b), low

    def _interface_mtu(self, node: Node, towards: str) -> int:
        """Of the interface that leads to an address, or to the address of a name."""
        address = f"getent ahostsv4 {shlex.quote(towards)} | head -n 1 | cut -d' ' -f1"
        find = f"ip -o route get $({address}) | grep -o 'dev [^ ]*' | cut -d' ' -f2"
        ran = node.run(f'cat "/sys/class/net/$({find})/mtu"', sudo=False, timeout_s=10)
        if ran.rc != 0 or not ran.stdout.strip().isdigit():
            raise _NotMeasured("its interface to the others is not found", node.name)
        return int(ran.stdout)

    def _echoes(self, mtu: int, *, tries: int) -> bool:
        """Whether a packet of `mtu` bytes that must not be cut goes there and back."""
        ping = f"ping -n -q -c {tries} -i 0.2 -W 1 -M do -s {mtu - _HEADERS} {self._address}"
        ran = self._b.run(ping, sudo=True, timeout_s=10)
        if ran.rc == _NOT_FOUND:
            raise _NotMeasured("ping is missing", self._b.name)
        if ran.timed_out or ran.rc not in (0, 1):  # 1: no answer, or larger than an interface's MTU
            raise _NotMeasured(f"ping: {excerpt(ran.stderr) or ran.rc}", self._b.name)
        return ran.rc == 0

    # iperf3

    def _tcp(self) -> Both:
        said = self._both(["-t", str(self._seconds.tcp)], self._seconds.tcp)
        return _pair(_parsed(one.text).bits_per_second / 1e9 for one in said)

    def _udp(self, size: int) -> tuple[Both, Both]:
        options = ["-u", "-b", f"{self._udp_mbps:g}M", "-l", str(size)]
        options += ["-t", str(self._seconds.udp)]
        said = self._both(options, self._seconds.udp, tries=_UDP_TRIES)
        wanted = self._udp_mbps * 1e6 * self._seconds.udp / 8 / size
        losses = [_loss(one, wanted) for one in said]
        return _pair(loss for loss, _ in losses), _pair(jitter for _, jitter in losses)

    def _ceiling(self, size: int) -> Both:
        options = ["-u", "-b", "0", "-l", str(size), "-t", str(self._seconds.ceiling)]
        said = self._both(options, self._seconds.ceiling, tries=_UDP_TRIES)
        return _pair(one.heard * size * 8 / self._seconds.ceiling / 1e9 for one in said)

    def _both(self, options: Sequence[str], seconds: int, tries: int = 1) -> tuple[_Said, _Said]:
        """What the client told of a to b (`-R`: the server sends), and of b to a."""
        from_server = self._tried([*options, "-R"], seconds, tries, self._b)
        return from_server, self._tried(options, seconds, tries, self._a)

    def _tried(self, options: Sequence[str], seconds: int, tries: int, receiver: Node) -> _Said:
        """Only the last of several failures counts: UDP's first datagram may be a lost one."""
        while True:
            tries -= 1
            try:
                before = _heard(receiver) if "-u" in options else 0
                text = self._once(options, seconds)
                after = _heard(receiver) if "-u" in options else 0
                return _Said(text, after - before)
            except _NotMeasured as problem:
                if not tries or problem.trouble.node:
                    raise

    def _once(self, options: Sequence[str], seconds: int) -> str:
        limit_s = seconds + _SETUP_S
        self._port += 1  # of a server that hangs the port is taken
        server = self._serve(self._port, limit_s + _LISTEN_S)
        try:
            return self._ask(self._port, options, limit_s)
        except BaseException:
            self._a.run(f"kill {server} 2>/dev/null || :", sudo=False, timeout_s=10)
            raise

    def _serve(self, port: int, limit_s: float) -> str:
        """Start a server for one test, bounded; its pid, once it listens."""
        script = (
            f"command -v iperf3 >/dev/null || exit {_NOT_FOUND}; "
            f"setsid timeout -k 1 {limit_s:g} iperf3 -s -1 -p {port} </dev/null >/dev/null 2>&1 & "
            "echo $!; for _ in $(seq 200); do "
            f"ss -Hltn 'sport = :{port}' | grep -q . && exit 0; sleep 0.05; done; exit 1"
        )
        ran = self._a.run(script, sudo=False, timeout_s=_LISTEN_S)
        if ran.rc == _NOT_FOUND:
            raise _NotMeasured("iperf3 is missing", self._a.name)
        pid = ran.stdout.strip()
        if ran.rc != 0 or ran.timed_out or not pid.isdigit():
            raise _NotMeasured(f"iperf3 does not listen on port {port}", self._a.name)
        return pid

    def _ask(self, port: int, options: Sequence[str], limit_s: float) -> str:
        client = ["iperf3", "-c", self._address, "-p", str(port), "-J", *options]
        ran = self._b.run(shlex.join(client), sudo=False, timeout_s=limit_s)
        if ran.rc == _NOT_FOUND:
            raise _NotMeasured("iperf3 is missing", self._b.name)
        if ran.timed_out:
            raise _NotMeasured(f"iperf3 did not end within {limit_s:g} s")
        if ran.rc != 0:
            raise _NotMeasured(f"iperf3: {_complaint(ran.stdout) or excerpt(ran.stderr)}")
        return ran.stdout


def why_busy(node: Node) -> str:
    """Why a node that is in already must be left alone; empty when its GPUs are idle.

    Raises Unreachable. A node without nvidia-smi has no GPUs to be busy with.
    """
    ask = "nvidia-smi --query-compute-apps=pid --format=csv,noheader"
    ran = node.run(ask, sudo=False, timeout_s=20)
    if ran.rc == _NOT_FOUND:
        return ""
    if ran.rc != 0 or ran.timed_out:
        return f"nvidia-smi ended with {ran.rc}, so whether it is idle is not known"
    lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
    if not all(line.isdigit() for line in lines):
        idle = "no running processes" in ran.stdout.lower()
        return "" if idle else f"nvidia-smi tells no processes: {excerpt(ran.stdout)}"
    return f"at work: {len(lines)} processes on its GPUs" if lines else ""


def clock(node: Node, now: Callable[[], float]) -> ClockFigures:
    """How far a node's clock is from its source's, and from this machine's. Raises Unreachable."""
    before = now()
    date = node.run("date +%s.%N", sudo=False, timeout_s=10)
    after = now()
    there = number(date.stdout) if date.rc == 0 else None
    seen = None if there is None else (there - (before + after) / 2) * 1000
    found = ClockFigures(node=node.name, here_ms=seen, error_ms=(after - before) / 2 * 1000)
    ran = node.run("LC_ALL=C chronyc -n tracking", sudo=False, timeout_s=10)
    try:
        offset = source_offset_ms(ran.stdout)
    except ParseError as problem:
        why = "chronyc is missing" if ran.rc == _NOT_FOUND else str(problem)
        return found.model_copy(update={"trouble": why})
    return found.model_copy(update={"source_ms": offset})


def source_offset_ms(text: str) -> float:
    """How far the clock is ahead, by `chronyc tracking`. ParseError: it follows no source."""
    tracking = parse_tracking(text)
    if not tracking.synchronised or tracking.offset_s is None:
        raise ParseError("chronyc tracking", f"no source is followed ({tracking.words})")
    lines = (line for line in clean(text).splitlines() if line.strip().startswith("System time"))
    sign = -1 if "slow" in next(lines, "") else 1
    return sign * abs(tracking.offset_s) * 1000


def _heard(node: Node) -> int:
    """Datagrams that the node's programs received so far, by its kernel."""
    ran = node.run("cat /proc/net/snmp", sudo=False, timeout_s=10)
    lines = [line.split() for line in ran.stdout.splitlines() if line.startswith("Udp:")]
    try:
        names, values = lines
        return int(values[names.index("InDatagrams")])
    except (ValueError, IndexError):
        raise _NotMeasured("its kernel does not count datagrams", node.name) from None


def _loss(said: _Said, wanted: float) -> tuple[float, float | None]:
    """Loss and jitter.

    A receiver that heard nothing counts no loss, and iperf3 calls that 0 %: so what arrived must
    be what the loss leaves, by the receiver's own kernel.
    """
    found = _parsed(said.text)
    total = load_json(said.text, "iperf3").get("end", {}).get("sum", {})
    packets = total.get("packets") if isinstance(total, dict) else None
    if not isinstance(packets, int | float) or packets < _SENT * wanted:
        raise _NotMeasured(f"iperf3: {packets or 0:g} of {wanted:.0f} datagrams were sent")
    if found.loss_percent is None:
        raise _NotMeasured("iperf3 counted no loss")
    left = packets * (1 - found.loss_percent / 100)
    if said.heard < _SENT * left:
        lost = f"iperf3 says {found.loss_percent:.3g} % were lost"
        raise _NotMeasured(f"{lost}, yet {said.heard} of {packets:.0f} datagrams arrived")
    return found.loss_percent, found.jitter_ms


def _parsed(text: str) -> Iperf3:
    try:
        return parse_iperf3(text)
    except ParseError as problem:
        raise _NotMeasured(str(problem)) from None


def _complaint(text: str) -> str:
    """The client's own word, which it prints as JSON and not to stderr."""
    try:
        return excerpt(str(load_json(text, "iperf3").get("error", "")))
    except ParseError:
        return excerpt(text)


def _pair(values: Any) -> Both:
    first, second = values
    return first, second
