"""Runs all_reduce over a group of nodes by Open MPI, without logins from node to node.

mpirun starts its daemon on the other nodes by a program of one's own (`plm_rsh_agent`), which it
tells the node and the command. Ours leaves them in a folder; they are carried over the connections
that are open anyway, and run there. docs/adr/0005 says why.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from nodeprep.accept.between.figures import GroupFigures, Trouble
from nodeprep.accept.between.measure import Node
from nodeprep.accept.causes import NOT_FOUND
from nodeprep.accept.parsers.nccl_tests import parse_nccl_test
from nodeprep.accept.parsers.text import ParseError, excerpt
from nodeprep.accept.proof import PATH
from nodeprep.accept.session import Ran
from nodeprep.errors import NodeprepError

TOOL = "all_reduce_perf"
SIZE = "512M"  # of smaller messages the latency would be judged
LIMIT_S = 120  # of one group; ten times the gate's time for ten such messages over 10 GbE
_CALL_S = 45.0  # for mpirun to name the nodes it wants
_MORE_S = 10.0  # to end by itself when its mpirun has
# Both releases' names for the same: 4.1's ORTE, 5's PRRTE.
_SETTINGS = {
    "OMPI_MCA_plm_rsh_agent": "{folder}/agent",
    "PRTE_MCA_plm_ssh_agent": "{folder}/agent",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # each daemon by the first node, none by another
    "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "OMPI_MCA_orte_leave_session_attached": "1",  # so that ending the command ends the daemon
    "PRTE_MCA_prte_leave_session_attached": "1",
    # A site's admin user may be root; mpirun would refuse.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # MPI only brings NCCL's ranks together: plain TCP does, whatever else was built in.
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,self",
    "NCCL_ALGO": "Ring",  # a tree over two nodes beats the line rate, and judges no link
}
_AGENT = """\
#!/bin/sh
# mpirun: agent NODE COMMAND... It stays for as long as the command does, as ssh would.
node=$1; shift
printf '%s' "$*" > "{folder}/.$node" && mv "{folder}/.$node" "{folder}/call.$node"
while [ -d {folder} ] && ! [ -s "{folder}/end.$node" ]; do sleep 0.1; done
exit "$(cat "{folder}/end.$node" 2>/dev/null || echo 0)"
"""
_FOLDER = """\
mkdir -m 700 {folder} || exit 3
# Moved away first: rm gives up on a folder that a daemon's end is just being written into.
gone() {{ mv {folder} {folder}.gone 2>/dev/null; rm -rf {folder}.gone; }}
# Without the folder the agents end, and mpirun waits for them.
trap 'kill $job 2>/dev/null; gone; wait $job; exit 143' HUP INT TERM
trap gone EXIT
cat > {folder}/agent <<'EOF'
{agent}EOF
chmod 700 {folder}/agent
"""
_START = """\
command -v mpirun {tool} >/dev/null || exit {missing}
{prepare}mpirun {options} & job=$!
wait $job
"""
# The daemon looks for the agent, too, though it never calls it.
_DAEMON = """\
{prepare}({call}) & job=$!
wait $job
"""
_CALLED = """\
for _ in $(seq {tries}); do
    [ -f {file} ] && exec cat {file}
    sleep 0.1
done
exit 1
"""


class AllReduce:
    """One group: `nodes` in the order of the ring, with the address of each and GPUs to use."""

    def __init__(
        self, nodes: Sequence[Node], addresses: Mapping[str, str], *, gpus: int, limit_s: float
    ) -> None:
        self._nodes = nodes
        self._addresses = addresses
        self._gpus = gpus
        self._limit_s = limit_s
        self._folder = f"/tmp/nodeprep-mpi.{secrets.token_hex(8)}"  # noqa: S108 - made by mkdir

    def run(self) -> GroupFigures:
        """Never raises for a node: what was not measured says why."""
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            ran = pool.submit(self._launch)
            daemons = {node.name: pool.submit(self._daemon, node) for node in self._nodes[1:]}
        troubles = [f.result() for f in daemons.values()]
        return self._figures(ran, [trouble for trouble in troubles if trouble])

    def nothing(self, trouble: Trouble) -> GroupFigures:
        return GroupFigures(group=tuple(node.name for node in self._nodes), trouble=trouble)

    def _launch(self) -> Ran:
        hosts = ",".join(f"{self._addresses[node.name]}:1" for node in self._nodes)
        options = [
            "-np", str(len(self._nodes)), "--host", hosts, "--map-by", "ppr:1:node",
            "-x", "PATH", "-x", "NCCL_ALGO",
            TOOL, "-b", SIZE, "-e", SIZE, "-w", "1", "-n", "4", "-g", str(self._gpus),
        ]  # fmt: skip
        script = _START.format(
            tool=TOOL, missing=NOT_FOUND, prepare=self._prepare(), options=shlex.join(options)
        )
        settings = {k: v.format(folder=self._folder) for k, v in _SETTINGS.items()}
        return self._nodes[0].run(_with(settings, script), sudo=False, timeout_s=self._limit_s)

    def _prepare(self) -> str:
        return _FOLDER.format(folder=self._folder, agent=_AGENT.format(folder=self._folder))

    def _daemon(self, node: Node) -> Trouble | None:
        """Run on a node what mpirun wants to run there; the reason why not, if so."""
        first, address = self._nodes[0], self._addresses[node.name]
        file = shlex.quote(f"{self._folder}/call.{address}")
        asked = _CALLED.format(file=file, tries=int(_CALL_S * 10))
        try:
            call = first.run(asked, sudo=False, timeout_s=_CALL_S + _MORE_S)
            if call.rc != 0 or not call.stdout.strip():
                return None  # mpirun says itself why it came to nothing
        except NodeprepError:
            return None  # that of the launch is told
        rc, trouble = self._carry(node, call.stdout)
        end = shlex.quote(f"{self._folder}/end.{address}")
        try:
            first.run(f"echo {rc} > {end} || :", sudo=False, timeout_s=_MORE_S)
        except NodeprepError:
            return trouble
        return trouble

    def _carry(self, node: Node, call: str) -> tuple[int, Trouble | None]:
        script = _DAEMON.format(prepare=self._prepare(), call=call)
        try:
            ran = node.run(_with({}, script), sudo=False, timeout_s=self._limit_s + _MORE_S)
        except NodeprepError as problem:
            return 1, Trouble(why=problem.message, node=node.name)
        if ran.rc == NOT_FOUND:
            return ran.rc, Trouble(why="Open MPI's daemon is missing", node=node.name)
        if ran.rc:
            why = f"Open MPI's daemon ended with {ran.rc}: {excerpt(ran.stderr)}"
            return ran.rc, Trouble(why=why, node=node.name)
        return 0, None

    def _figures(self, ran: Future[Ran], troubles: Sequence[Trouble]) -> GroupFigures:
        first = self._nodes[0].name
        try:
            answer = ran.result()
        except NodeprepError as problem:
            return self.nothing(Trouble(why=problem.message, node=first))
        if answer.rc == NOT_FOUND:
            return self.nothing(Trouble(why=f"mpirun or {TOOL} is missing", node=first))
        if answer.timed_out:
            return self.nothing(Trouble(why=f"{TOOL} did not end within {self._limit_s:g} s"))
        try:
            return self._read(answer)
        except ParseError as problem:
            if troubles:
                return self.nothing(troubles[0])
            said = excerpt(f"{answer.stderr}\n{answer.stdout}") or str(problem)
            return self.nothing(Trouble(why=f"{TOOL} ended with {answer.rc}: {said}"))

    def _read(self, answer: Ran) -> GroupFigures:
        found = parse_nccl_test(answer.stdout)
        wanted = self._gpus * len(self._nodes)
        if len(found.devices) != wanted:
            used = f"{TOOL} used {len(found.devices)} of {wanted} GPUs"
            return self.nothing(Trouble(why=f"{used}: was it built with MPI=1?"))
        if found.out_of_bounds is None:
            return self.nothing(Trouble(why=f"{TOOL} did not run to its end"))
        if found.wrong is None:
            return self.nothing(Trouble(why="validation was off (#wrong N/A)"))
        return GroupFigures(
            group=tuple(node.name for node in self._nodes),
            busbw=found.busbw(),
            wrong=found.wrong,
        )


def _with(settings: Mapping[str, str], script: str) -> str:
    """A login that is not interactive has a short PATH."""
    variables = {"LC_ALL": "C", "PATH": PATH, **settings}
    exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in variables.items())
    return exports + script
