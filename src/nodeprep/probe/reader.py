"""What runs on a node: reads what a request asks for and prints one JSON line. It never judges.

Stands alone on purpose (one file, standard library, Python 3.8): `request.py` sends this text to
`python3 -I -` and finds the answer in what comes back. So: no import from nodeprep, and few
imports at all, because every node pays for them on every run.

Everything is a job in a small pool of threads. A job that fails becomes the error of its own
reading. After the deadline the answer is printed with what is there. Nothing asks a network
filesystem or an automount for anything: a dead server must not hang the reader.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import threading
import time
import zlib
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

Data = Dict[str, Any]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BEGIN = "-----BEGIN NODEPREP READING-----"
END = "-----END NODEPREP READING-----"
DEADLINE_S = 60.0
TOOL_S = 25.0  # for a tool that answers at once on a node that is not busy
WORKERS = 8
TEXT_LIMIT = 64 * 1024  # bytes of a file's or a command's text in the answer
TOOL_LIMIT = 16 * 1024 * 1024  # bytes that are parsed of a tool's output
SIMULATED = "/etc/nodeprep-simulated"  # names of the tools that are stand-ins
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
REMOTE = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs ceph lustre gpfs beegfs glusterfs orangefs pvfs2 9p coda"
    " wekafs panfs virtiofs dvs cvfs fuse autofs".split()
)  # and every fuse.*
# Packages that the judge of the whole set wants to know, claimed or not.
STACK = re.compile(
    r"^(lib)?nvidia-|^(xserver-xorg-video-nvidia|cuda|libnccl|libgdrapi|gdr|libcudnn|datacenter-gpu"
    r"|linux-(image|headers|modules)-|libcublas|dkms$|unattended-upgrades$)"
)


class Failed(Exception):
    """Something could not be read; the text says why."""


class Missing(Failed):
    """The tool is not on the node."""


Found = Union[Data, Failed]  # of one claim among many


class Node:
    """The machine that is read: where its files are, how long there is, and what is shared."""

    def __init__(self, request: Data) -> None:
        self.started = time.monotonic()
        self.deadline = self.started + float(request.get("deadline_s") or DEADLINE_S)
        # Signatures are looked for on every disk only where a claim is about disks.
        kinds = {str(claim.get("kind")) for claim in request.get("claims") or []}
        self.disks_matter = not kinds.isdisjoint(("array", "cached_volume", "filesystem"))
        self.root = request.get("root") or ""  # a tree that stands in for /, in tests
        self.env = {
            "PATH": request.get("path") or PATH,
            "LC_ALL": "C",
            "LANG": "C",
            "HOME": "/root",
            "TERM": "dumb",
        }
        self._kept: Dict[str, Tuple[Any, Optional[Exception]]] = {}
        self._locks: Dict[str, threading.Lock] = {}
        self.text_left = 4 * 1024 * 1024  # of all files' contents together
        self.counting = threading.Lock()

    def at(self, path: str) -> str:
        return self.root + path

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def once(self, read: Callable[[Node], Any]) -> Any:
        """What `read` returns (or raises), read once for all who ask."""
        key = read.__name__
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._kept:
                try:
                    self._kept[key] = (read(self), None)
                except Exception as problem:
                    self._kept[key] = (None, problem)
        value, failure = self._kept[key]
        if failure is not None:
            raise failure
        return value

    def text(self, path: str, limit: int = TOOL_LIMIT) -> str:
        with open(self.at(path), "rb") as file:
            return file.read(limit).decode("utf-8", "replace")

    def lines(self, path: str) -> List[str]:
        return self.text(path).splitlines()

    def names(self, path: str) -> List[str]:
        try:
            return sorted(os.listdir(self.at(path)))
        except OSError:
            return []

    def word(self, path: str) -> Optional[str]:
        """A small file's text, or None: sysfs refuses what it does not know."""
        try:
            return self.text(path, 4096).strip() or None
        except OSError:
            return None


# --- commands ------------------------------------------------------------------------------------


def clean(text: str) -> str:
    return CONTROLS.sub("", ESCAPES.sub("", text.replace("\r\n", "\n")))


def shorten(text: str, limit: int = 300) -> str:
    text = " ".join(clean(text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def run(
    node: Node, argv: List[str], timeout: float, limit: int = TOOL_LIMIT, merge: bool = False
) -> Tuple[int, str, str]:
    """Exit status, stdout and stderr of a command; Failed when it cannot run or takes too long.

    Output beyond `limit` bytes is read and dropped. A child that left its output open is not
    waited for, and one that cannot even be killed is left behind.
    """
    ends = min(time.monotonic() + timeout, node.deadline)
    error = subprocess.STDOUT if merge else subprocess.PIPE
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=error,
            env=node.env, cwd="/", start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise Missing("%s: not found" % argv[0]) from None
    except (OSError, ValueError) as problem:
        raise Failed("%s: %s" % (argv[0], problem)) from None
    texts: Dict[int, List[bytes]] = {}
    poller = select.poll()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            texts[pipe.fileno()] = []
            poller.register(pipe, select.POLLIN | select.POLLHUP)
    try:
        _drain(child, poller, texts, ends, limit)
        code = child.wait(max(0.05, ends - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        _kill(child)
        raise Failed("%s: no answer within %g s" % (argv[0], timeout)) from None
    finally:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    out, *err = [b"".join(parts).decode("utf-8", "replace") for parts in texts.values()]
    return code, out, "".join(err)


def _drain(
    child: subprocess.Popen[bytes],
    poller: select.poll,
    texts: Dict[int, List[bytes]],
    ends: float,
    limit: int,
) -> None:
    still_open, size = len(texts), 0
    while still_open:
        wait = ends - time.monotonic()
        if wait <= 0:
            raise TimeoutError
        events = poller.poll(min(wait, 0.5) * 1000)
        if not events and child.poll() is not None:
            events = poller.poll(0)  # what it wrote between our look at its output and its end
            if not events:
                return  # it ended, and left its output open to a child of its own
        for fd, _ in events:
            chunk = os.read(fd, 65536)
            if not chunk:
                poller.unregister(fd)
                still_open -= 1
            elif size < limit:
                texts[fd].append(chunk[: limit - size])
                size += len(chunk)


def _kill(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(1)
    except (OSError, subprocess.TimeoutExpired):
        pass  # in the kernel's hands: nothing can end it


def tool(node: Node, argv: List[str], timeout: float) -> str:
    """A tool's output; Failed unless it ends well and says something."""
    code, out, err = run(node, argv, timeout)
    if code != 0:
        raise Failed("%s: exit status %d: %s" % (argv[0], code, shorten(err or out)))
    if not out.strip():
        raise Failed("%s printed nothing" % argv[0])
    return out


# --- files ---------------------------------------------------------------------------------------


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)


def mounts(node: Node) -> List[Data]:
    """The mount table of this process; the last entry of a mount point is the one on top."""
    table = []
    for line in node.lines("/proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        front, back = left.split(), right.split()
        if len(front) < 6 or len(back) < 2:
            continue
        options = front[5].split(",") + (back[2].split(",") if len(back) > 2 else [])
        table.append(
            {
                "point": _unescape(front[4]),
                "fstype": back[0],
                "device": _unescape(back[1]),
                "options": list(dict.fromkeys(options)),
            }
        )
    if not table:
        raise Failed("/proc/self/mountinfo: empty")
    return table


def remote_points(node: Node) -> Dict[str, str]:
    """Mount points that must not be touched, with their filesystem."""
    return {
        entry["point"]: entry["fstype"]
        for entry in node.once(mounts)
        if entry["fstype"] in REMOTE
        or (entry["fstype"].startswith("fuse.") and entry["fstype"] != "fuse.lxcfs")
    }


def local(node: Node, path: str, follow: bool = False) -> str:
    """`path` without links (but for its last part, unless `follow`); Failed when it is remote."""
    remote = node.once(remote_points)
    todo, here, hops = path.split("/"), "", 0
    while todo:
        part = todo.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = here.rpartition("/")[0]
            continue
        here += "/" + part
        if here in remote:
            raise Failed("%s lies on %s (%s), which is not touched" % (path, here, remote[here]))
        if not todo and not follow:
            break
        try:
            target = os.readlink(node.at(here))
        except OSError:
            continue  # no link, or nothing there
        hops += 1
        if hops > 40:
            raise Failed("%s: too many links" % path)
        here = "" if target.startswith("/") else here.rpartition("/")[0]
        todo = target.split("/") + todo
    return here or "/"


def _accounts(node: Node, path: str) -> Dict[int, str]:
    """Names by number, from the file alone: a directory service may be down."""
    found: Dict[int, str] = {}
    for line in node.lines(path):
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit():
            found.setdefault(int(fields[2]), fields[0])
    return found


def users(node: Node) -> Dict[int, str]:
    return _accounts(node, "/etc/passwd")


def groups(node: Node) -> Dict[int, str]:
    return _accounts(node, "/etc/group")


_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _status(node: Node, path: str, follow: bool = False) -> Tuple[str, Data]:
    where = local(node, path, follow)
    try:
        found = os.lstat(node.at(where))
    except (FileNotFoundError, NotADirectoryError):
        return where, {"exists": False}
    return where, {
        "exists": True,
        "type": _TYPES.get(stat.S_IFMT(found.st_mode), "something else"),
        "mode": "%04o" % stat.S_IMODE(found.st_mode),
        "owner": node.once(users).get(found.st_uid, str(found.st_uid)),
        "group": node.once(groups).get(found.st_gid, str(found.st_gid)),
    }


def read_file(node: Node, claim: Data) -> Data:
    where, data = _status(node, claim["name"])
    if data.get("type") != "file":
        return data
    digest, kept = hashlib.sha256(), b""
    fd = os.open(node.at(where), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while True:
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                break
            digest.update(chunk)
            if len(kept) <= TEXT_LIMIT:
                kept += chunk[: TEXT_LIMIT + 1]
            if node.left() < 0:
                raise Failed("%s: not read in time" % claim["name"])
    finally:
        os.close(fd)
    data["sha256"] = digest.hexdigest()
    wanted = claim.get("sha256")
    if wanted and wanted != data["sha256"] and not claim.get("secret"):
        _add_text(node, data, kept)
    return data


def _add_text(node: Node, data: Data, kept: bytes) -> None:
    if len(kept) > TEXT_LIMIT or b"\0" in kept:
        return
    try:
        text = kept.decode("utf-8")
    except UnicodeDecodeError:
        return
    with node.counting:
        if len(kept) <= node.text_left:
            node.text_left -= len(kept)
            data["content"] = text


def read_directory(node: Node, claim: Data) -> Data:
    return _status(node, claim["name"], follow=True)[1]


def read_link(node: Node, claim: Data) -> Data:
    where, data = _status(node, claim["name"])
    if data.get("type") == "link":
        data["target"] = os.readlink(node.at(where))
    return data


# --- kernel --------------------------------------------------------------------------------------


def _sysctl_path(name: str) -> str:
    """`net.ipv4.ip_forward` or `net/ipv4/conf/eth0.1/rp_filter`, as a path below /proc/sys."""
    first = re.search(r"[./]", name)
    if first and first.group() == ".":
        name = name.translate({ord("."): "/", ord("/"): "."})
    return name


def sysctl_files(node: Node) -> List[Tuple[str, Optional[str], str]]:
    """(key, value, path) in the order in which systemd-sysctl reads them.

    Of files with one name the first folder's is read; /etc/sysctl.conf counts only where a link in
    /etc/sysctl.d names it (man 8 systemd-sysctl).
    """
    chosen: Dict[str, str] = {}
    for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"):
        for name in node.names(folder + "/sysctl.d"):
            if name.endswith(".conf"):
                chosen.setdefault(name, "%s/sysctl.d/%s" % (folder, name))
    found: List[Tuple[str, Optional[str], str]] = []
    for name in sorted(chosen):
        where = local(node, chosen[name], follow=True)
        if where == "/dev/null" or not os.path.isfile(node.at(where)):
            continue
        for line in node.lines(where):
            line = line.strip()
            if not line or line[0] in "#;":
                continue
            key, equals, value = line.partition("=")
            key = key.strip()
            if equals:
                found.append((_sysctl_path(key.lstrip("-")), value.strip(), chosen[name]))
            elif key.startswith("-"):  # keeps a key out of the patterns
                found.append((_sysctl_path(key[1:]), None, chosen[name]))
    return found


def _matches(pattern: str, key: str) -> bool:
    from fnmatch import fnmatchcase

    ours, theirs = pattern.split("/"), key.split("/")
    return len(ours) == len(theirs) and all(map(fnmatchcase, theirs, ours))


def read_sysctl(node: Node, claim: Data) -> Data:
    key = _sysctl_path(claim["name"])
    if ".." in key.split("/"):
        raise Failed("%s: no kernel parameter's name" % claim["name"])
    data: Data = {"running": None, "persisted": None, "persisted_in": None}
    try:
        data["running"] = node.text("/proc/sys/" + key, 65536).strip()
    except (FileNotFoundError, NotADirectoryError):
        pass
    exact = [line for line in node.once(sysctl_files) if line[0] == key]
    globs = [
        line
        for line in node.once(sysctl_files)
        if line[1] is not None and re.search(r"[*?\[]", line[0]) and _matches(line[0], key)
    ]
    for _, value, path in (exact or globs)[-1:]:
        if value is not None:
            data["persisted"], data["persisted_in"] = value, path
    return data


def loaded_modules(node: Node) -> List[str]:
    if node.word("/proc/version") and not os.path.exists(node.at("/proc/modules")):
        return []  # a kernel that takes no modules
    return [line.split(" ", 1)[0] for line in node.lines("/proc/modules")]


def builtin_modules(node: Node) -> List[str]:
    for folder in ("/lib/modules/", "/usr/lib/modules/"):
        try:
            lines = node.lines(folder + running_release(node) + "/modules.builtin")
        except OSError:
            continue
        return [line.rsplit("/", 1)[-1].split(".", 1)[0].replace("-", "_") for line in lines]
    return []


def read_module(node: Node, claim: Data) -> Data:
    name = claim["name"].replace("-", "_")
    loaded = name in node.once(loaded_modules)
    known = os.path.isdir(node.at("/sys/module/" + name))  # built in, with parameters
    data: Data = {
        "loaded": loaded,
        "builtin": not loaded and (known or name in node.once(builtin_modules)),
    }
    if claim.get("built"):
        file = (claim.get("file") or name).replace("-", "_")
        has = {kernel: file in there for kernel, there in node.once(kernels).items()}
        data.update(running=running_release(node), kernels=has)
    return data


def running_release(node: Node) -> str:
    return (node.word("/proc/sys/kernel/osrelease") or os.uname().release).strip()


def kernels(node: Node) -> Dict[str, List[str]]:
    """The modules, built in or not, of every kernel that is installed and of the one that runs."""
    found = [name[8:] for name in node.names("/boot") if name.startswith("vmlinuz-")]
    running = running_release(node)
    if os.path.isdir(node.at("/lib/modules/" + running)):
        found.append(running)
    return {release: _modules_of(node, release) for release in found}


def _modules_of(node: Node, release: str) -> List[str]:
    """From depmod's index: what modprobe would find. A kernel without one has no modules."""
    names = []
    for index in ("modules.dep", "modules.builtin"):
        try:
            lines = node.lines("/lib/modules/%s/%s" % (release, index))
        except FileNotFoundError:
            continue
        paths = (line.partition(":")[0] for line in lines)
        names += [path.rsplit("/", 1)[-1].split(".", 1)[0].replace("-", "_") for path in paths]
    return names


# --- the kernel's command line -------------------------------------------------------------------


def command_line(text: str) -> List[Tuple[str, str]]:
    """(name, value) of every word; a bare flag's value is empty. What follows `--` is init's."""
    found = []
    for word in re.findall(r'(?:[^\s"]|"[^"]*(?:"|$))+', text):
        if word == "--":
            break
        name, _, value = word.replace('"', "").partition("=")
        found.append((name, value))
    return found


def _values(words: List[Tuple[str, str]], name: str) -> List[str]:
    """The kernel takes `-` and `_` in names for the same."""
    plain = name.replace("-", "_")
    return [value for word, value in words if word.replace("-", "_") == plain]


_QUOTED = r"'(?:[^']|'\\'')*'|\"(?:[^\"\\]|\\.)*\"|[^\s{'\"]+"
_MENU_ENTRY = re.compile(r"\s*(menuentry|submenu)\s+(%s)(.*)\{\s*$" % _QUOTED)
_ENTRY_ID = re.compile(r"(?:\$\{?menuentry_id_option\}?|--id)(?:\s+|=)(%s)" % _QUOTED)


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return (text[1:-1] if quoted else text).replace("'\\''", "'")


def grub_menu(text: str) -> List[Data]:
    """Entries of a grub.cfg: title, id, and `linux` (kernel and arguments) or `entries`."""
    top: Data = {"entries": []}
    inside = [top]
    for line in text.splitlines():
        found = _MENU_ENTRY.match(line)
        words = line.split(None, 1)
        if found:
            named = _ENTRY_ID.search(found.group(3))
            entry: Data = {
                "title": _unquoted(found.group(2)),
                "id": _unquoted(named.group(1)) if named else "",
                "linux": None,
                "entries": [],
            }
            inside[-1]["entries"].append(entry)
            inside.append(entry)
        elif line.rstrip().endswith("{"):
            inside.append({"entries": []})  # a function
        elif line.strip() == "}" and len(inside) > 1:
            inside.pop()
        elif len(words) == 2 and words[0] in ("linux", "linuxefi", "linux16"):
            inside[-1]["linux"] = inside[-1].get("linux") or words[1].strip()
    entries: List[Data] = top["entries"]
    return entries


def grub_default(text: str, environment: Dict[str, str]) -> str:
    """What `default` will be at the next boot. `environment`: grubenv's variables."""
    if "${next_entry}" in text and environment.get("next_entry"):
        return environment["next_entry"]
    found = [
        _unquoted(word)
        for word in re.findall(r"^\s*set\s+default=(\S.*?)\s*$", text, re.M)
        if "next_entry" not in word
    ]
    chosen = found[-1] if found else "0"
    if "saved_entry" in chosen:
        chosen = environment.get("saved_entry") or "0"
    return chosen


def grub_entry(entries: List[Data], default: str) -> Data:
    """The entry that `default` (`0`, `1>2`, a title, an id) takes; GRUB falls back on the first."""
    here: Optional[Data] = None
    among = entries
    for part in default.split(">"):
        if re.match(r"[0-9]+$", part):
            chosen = among[int(part)] if int(part) < len(among) else None
        else:
            chosen = next((one for one in among if part in (one["id"], one["title"])), None)
        if chosen is None:
            here = None
            break
        here, among = chosen, chosen["entries"]
    here = here or (entries[0] if entries else None)
    while here is not None and here["entries"]:
        here = here["entries"][0]
    if here is None:
        raise Failed("%s: no entry in it" % GRUB_MENU)
    return here


GRUB_MENU = "/boot/grub/grub.cfg"


def next_boot(node: Node) -> Data:
    """`title` of the entry that GRUB takes at the next boot, and the `words` that it gives."""
    try:
        text = node.text(GRUB_MENU)
    except FileNotFoundError:
        raise Failed("no %s: how this machine boots is not known" % GRUB_MENU) from None
    lines = (node.word("/boot/grub/grubenv") or "").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and line[0] != "#")
    environment = {key: value for key, _, value in pairs}
    entry = grub_entry(grub_menu(text), grub_default(text, environment))
    if not entry["linux"]:
        raise Failed("%s: its entry %r starts no Linux" % (GRUB_MENU, entry["title"]))
    return {"title": entry["title"], "words": command_line(entry["linux"])[1:]}


def grub_settings(node: Node) -> List[Tuple[str, List[Tuple[str, str]]]]:
    """(path, words) of every file of /etc/default that gives the kernel arguments."""
    folder = "/etc/default/grub.d"
    files = [folder + "/" + name for name in node.names(folder) if name.endswith(".cfg")]
    found = []
    for path in ["/etc/default/grub", *files]:
        try:
            text = node.text(path)
        except OSError:
            continue
        said = re.findall(r"^\s*GRUB_CMDLINE_LINUX(?:_DEFAULT)?=(.*)$", text, re.M)
        found.append((path, [word for line in said for word in command_line(_unquoted(line))]))
    return found


def read_kernel_argument(node: Node, claim: Data) -> Data:
    name, at_boot = claim["name"], node.once(next_boot)
    settings = node.once(grub_settings)
    return {
        "running": _values(command_line(node.text("/proc/cmdline")), name),
        "persisted": _values(at_boot["words"], name),
        "persisted_in": "%s, entry %r" % (GRUB_MENU, at_boot["title"]),
        "configured_in": [path for path, words in settings if _values(words, name)],
    }


def fstab(node: Node) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    try:
        lines = node.lines("/etc/fstab")
    except FileNotFoundError:
        return found
    for line in lines:
        fields = line.split()
        if len(fields) >= 3 and not fields[0].startswith("#"):
            options = fields[3] if len(fields) > 3 else "defaults"
            found[_unescape(fields[1]).rstrip("/") or "/"] = [
                _unescape(fields[0]), fields[2], options,
            ]  # fmt: skip
    return found


def _device_node(node: Node, device: str) -> Optional[str]:
    """The kernel's name for a device that is named by UUID, label or id."""
    tag, equals, value = device.partition("=")
    if equals and tag in ("UUID", "LABEL", "PARTUUID", "PARTLABEL"):
        device = "/dev/disk/by-%s/%s" % (tag.lower(), value.strip('"'))
    return local(node, device, follow=True) if device.startswith("/dev/") else None


def read_mount(node: Node, claim: Data) -> Data:
    """From the tables alone. `fstab` lists the options there; `device_is` resolves the claim's."""
    point = claim["name"].rstrip("/") or "/"
    found = [entry for entry in node.once(mounts) if entry["point"] == point]
    top = next((entry for entry in reversed(found) if entry["fstype"] != "autofs"), None)
    planned = node.once(fstab).get(point)
    data: Data = {
        "mounted": top is not None,
        "automount": any(entry["fstype"] == "autofs" for entry in found),
        "device": None,
        "fstype": None,
        "options": [],
        "fstab": planned[2].split(",") if planned else None,
        "device_is": _device_node(node, claim.get("device") or ""),
    }
    if top is not None:
        data.update((key, top[key]) for key in ("device", "fstype", "options"))
    elif planned:
        data.update(device=planned[0], fstype=planned[1])
    return data


# --- arrays and filesystems ----------------------------------------------------------------------


def _links(node: Node, folder: str) -> Dict[str, List[str]]:
    """Names of the links in a folder of /dev, by the kernel's name of what they lead to."""
    found: Dict[str, List[str]] = {}
    for name in node.names(folder):
        try:
            target = os.readlink(node.at(folder + "/" + name))
        except OSError:
            continue
        found.setdefault(os.path.basename(target), []).append(name)
    return found


def md_arrays(node: Node) -> List[Data]:
    """Every md array that runs, from sysfs and udev's links."""
    names = _links(node, "/dev/md")
    found = []
    for device in node.names("/sys/block"):
        folder = "/sys/block/%s/md" % device
        if not re.match(r"md[_\d]", device) or not os.path.isdir(node.at(folder)):
            continue
        if node.word(folder + "/array_state") == "clear":
            continue  # a name that is left of one that was stopped
        parts = [name for name in node.names(folder) if name.startswith("dev-")]
        chunk = _whole(node.word(folder + "/chunk_size"))
        found.append(
            {
                "device": device,
                "uuid": _md_uuid(node, device),
                "names": names.get(device, []),
                "level": node.word(folder + "/level"),
                "chunk_kib": None if chunk is None else chunk // 1024,
                "raid_disks": _whole(node.word(folder + "/raid_disks")),
                "state": node.word(folder + "/array_state"),
                "degraded": _whole(node.word(folder + "/degraded")) or 0,  # raid0 has no such file
                "sync": node.word(folder + "/sync_action"),
                "members": [name[4:] for name in parts],
                "faulty": [
                    name[4:]
                    for name in parts
                    if "faulty" in (node.word("%s/%s/state" % (folder, name)) or "")
                ],
            }
        )
    return found


def _md_uuid(node: Node, device: str) -> Optional[str]:
    """From sysfs (newer kernels), udev's link, or mdadm."""
    word = node.word("/sys/block/%s/md/uuid" % device)
    word = None if set(word or "0") <= set("0-:") else word  # zeros: it does not run
    for name in _links(node, "/dev/disk/by-id").get(device, []):
        if not word and name.startswith("md-uuid-"):
            word = name[len("md-uuid-") :]
    if not word:
        try:
            told = tool(node, ["mdadm", "--detail", "--export", "/dev/" + device], TOOL_S)
        except Failed:
            return None
        word = dict(line.split("=", 1) for line in told.splitlines() if "=" in line).get("MD_UUID")
    return word or None


def read_array(node: Node, claim: Data) -> Data:
    return {"arrays": node.once(md_arrays)}


_PVS = "pv_uuid,pv_name,vg_name,pv_missing"
_LVS = (
    "vg_name,lv_name,segtype,cache_mode,lv_attr,lv_health_status,lv_check_needed,origin,pool_lv,"
    "devices"
)


def lvm(node: Node) -> Data:
    """Every physical and logical volume. Without LVM's locks: reading must not wait for a writer.

    Not `--readonly`, which does not ask the kernel what is active.
    """
    try:
        physical = _lvm_report(node, "pvs", "pv", _PVS, "--all")  # copies of a disk, too
    except Missing:
        return {"installed": False, "physical": [], "logical": []}
    logical = _lvm_report(node, "lvs", "lv", _LVS, "--all")
    return {
        "installed": True,
        "physical": [_physical_volume(row) for row in physical if row["pv_uuid"]],
        "logical": [_logical_volume(row) for row in logical],
    }


def _lvm_report(node: Node, name: str, part: str, fields: str, *more: str) -> List[Data]:
    argv = [name, *more, "--nolocking", "--reportformat", "json", "-o", fields]
    try:
        rows = _json(name, tool(node, argv, TOOL_S))["report"][0][part]
    except (LookupError, TypeError):
        raise Failed("%s: its output is no report" % name) from None
    wanted = set(fields.split(","))
    if not isinstance(rows, list) or not all(
        isinstance(r, dict) and wanted <= set(r) for r in rows
    ):
        raise Failed("%s: its report lacks what was asked for" % name)
    return rows


def _physical_volume(row: Data) -> Data:
    missing = bool(row["pv_missing"])
    return {
        "uuid": row["pv_uuid"],
        "device": None if missing else row["pv_name"],
        "group": row["vg_name"],
        "missing": missing,
    }


def _logical_volume(row: Data) -> Data:
    devices = [re.sub(r"\(\d+\)$", "", one) for one in row["devices"].split(",") if one]
    return {
        "group": row["vg_name"],
        "name": row["lv_name"].strip("[]"),  # hidden ones are in brackets
        "segtype": row["segtype"],
        "mode": row["cache_mode"],
        "attr": row["lv_attr"],
        "health": row["lv_health_status"],
        "check": row["lv_check_needed"],
        "origin": row["origin"].strip("[]"),
        "cache": row["pool_lv"].strip("[]"),
        "devices": devices,
    }


def read_cached_volume(node: Node, claim: Data) -> Data:
    found = node.once(lvm)
    ours = [one for one in found["logical"] if one["group"] == claim["name"]]
    return {**found, "logical": ours}


def block_devices(node: Node) -> List[Data]:
    """Every block device once, with the filesystem on it."""
    argv = ["lsblk", "-J", "-o", "NAME,TYPE,FSTYPE,UUID"]
    found: Dict[str, Data] = {}

    def walk(entries: List[Data]) -> None:
        for entry in entries:
            found.setdefault(str(entry.get("name")), entry)
            walk(entry.get("children") or [])

    walk(_json("lsblk", tool(node, argv, TOOL_S)).get("blockdevices") or [])
    if not found:
        raise Failed("lsblk: lists no block devices")
    return list(found.values())


def read_filesystem(node: Node, claim: Data) -> Data:
    ids = _links(node, "/dev/disk/by-id")
    devices = [
        {
            "name": entry["name"],
            "type": entry.get("type"),
            "fstype": entry.get("fstype"),
            "ids": ids.get(entry["name"], []),
        }
        for entry in node.once(block_devices)
        if (entry.get("uuid") or "").lower() == claim["uuid"].lower()
    ]
    data: Data = {"devices": devices, "below": None, "below_in_use": []}
    device = _below(node, claim)
    if device:
        data["below"] = node.word("/sys/block/%s/dm/name" % device) or device
        data["below_in_use"] = _holders(node, device) + _signatures(node, device)[0]
    return data


def _below(node: Node, claim: Data) -> Optional[str]:
    """The kernel's name of the array or volume that a filesystem is claimed on, if it is there."""
    if claim.get("volume"):
        for device in node.names("/sys/block"):
            folder = "/sys/block/%s/dm/" % device
            of_lvm = device.startswith("dm-") and (node.word(folder + "uuid") or "")[:4] == "LVM-"
            if of_lvm and node.word(folder + "name") == "%s-data" % claim["volume"]:
                return device
        return None
    for device, names in _links(node, "/dev/md").items():
        if claim.get("array") in names:
            return device
    return None


def _holders(node: Node, device: str) -> List[str]:
    return ["holder %s" % name for name in node.names("/sys/block/%s/holders" % device)]


def _signatures(node: Node, device: str) -> Tuple[List[str], Dict[str, List[str]]]:
    """What lies on a device, as uses; and the UUIDs of its `arrays` and `physical_volumes`.

    Every signature: lsblk shows none at all where there are several.
    """
    argv = ["wipefs", "--no-act", "-J", "/dev/" + device]
    try:
        code, out, err = run(node, argv, TOOL_S)
        if code != 0:
            raise Failed("wipefs: exit status %d: %s" % (code, shorten(err or out)))
        found = _json("wipefs", out).get("signatures") if out.strip() else []
    except Failed as error:
        return ["content that could not be read: %s" % error], {}
    if not isinstance(found, list):
        return ["content that could not be read: wipefs lists none"], {}
    return parse_wipefs(found)


def parse_wipefs(signatures: List[Data]) -> Tuple[List[str], Dict[str, List[str]]]:
    """(uses, UUIDs of md arrays and of LVM's physical volumes) of what `wipefs -J` lists."""
    tables = ("gpt", "dos", "PMBR", "atari")
    types = [str(one.get("type")) for one in signatures]
    uses = [("partition table %s" if t in tables else "signature %s") % t for t in types]
    return uses, {
        key: [str(one["uuid"]) for one in signatures if one.get("type") == kind and one.get("uuid")]
        for key, kind in (("arrays", "linux_raid_member"), ("physical_volumes", "LVM2_member"))
    }


def read_governor(node: Node, claim: Data) -> Data:
    values: Dict[str, int] = {}
    for name in node.names("/sys/devices/system/cpu"):
        if re.match(r"cpu\d+$", name):
            word = node.word("/sys/devices/system/cpu/%s/cpufreq/scaling_governor" % name)
            if word:
                values[word] = values.get(word, 0) + 1
    return {"values": values}


# --- one command for many claims -----------------------------------------------------------------

_DPKG = r"${Package}\t${Architecture}\t${Version}\t${db:Status-Want}\t${db:Status-Status}\t${db:Status-Eflag}\n"  # noqa: E501


def packages(node: Node) -> Dict[str, Data]:
    """Every package that dpkg knows, by name and by name:architecture. Takes no lock."""
    found: Dict[str, Data] = {}
    foreign: Dict[str, Data] = {}
    rows = [
        line.split("\t") for line in tool(node, ["dpkg-query", "-W", "-f", _DPKG], 20).split("\n")
    ]
    native = next((row[1] for row in rows if row[0] == "dpkg" and len(row) == 6), "")
    for row in rows:
        if len(row) != 6:
            continue
        name, arch, version, want, status, flag = row
        data: Data = {"version": None, "held": want == "hold"}
        if status not in ("not-installed", "config-files"):
            data["version"] = version
            if not (status == "installed" or status.startswith("triggers-")) or flag != "ok":
                data["error"] = status if flag == "ok" else "%s, %s" % (status, flag)
        found[name + ":" + arch] = data
        (found if arch in (native, "all") else foreign)[name] = data
    for name, data in foreign.items():
        found.setdefault(name, data)
    if not found:
        raise Failed("dpkg-query: no line could be read")
    return found


def read_packages(node: Node, claims: List[Data]) -> Dict[str, Found]:
    known = node.once(packages)
    return {c["id"]: known.get(c["name"]) or {"version": None, "held": False} for c in claims}


_UNIT = {
    "LoadState": "load_state",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "SubState": "sub",
}


def read_services(node: Node, claims: List[Data]) -> Dict[str, Found]:
    units = list(dict.fromkeys(claim["name"] for claim in claims))
    known: Dict[str, Found] = {}
    try:
        known.update(_show(node, units))
    except Failed:
        if len(units) == 1:
            raise
        for unit in units:  # one of them may be what systemctl cannot stand
            try:
                known.update(_show(node, [unit]))
            except Failed as error:
                known[unit] = error
    return {claim["id"]: known[claim["name"]] for claim in claims}


def _show(node: Node, units: List[str]) -> Dict[str, Data]:
    wanted = "--property=Id," + ",".join(_UNIT)
    code, out, err = run(node, ["systemctl", "show", "--no-pager", wanted, "--", *units], 20)
    blocks = []
    for block in out.strip().split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields:
            blocks.append({ours: fields.get(theirs, "") for theirs, ours in _UNIT.items()})
    if len(blocks) != len(units):  # they come in the order of the arguments
        raise Failed("systemctl: exit status %d: %s" % (code, shorten(err or out) or "no output"))
    return dict(zip(units, blocks))  # noqa: B905


def simulated_tools(node: Node) -> List[str]:
    try:
        lines = node.lines(SIMULATED)
    except OSError:
        return []
    return [word for line in lines for word in re.findall(r"[\w.+-]+", line.partition("#")[0])]


def is_simulated(node: Node, argv0: str) -> bool:
    return os.path.basename(argv0) in node.once(simulated_tools)


def read_output(node: Node, claim: Data) -> Data:
    argv = list(claim["argv"])
    code, out, _ = run(node, argv, float(claim.get("timeout_s") or 20), TEXT_LIMIT, merge=True)
    data: Data = {"rc": code, "text": clean(out)}
    if is_simulated(node, argv[0]):
        data["simulated"] = True
    return data


def read_gpus(node: Node, claims: List[Data]) -> Dict[str, Found]:
    answer: Dict[str, Found] = {}
    for claim in claims:
        name = claim["name"]
        if name == "mig_devices":
            by_uuid = node.once(mig_devices)
            values = {g["pci_address"]: by_uuid.get(g["uuid"]) for g in node.once(driver_gpus)}
        else:
            values = {gpu["pci_address"]: gpu.get(name) for gpu in node.once(driver_gpus)}
        data: Data = {"values": values}
        if is_simulated(node, "nvidia-smi"):
            data["simulated"] = True
        answer[claim["id"]] = data
    return answer


# --- GPUs ----------------------------------------------------------------------------------------


def pci_address(text: str) -> Optional[str]:
    found = re.match(
        r"\s*(?:([0-9A-Fa-f]+):)?([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})(?:\.(\d))?", text
    )
    if not found:
        return None
    domain, bus, device, function = found.groups()
    parts = (int(domain or "0", 16), int(bus, 16), int(device, 16), int(function or 0))
    return "%04x:%02x:%02x.%d" % parts


def _said(gpu: Any, *paths: str) -> Optional[str]:
    """The first of these elements that says something; drivers rename them."""
    for path in paths:
        text = (gpu.findtext(path) or "").strip()
        bare = text.strip("[]").strip().lower()
        unsaid = (
            "n/a", "not supported", "unknown", "err!", "insufficient", "requested func",
            "function not found", "unable to",
        )  # fmt: skip
        if bare and not bare.startswith(unsaid) and "is lost" not in bare:
            return text
    return None


def _number(text: Optional[str]) -> Optional[float]:
    found = re.search(r"-?\d+(?:\.\d+)?", text or "")
    return float(found.group()) if found else None


def _whole(text: Optional[str]) -> Optional[int]:
    number = _number(text)
    return None if number is None else int(number)


def _switch(text: Optional[str]) -> Optional[bool]:
    return {"enabled": True, "disabled": False, "on": True, "off": False}.get((text or "").lower())


def parse_nvidia_smi(text: str) -> List[Data]:
    """The GPUs of `nvidia-smi -q -x`, drivers 470 to 580. What the driver does not say is None."""
    from xml.etree import ElementTree

    begin, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    if begin < 0:
        raise Failed("nvidia-smi: %s" % (shorten(text) or "printed nothing"))
    if end < 0:
        raise Failed("nvidia-smi: its report breaks off")
    xml = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text[begin:end]) + "</nvidia_smi_log>"
    try:
        log = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise Failed("nvidia-smi: its report is no XML: %s" % error) from None
    driver = _said(log, "driver_version")
    gpus = []
    for index, gpu in enumerate(log.findall("gpu")):
        address = pci_address(gpu.get("id") or _said(gpu, "pci/pci_bus_id") or "")
        if address:
            gpus.append(dict(_gpu(gpu), pci_address=address, index=index, driver_version=driver))
    return gpus


def _gpu(gpu: Any) -> Data:
    identity = _said(gpu, "pci/pci_device_id") or ""  # 20B010DE: device, vendor
    known = re.match(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})$", identity)
    link = "pci/pci_gpu_link_info/"
    return {
        "pci_id": "%s:%s" % (known.group(2).lower(), known.group(1).lower()) if known else None,
        "model": _said(gpu, "product_name"),
        "uuid": _said(gpu, "uuid"),
        "serial": _said(gpu, "serial"),
        "board_part": _said(gpu, "board_part_number"),
        "vbios": _said(gpu, "vbios_version"),
        "memory_mib": _whole(_said(gpu, "fb_memory_usage/total")),
        "persistence_mode": _switch(_said(gpu, "persistence_mode")),
        "ecc_mode": _switch(_said(gpu, "ecc_mode/current_ecc")),
        "mig_mode": _switch(_said(gpu, "mig_mode/current_mig")),
        "application_clocks": _clocks(gpu, "applications_clocks"),
        "application_clocks_default": _are_default(gpu),
        "power_limit_w": _number(
            _said(
                gpu,
                "gpu_power_readings/current_power_limit",
                "gpu_power_readings/power_limit",
                "power_readings/power_limit",
                "power_readings/current_power_limit",
            )
        ),
        "pcie_gen_max": _whole(_said(gpu, link + "pcie_gen/max_link_gen")),
        "pcie_gen": _whole(_said(gpu, link + "pcie_gen/current_link_gen")),
        "pcie_width_max": _whole(_said(gpu, link + "link_widths/max_link_width")),
        "pcie_width": _whole(_said(gpu, link + "link_widths/current_link_width")),
    }


def _clocks(gpu: Any, group: str) -> Optional[str]:
    """`1215,1410`: memory and graphics in MHz, as nvidia-smi takes them."""
    memory = _whole(_said(gpu, group + "/mem_clock"))
    graphics = _whole(_said(gpu, group + "/graphics_clock"))
    return None if memory is None or graphics is None else "%d,%d" % (memory, graphics)


def _are_default(gpu: Any) -> Optional[bool]:
    now, default = _clocks(gpu, "applications_clocks"), _clocks(gpu, "default_applications_clocks")
    return None if now is None or default is None else now == default


def parse_mig_devices(text: str) -> Dict[str, str]:
    """Profiles of the MIG devices by their GPU's UUID, of `nvidia-smi -L`: `3g.20gb,3g.20gb`."""
    found: Dict[str, List[str]] = {}
    uuid = ""
    for line in text.splitlines():
        gpu = re.match(r"GPU \d+: .*\(UUID: (GPU-[0-9a-fA-F-]+)\)", line)
        device = re.match(r"\s+MIG (\S+)\s+Device", line)
        if gpu:
            uuid = gpu.group(1)
            found[uuid] = []
        elif device and uuid:
            found[uuid].append(device.group(1))
    return {uuid: ",".join(sorted(profiles)) for uuid, profiles in found.items()}


def mig_devices(node: Node) -> Dict[str, str]:
    return parse_mig_devices(tool(node, ["nvidia-smi", "-L"], 30))


def driver_gpus(node: Node) -> List[Data]:
    code, out, err = run(node, ["nvidia-smi", "-q", "-x"], 30)
    try:
        gpus: List[Data] = parse_nvidia_smi(out)
    except Failed as error:
        if code == 0:
            raise
        why = shorten(out + " " + err) or str(error)
        raise Failed("nvidia-smi: exit status %d: %s" % (code, why)) from None
    return gpus


def bus(node: Node) -> List[Tuple[str, str, str, bool]]:
    """(address, class, vendor:device, answers) of every PCI function.

    One whose revision reads as ff does not answer: the kernel still knows it, nobody else does.
    """
    found = []
    for line in tool(node, ["lspci", "-D", "-n", "-mm"], TOOL_S).splitlines():
        fields = re.findall(r'"([^"]*)"', line)
        address = pci_address(line)
        if address and len(fields) >= 3:
            identity = (fields[1] + ":" + fields[2]).lower()
            found.append((address, fields[0].lower(), identity, " -rff" not in line))
    if not found:
        raise Failed("lspci: no line could be read")
    return found


# --- hardware ------------------------------------------------------------------------------------


def hardware_cpu(node: Node) -> Data:
    fields: Dict[str, str] = {}

    def walk(entries: List[Data]) -> None:  # newer ones nest
        for entry in entries:
            fields.setdefault(str(entry.get("field", "")).rstrip(":"), str(entry.get("data") or ""))
            walk(entry.get("children") or [])

    walk(_json("lscpu", tool(node, ["lscpu", "-J"], TOOL_S)).get("lscpu") or [])
    if not fields:
        raise Failed("lscpu: nothing could be read")
    cpu = {
        "model": fields.get("Model name") or None,
        "sockets": _whole(fields.get("Socket(s)")),
        "cores_per_socket": _whole(fields.get("Core(s) per socket")),
        "threads_per_core": _whole(fields.get("Thread(s) per core")),
        "numa_nodes": _whole(fields.get("NUMA node(s)")),
        "online": len(cpu_list(fields.get("On-line CPU(s) list") or "")) or None,
    }
    return {"cpu": cpu}


def _json(name: str, text: str) -> Data:
    line = re.search(r"(?m)^\{", text)
    try:
        found = json.loads(text[line.start() if line else text.index("{") :])
    except ValueError:
        raise Failed("%s: its output is no JSON" % name) from None
    if not isinstance(found, dict):
        raise Failed("%s: its output is no JSON object" % name)
    return found


def hardware_memory(node: Node) -> Data:
    found = re.search(r"^MemTotal:\s+(\d+) kB", node.text("/proc/meminfo"), re.M)
    if not found:
        raise Failed("/proc/meminfo: no MemTotal")
    return {"memory_kib": int(found.group(1))}


def parse_dmidecode(text: str) -> List[Tuple[str, Dict[str, str]]]:
    """(title, fields) of every structure."""
    found = []
    for block in re.split(r"\n\s*\n", text.replace("\r", "")):
        lines = [line for line in block.splitlines() if not line.startswith(("#", "Handle "))]
        if lines and not lines[0].startswith((" ", "\t")):
            pairs = (line.partition(":") for line in lines[1:] if ":" in line)
            found.append((lines[0].strip(), {k.strip(): v.strip() for k, _, v in pairs}))
    return found


def _stated(fields: Dict[str, str], *names: str) -> Optional[str]:
    """What a board's maker filled in, if anything."""
    blank = ("", "unknown", "not specified", "none", "no dimm", "no asset tag", "default string",
             "to be filled by o.e.m.", "not present", "undefined", "n/a", "empty", "[empty]",
             "<bad index>", "<out of spec>")  # fmt: skip
    values = (fields.get(name, "").strip() for name in names)
    return next((value for value in values if value.lower() not in blank), None)


def dmi(node: Node) -> List[Tuple[str, Dict[str, str]]]:
    argv = ["dmidecode", "-t", "bios", "-t", "system", "-t", "baseboard", "-t", "memory"]
    out = tool(node, argv, TOOL_S)
    found = parse_dmidecode(out)
    if not any(fields for _, fields in found):
        raise Failed("dmidecode: %s" % shorten(out))
    return found


# Of what stands in a list of memory, what the kernel does not take for its own.
_NO_MEMORY = ("Flash", "ROM", "Logical non-volatile device")


def _mib(size: str) -> Optional[int]:
    """Of `32 GB`, or of `32 GiB`, as dmidecode calls the same from 3.7 on."""
    found = re.match(r"(\d+) ([kKMGT])i?B$", size)
    if not found:
        return None
    return int(int(found.group(1)) * 1024 ** ("KMGT".index(found.group(2).upper()) - 1))


def hardware_dimms(node: Node) -> Data:
    devices = [
        fields
        for title, fields in node.once(dmi)
        if title == "Memory Device" and fields.get("Type") not in _NO_MEMORY
    ]
    if not devices:
        raise Failed("dmidecode: lists no memory device")
    plain = [fields.get("Locator", "?") for fields in devices]
    unique = len(set(plain)) == len(plain)
    dimms = []
    for fields, slot in zip(devices, plain):  # noqa: B905
        size = fields.get("Size", "")
        dimms.append(
            {
                "slot": slot if unique else "%s %s" % (fields.get("Bank Locator", "?"), slot),
                "size_mib": 0 if size.startswith(("No Module", "Not Installed")) else _mib(size),
                "type": _stated(fields, "Type"),
                "speed_mts": _whole(_stated(fields, "Configured Memory Speed", "Speed")),
                "serial": _stated(fields, "Serial Number"),
            }
        )
    return {"dimms": dimms}


def hardware_board(node: Node) -> Data:
    titled: Dict[str, Dict[str, str]] = {}
    for title, fields in node.once(dmi):
        titled.setdefault(title, fields)
    system = titled.get("System Information", {})
    board = titled.get("Base Board Information", {})
    return {
        "board_vendor": _stated(board, "Manufacturer") or _stated(system, "Manufacturer"),
        "board_model": _stated(board, "Product Name") or _stated(system, "Product Name"),
        "board_serial": _stated(board, "Serial Number") or _stated(system, "Serial Number"),
        "bios_version": _stated(titled.get("BIOS Information", {}), "Version"),
    }


_LSBLK = "NAME,TYPE,SIZE,SERIAL,WWN,MODEL,TRAN,ROTA,FSTYPE,PTTYPE,MOUNTPOINT"


def _udev_settles(node: Node) -> None:
    """While udev is at work, as after a boot, disks lack names and lsblk their signatures."""
    if os.path.exists(node.at("/run/udev/queue")):
        try:
            run(node, ["udevadm", "settle", "--timeout=20"], TOOL_S)
        except Failed:
            pass  # a disk without a name is refused


def hardware_disks(node: Node) -> Data:
    _udev_settles(node)
    argv = ["lsblk", "-J", "-b", "-o", _LSBLK + "S"]
    code, out, err = run(node, argv, TOOL_S)
    if code != 0 and "unknown column" in err:  # util-linux before 2.37
        out = tool(node, [*argv[:-1], _LSBLK], TOOL_S)
    elif code != 0:
        raise Failed("lsblk: exit status %d: %s" % (code, shorten(err or out)))
    disks = parse_lsblk(_json("lsblk", out), _links(node, "/dev/disk/by-id"))
    for disk in disks:
        disk["transport"] = _way(node, disk["name"], disk["transport"])
    for disk in disks if node.disks_matter else []:
        uses, known = _signatures(node, disk["name"])
        disk.update(known)
        disk["in_use"] = list(dict.fromkeys(disk["in_use"] + _holders(node, disk["name"]) + uses))
    return {"disks": disks}


def parse_lsblk(report: Data, ids: Dict[str, List[str]]) -> List[Data]:
    """Whole disks, each with why it must not be written."""
    if not isinstance(report.get("blockdevices"), list):
        raise Failed("lsblk: lists no block devices")
    disks = []
    for entry in filter(_is_entry, report["blockdevices"]):
        name, size = str(entry.get("name")), _whole(str(entry.get("size")))
        if entry.get("type") != "disk" or not size or re.match(r"zram|ram|nbd|loop|fd", name):
            continue
        transport = entry.get("tran") or _transport(name)
        rotational = entry.get("rota")
        disks.append(
            {
                "name": name,
                "ids": ids.get(name, []),
                "wwn": _name_of_its_own(entry.get("wwn")),
                "serial": _name_of_its_own(entry.get("serial")),
                "model": str(entry.get("model") or "").strip() or None,
                "size_bytes": size,
                "transport": transport,
                "rotational": None if rotational is None else str(rotational) in ("1", "True"),
                "in_use": list(dict.fromkeys(_uses(entry, top=True))),
            }
        )
    return disks


def _name_of_its_own(value: Any) -> Optional[str]:
    """A serial or a WWN. Zeros are what a maker left out, and no name: 0x0000000000000000."""
    text = str(value or "").strip()
    return None if re.match(r"(0x|eui\.|naa\.|uuid\.)?[0-]*$", text) else text


def _transport(name: str) -> Optional[str]:
    """What a name alone tells, where no udev says more."""
    return "nvme" if name.startswith("nvme") else "virtio" if name.startswith("vd") else None


def _way(node: Node, name: str, told: Optional[str]) -> Optional[str]:
    """How a disk is reached, by the disk itself where lsblk tells less.

    lsblk calls sas what hangs on a SAS controller, a SATA disk too, and nvme what another machine
    serves (tcp, rdma, fc). A namespace that has several paths has its controllers below it.
    """
    device = "/sys/block/%s/device" % name
    if told in (None, "sas") and node.word(device + "/vendor") == "ATA":
        return "sata"
    if told != "nvme":
        return told
    below = [device + "/" + one for one in node.names(device) if re.match(r"nvme\d+$", one)]
    ways = [node.word(folder + "/transport") or "pcie" for folder in [device, *below]]
    return next((way for way in ways if way != "pcie"), told)


def _uses(entry: Data, top: bool = False) -> List[str]:
    uses = [] if top else ["%s %s" % (entry.get("type") or "holder", entry.get("name"))]
    if top and entry.get("pttype"):
        uses.append("partition table %s" % entry["pttype"])
    if entry.get("fstype"):
        uses.append("signature %s" % entry["fstype"])
    points = [*(entry.get("mountpoints") or []), entry.get("mountpoint")]
    uses += ["in use as swap" if p == "[SWAP]" else "mounted at %s" % p for p in points if p]
    for child in filter(_is_entry, entry.get("children") or []):
        uses += _uses(child)
    return uses


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict)


# Names that are never a card's; a lab node's card is a veth, so sysfs alone cannot tell.
_NO_CARD = re.compile(
    r"lo$|br[-\d]|docker|veth|cali|virbr|vnet|tun|tap|cni|flannel|kube|nodelocaldns|cilium|lxc|podman"
    r"|tailscale|wg\d|dummy|ifb|ip6|ip_vti|sit|gre|erspan|teql|vxlan|bond|team"
)


def hardware_nics(node: Node) -> Data:
    nics = []
    for name in node.names("/sys/class/net")[:256]:
        folder = "/sys/class/net/" + name
        if _NO_CARD.match(name) or os.path.isdir(node.at(folder + "/bridge")):
            continue
        fields = _fields(run(node, ["ethtool", "-i", name], TOOL_S)[1])
        address = pci_address(fields.get("bus-info", ""))
        if not address and not os.path.islink(node.at(folder + "/device")):
            continue
        nics.append(_nic(node, name, folder, fields, address))
    return {"nics": nics}


NO_SPEED = (0, 0xFFFF, 0xFFFFFFFF)  # "unknown" to the kernel; old tools print it as a speed


def parse_link(text: str) -> Data:
    """What `ethtool NAME` tells of speed (Mb/s), duplex and link; None for what it does not."""
    link = _fields(text)
    found = re.match(r"(\d{1,10})\s*Mb/s", link.get("speed", ""))
    speed = int(found.group(1)) if found else 0
    return {
        "speed_mbps": None if speed in NO_SPEED else speed,
        "duplex": (link.get("duplex") or "").split("!")[0].lower() or None,
        # Newer ones say why: no (No cable)
        "link": {"yes": True, "no": False}.get(link.get("link detected", "").partition(" ")[0]),
    }


def _fields(text: str) -> Dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _nic(
    node: Node, name: str, folder: str, driver: Dict[str, str], address: Optional[str]
) -> Data:
    numa = node.word(folder + "/device/numa_node")
    if numa is None and address:
        numa = node.word("/sys/bus/pci/devices/%s/numa_node" % address)
    numa_node = _whole(numa)
    return {
        "name": name,
        "driver": driver.get("driver") or None,
        "mac": node.word(folder + "/address"),
        **parse_link(run(node, ["ethtool", name], TOOL_S)[1]),
        "mtu": _whole(node.word(folder + "/mtu")),
        "pci_address": address,
        "numa_node": None if numa_node is None or numa_node < 0 else numa_node,
    }


def hardware_nvswitches(node: Node) -> Data:
    ids = ("10de:1af1", "10de:22a3")  # A100, H100
    found = [at for at, _, identity, answers in node.once(bus) if identity in ids and answers]
    return {"nvswitches": found}


def hardware_gpus(node: Node) -> Data:
    """GPUs on the bus, each with what the driver says of it where there is one."""
    cards: Dict[str, Data] = {}
    errors: Dict[str, str] = {}
    for address, kind, identity, answers in node.once(bus):
        if kind not in ("0300", "0302") or not identity.startswith("10de:"):
            continue
        if answers:
            cards[address] = {"pci_address": address, "pci_id": identity}
        else:
            errors["gpu " + address] = "it fell off the bus: its revision reads as ff"
    try:
        for gpu in node.once(driver_gpus):
            card = cards.setdefault(gpu["pci_address"], {})
            card.update((key, value) for key, value in gpu.items() if value is not None)
    except Failed as error:
        if not str(error).endswith("not found"):
            errors["gpu_driver"] = str(error)
    return {"gpus": [cards[address] for address in sorted(cards)], "errors": errors}


# part -> (function, the tools that it asks)
_PARTS: Dict[str, Tuple[Callable[[Node], Data], Tuple[str, ...]]] = {
    "cpu": (hardware_cpu, ("lscpu",)),
    "memory": (hardware_memory, ()),
    "dimms": (hardware_dimms, ("dmidecode",)),
    "board": (hardware_board, ("dmidecode",)),
    "disks": (hardware_disks, ("lsblk",)),
    "nics": (hardware_nics, ("ethtool",)),
    "gpus": (hardware_gpus, ("lspci", "nvidia-smi")),
    "nvswitches": (hardware_nvswitches, ("lspci",)),
}


# --- network interfaces --------------------------------------------------------------------------

_SHOW = {"channels": "-l", "rings": "-g", "coalesce": "-c", "features": "-k", "pause": "-a"}


def _setting(now: Any, most: Optional[int] = None, offered: bool = True) -> Data:
    return {"now": now, "max": most, "offered": offered}


def _lines(text: str) -> List[Tuple[str, str]]:
    """(name, value) of every line `Name: value`, the name as ethtool takes it."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return [(key.strip().lower().replace(" ", "-"), value.strip()) for key, _, value in pairs]


def _count(text: str) -> Optional[int]:
    return int(text) if re.match(r"[0-9]{1,9}$", text) else None


def _switched(text: str) -> Optional[bool]:
    return {"on": True, "off": False}.get(text)


def _parse_counts(text: str) -> Dict[str, Data]:
    """Of rings and channels: two lists, what there may be and what there is."""
    most, _, now = text.partition("Current hardware settings:")
    limits = {name: _count(value) for name, value in _lines(most)}
    found = {}
    for name, value in _lines(now):
        limit, count = limits.get(name), _count(value)
        if name in limits and (count is not None or value == "n/a"):
            found[name] = _setting(count, limit, bool(limit))
    return found


def _parse_coalesce(text: str) -> Dict[str, Data]:
    found = {}
    for name, value in _lines(re.sub(r"(?m)^(Adaptive|CQE mode) +RX: *(\S+) +TX: *(\S+) *$",
                                     r"\1 RX: \2\n\1 TX: \3", text)):  # fmt: skip
        now = _switched(value) if value in ("on", "off") else _count(value)
        if now is not None or value == "n/a":
            found[name] = _setting(now, None, now is not None)
    return found


def _parse_switches(text: str) -> Dict[str, Data]:
    """Of features and pause frames: `name: on`, perhaps `[fixed]` or `[requested on]`."""
    found = {}
    for name, value in _lines(text):
        word, _, note = value.partition(" ")
        now = _switched(word)
        if now is not None and not (note and not note.startswith("[")):
            found[name] = _setting(now, None, "[fixed]" not in note)
    if "autonegotiate" in found:
        found["autoneg"] = found.pop("autonegotiate")
    return found


_NIC_PARSERS = {
    "channels": _parse_counts,
    "rings": _parse_counts,
    "coalesce": _parse_coalesce,
    "features": _parse_switches,
    "pause": _parse_switches,
}


def parse_nic(group: str, text: str) -> Dict[str, Data]:
    """The settings of one group, by name. What ethtool shows as n/a is not offered."""
    found = _NIC_PARSERS[group](text)
    if not found:
        raise Failed("ethtool %s: %s" % (_SHOW[group], shorten(text) or "printed nothing"))
    return found


def _interface(name: str) -> str:
    """Its folder in sysfs; Failed for what can be no interface's name."""
    if not re.match(r"[^/\s]{1,15}$", name) or name in (".", ".."):
        raise Failed("%s: no interface's name" % name)
    return "/sys/class/net/" + name


def read_nic(node: Node, claim: Data) -> Data:
    name = claim["name"]
    folder = _interface(name)
    settings: Dict[str, Data] = {}
    data: Data = {"exists": os.path.isdir(node.at(folder)), "driver": None, "settings": settings,
                  "not_supported": [], "errors": {}, "cores": None}  # fmt: skip
    if not data["exists"]:
        return data
    if is_simulated(node, "ethtool"):
        data["simulated"] = True
    settings["mtu"] = _setting(_count(node.word(folder + "/mtu") or ""))
    for group, option in _SHOW.items():
        if claim.get(group):
            _read_group(node, name, group, option, data)
    data["driver"] = _fields(run(node, ["ethtool", "-i", name], TOOL_S)[1]).get("driver") or None
    data["cores"] = len(_local_cores(node, folder)[1]) or None
    return data


def _read_group(node: Node, name: str, group: str, option: str, data: Data) -> None:
    try:
        code, out, err = run(node, ["ethtool", option, name], TOOL_S)
        if code != 0 and re.search(r"(?i)operation not supported", err + out):
            data["not_supported"].append(group)
            return
        if code != 0:
            raise Failed("ethtool %s: exit status %d: %s" % (option, code, shorten(err or out)))
        for word, setting in parse_nic(group, clean(out)).items():
            data["settings"]["%s.%s" % (group, word)] = setting
    except Failed as error:
        data["errors"][group] = str(error)


def cpu_list(text: str) -> List[int]:
    """The CPUs of a list such as `0-3,8`; Failed for anything else."""
    cpus: List[int] = []
    for part in text.strip().split(",") if text.strip() else []:
        found = re.match(r"([0-9]{1,5})(?:-([0-9]{1,5}))?$", part.strip())
        if not found:
            raise Failed("no list of CPUs: %s" % shorten(text, 60))
        cpus += range(int(found.group(1)), int(found.group(2) or found.group(1)) + 1)
    return cpus


def cpu_mask(text: str) -> List[int]:
    """The CPUs of a mask such as `00000001,00000003`; Failed for anything else."""
    digits = text.strip().replace(",", "")
    if not re.match(r"[0-9a-fA-F]{1,4096}$", digits):
        raise Failed("no mask of CPUs: %s" % shorten(text, 60))
    mask = int(digits, 16)
    return [cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1]


def _device_folders(node: Node, folder: str) -> List[str]:
    """The interface's device; of a virtio one also its parent, which has the interrupts."""
    try:
        device = os.path.realpath(node.at(folder + "/device"))
    except OSError:
        return []
    root = os.path.realpath(node.root or "/").rstrip("/")
    inside = device[len(root) :] if device.startswith(root + "/") else ""
    if not inside or not os.path.isdir(device):
        return []
    parent = [os.path.dirname(inside)] if os.path.basename(inside).startswith("virtio") else []
    return [inside, *parent]


def _local_cores(node: Node, folder: str) -> Tuple[Optional[int], List[List[int]]]:
    """Its NUMA node (None: there is none), and the cores there, each with all of its CPUs."""
    numa, cpus = None, ""
    for device in _device_folders(node, folder):
        number = _count(node.word(device + "/numa_node") or "")
        if number is not None:
            numa = number
            cpus = node.word("/sys/devices/system/node/node%d/cpulist" % number) or ""
            break
        cpus = cpus or node.word(device + "/local_cpulist") or ""
    online = cpu_list(node.word("/sys/devices/system/cpu/online") or "")
    near = [cpu for cpu in cpu_list(cpus) if cpu in online] or online
    cores: Dict[int, List[int]] = {}
    for cpu in near:
        path = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu
        siblings = cpu_list(node.word(path) or "") or [cpu]
        cores.setdefault(min(siblings), []).append(cpu)
    return numa, [cores[first] for first in sorted(cores)]


# What drivers call the interrupt of a queue: ens5f0-TxRx-0, virtio0-input.0, mlx5_comp0@pci:…
# or, by their number alone, eth0-0, mlx4-1@0000:…
_QUEUE = re.compile(
    r"(?i)(?:^\w+-|(?:^|[-_.@])"
    r"(tx-?rx|rx-?tx|input|output|rx|tx|comp|fp|q|queue|blk|ntfy-blk)[-_.]?)(\d{1,5})(?:@\S*)?$"
)
_WAYS = {"input": "rx", "rx": "rx", "output": "tx", "tx": "tx"}


def queue_of(name: str) -> Optional[Tuple[str, int]]:
    """(rx, tx or both; which) of an interrupt's name; None when it is no queue's."""
    found = _QUEUE.search(name)
    if not found:
        return None
    return _WAYS.get((found.group(1) or "").lower(), "both"), int(found.group(2))


def interrupt_names(node: Node) -> Dict[int, str]:
    """By number, from /proc/interrupts: the last word of a line."""
    found = {}
    for line in node.lines("/proc/interrupts"):
        number, colon, rest = line.partition(":")
        irq = _count(number.strip())
        if colon and irq is not None and rest.split():
            found[irq] = rest.split()[-1]
    return found


def read_interrupts(node: Node, claim: Data) -> Data:
    folder = _interface(claim["name"])
    data: Data = {"exists": os.path.isdir(node.at(folder)), "numa_node": None, "cores": [],
                  "queues": [], "others": [], "xps": []}  # fmt: skip
    if not data["exists"]:
        return data
    data["numa_node"], data["cores"] = _local_cores(node, folder)
    names = node.once(interrupt_names)
    used = [irq for irq in sorted(_interrupts_of(node, folder)) if irq in names]
    for irq in used:
        # The only interrupt of a simple NIC bears the interface's name.
        known = queue_of(names[irq]) or (("both", 0) if len(used) == 1 else None)
        if known is None:
            data["others"].append(names[irq])
            continue
        here = "/proc/irq/%d/" % irq
        data["queues"].append(
            {
                "irq": irq,
                "name": names[irq],
                "way": known[0],
                "index": known[1],
                "cpus": cpu_list(node.text(here + "smp_affinity_list", 65536)),
                "effective": cpu_list(node.word(here + "effective_affinity_list") or ""),
            }
        )
    data["queues"].sort(key=lambda one: (one["way"], one["index"], one["irq"]))
    data["xps"] = _xps(node, folder)
    return data


def _interrupts_of(node: Node, folder: str) -> List[int]:
    for device in _device_folders(node, folder):
        found = [_count(name) for name in node.names(device + "/msi_irqs")]
        if found:
            return [irq for irq in found if irq is not None]
    return []


def _xps(node: Node, folder: str) -> List[Optional[List[int]]]:
    """The CPUs that send by each queue; None for a queue of which the kernel does not say it."""
    names = [name for name in node.names(folder + "/queues") if re.match(r"tx-[0-9]+$", name)]
    names.sort(key=lambda name: int(name[3:]))
    masks = [node.word("%s/queues/%s/xps_cpus" % (folder, name)) for name in names]
    return [None if mask is None else cpu_mask(mask) for mask in masks]


# --- the whole -----------------------------------------------------------------------------------

_ONE = {
    "file": read_file,
    "directory": read_directory,
    "link": read_link,
    "sysctl": read_sysctl,
    "module": read_module,
    "kernel_argument": read_kernel_argument,
    "array": read_array,
    "cached_volume": read_cached_volume,
    "filesystem": read_filesystem,
    "mount": read_mount,
    "governor": read_governor,
    "nic": read_nic,
    "interrupts": read_interrupts,
    "output": read_output,
}
_MANY: Dict[str, Callable[[Node, List[Data]], Dict[str, Found]]] = {
    "package": read_packages,
    "service": read_services,
    "gpu": read_gpus,
}

Job = Callable[[], None]


def why(error: BaseException) -> str:
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return "%s: %s" % (error.filename or "read", error.strerror)
    return "%s: %s" % (type(error).__name__, shorten(str(error)))


def read_host(node: Node) -> Data:
    try:
        pairs = [line.partition("=") for line in node.lines("/etc/os-release") if "=" in line]
    except OSError:
        pairs = []
    release = {key: value.strip("\"'") for key, _, value in pairs}
    system = os.uname()
    return {
        "hostname": system.nodename,
        "os_id": release.get("ID", ""),
        "os_version": release.get("VERSION_ID", ""),
        "kernel": system.release,
        "boot_id": node.word("/proc/sys/kernel/random/boot_id") or "",
        "machine_id": node.word("/etc/machine-id") or "",
        "python": "%d.%d.%d" % sys.version_info[:3],
        "clock": time.time(),
        "simulated": os.path.exists(node.at(SIMULATED)),
    }


class Reading:
    """The answer while it grows. Threads that come late write into what nobody reads any more."""

    def __init__(self, node: Node, request: Data) -> None:
        self.node = node
        self.request = request
        self.readings: Dict[str, Data] = {}
        self.parts: Dict[str, Data] = {}
        self.packages: Dict[str, str] = {}

    def jobs(self) -> List[Job]:
        """The slow ones first."""
        claims: Dict[str, List[Data]] = {}
        for claim in self.request.get("claims") or []:
            claims.setdefault(str(claim.get("kind")), []).append(claim)
        hardware = list(_PARTS) if self.request.get("hardware") else []
        jobs = [self._many(kind, claims[kind]) for kind in _MANY if kind in claims]
        jobs += [self._part(part) for part in reversed(hardware)]
        rest = [c for kind in sorted(claims) if kind not in _MANY for c in claims[kind]]
        jobs += [self._one(claim) for claim in rest if claim["kind"] == "output"]
        jobs += [self._one(claim) for claim in rest if claim["kind"] != "output"]
        return [*jobs, self._stack]

    def _one(self, claim: Data) -> Job:
        def job() -> None:
            try:
                read = _ONE.get(claim["kind"])
                if read is None:
                    raise Failed("the reader knows no claim of kind %s" % claim["kind"])
                self.readings[claim["id"]] = {"data": read(self.node, claim)}
            except Exception as error:
                self.readings[claim["id"]] = {"error": why(error)}

        return job

    def _many(self, kind: str, claims: List[Data]) -> Job:
        def job() -> None:
            try:
                for key, found in _MANY[kind](self.node, claims).items():
                    failed = isinstance(found, Failed)
                    self.readings[key] = {"error": str(found)} if failed else {"data": found}
            except Exception as error:
                self.readings.update((claim["id"], {"error": why(error)}) for claim in claims)

        return job

    def _part(self, part: str) -> Job:
        def job() -> None:
            try:
                self.parts[part] = _PARTS[part][0](self.node)
            except Exception as error:
                self.parts[part] = {"errors": {part: why(error)}}

        return job

    def _stack(self) -> None:
        try:
            known = self.node.once(packages)
        except Exception:
            return  # the package claims say why
        self.packages = {
            name: data["version"]
            for name, data in known.items()
            if data["version"] and ":" not in name and STACK.search(name)
        }

    def hardware(self) -> Optional[Data]:
        if not self.request.get("hardware"):
            return None
        errors: Dict[str, str] = {}
        whole: Data = {"errors": errors, "simulated": []}
        for part, (_, tools) in _PARTS.items():
            found = dict(self.parts.get(part) or {"errors": {part: "not read in time"}})
            errors.update(found.pop("errors", {}))
            whole.update(found)
            if found and any(is_simulated(self.node, name) for name in tools):
                whole["simulated"].append(part)
        return whole

    def answer(self) -> Data:
        late = {"error": "not read within %g s" % (self.node.deadline - self.node.started)}
        claims = self.request.get("claims") or []
        return {
            "node": self.request.get("node") or "",
            "host": read_host(self.node),
            "readings": {c["id"]: dict(self.readings.get(c["id"]) or late) for c in claims},
            "hardware": self.hardware(),
            "packages": dict(self.packages),
            "seconds": round(time.monotonic() - self.node.started, 4),
        }


def read(request: Data) -> Data:
    """Reads all that `request` asks for, within its deadline."""
    node = Node(request)
    reading = Reading(node, request)
    queue = reading.jobs()
    queue.reverse()
    done = threading.Semaphore(0)

    def work() -> None:
        while queue:
            try:
                job = queue.pop()
            except IndexError:
                break
            job()
        done.release()

    workers = min(WORKERS, len(queue))
    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(workers):
        if not done.acquire(timeout=max(0.01, node.left())):
            break
    return reading.answer()


def frame(answer: Data) -> bytes:
    """One line between two that no banner prints; the checksum tells a torn one."""
    line = json.dumps(answer, separators=(",", ":")).encode("ascii")
    head = "%s %d %08x" % (BEGIN, len(line), zlib.crc32(line))
    return b"\n" + head.encode() + b"\n" + line + b"\n" + END.encode() + b"\n"


def main(request: str) -> None:
    rest = frame(read(json.loads(request)))
    while rest:
        rest = rest[os.write(1, rest) :]
    os._exit(0)  # a thread that hangs in the kernel must not keep the process
