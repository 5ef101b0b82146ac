"""What first contact runs on a node: POSIX shell, because nothing else is there yet.

Each is one text for `sh -c`, run as root, with positional arguments; each may be run again.
"""

from __future__ import annotations

SUDOERS = "/etc/sudoers.d/90-nodeprep"
REVERT_AFTER_S = 120
GREETING = "nodeprep-look"  # proves that a shell ran, and not a forced command or a notice

_HEAD = """
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
state=/run/nodeprep-contact unit=nodeprep-ssh-revert
"""

# user, the key's base64, the sudoers text; stdin: "sha256 mode path" of each wanted file.
# Prints what is already as it should be, a word a line.
LOOK = f"""{_HEAD}
user=$1 blob=$2 sudoers=$3
echo {GREETING}
command -v python3 >/dev/null && echo python3
command -v sudo >/dev/null && echo sudo
command -v dmidecode >/dev/null && echo dmidecode
command -v ethtool >/dev/null && echo ethtool
command -v lspci >/dev/null && echo pciutils
[ "$(dpkg-query -W -f '${{db:Status-Status}}' python3-apt 2>/dev/null)" = installed ] &&
  echo python3-apt
if id -u "$user" >/dev/null 2>&1; then
  echo user
  home=$(getent passwd "$user" | cut -d: -f6)
  grep -v '^[[:space:]]*#' "$home/.ssh/authorized_keys" 2>/dev/null | grep -qF -- "$blob" &&
    echo key
fi
[ "$(cat {SUDOERS} 2>/dev/null)" = "$sudoers" ] && echo sudoers
while read -r sum mode path; do
  [ "$(sha256sum 2>/dev/null <"$path")" = "$sum  -" ] && [ "0$(stat -c %a "$path")" = "$mode" ] &&
    echo "file $path"
done 2>/dev/null
sshd -T 2>/dev/null | grep -E '^(passwordauthentication|kbdinteractiveauthentication) '
[ -e $state ] && echo pending
exit 0
"""

# Prints who holds a lock of apt or dpkg ("apt-get, pid 812"), or nothing.
LOCKS = f"""{_HEAD}
for lock in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock \
            /var/cache/apt/archives/lock; do
  inode=$(stat -c %i "$lock" 2>/dev/null) || continue
  while read -r _ _ _ _ pid device _; do
    case $device in *:"$inode")
      # The inode alone could be that of a file elsewhere.
      if ls -l "/proc/$pid/fd" 2>/dev/null | grep -qF -- "$lock"; then
        echo "$(cat "/proc/$pid/comm"), pid $pid"
        exit 0
      fi ;;
    esac
  done </proc/locks
done
"""

# packages …. Their lists may be stale or missing: an update that fails is told by the install.
INSTALL = f"""{_HEAD}
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l
apt() {{
  apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::http::Timeout=20 -o Acquire::Retries=2 \
    -o Dpkg::Options::=--force-confold "$@"
}}
apt update
apt -y --no-install-recommends install "$@"
"""

# user, the whole public key, the sudoers text.
ADMIN = f"""{_HEAD}
set -eu
umask 077
user=$1 key=$2 sudoers=$3
if ! id -u "$user" >/dev/null 2>&1; then
  # `*`: no password is ever right. `!` would make sshd without PAM refuse the key as well.
  group=--user-group
  ! getent group "$user" >/dev/null || group=--gid=$user
  useradd --create-home --shell /bin/bash --password '*' "$group" "$user"
  echo user
fi
home=$(getent passwd "$user" | cut -d: -f6)
group=$(id -gn "$user")
[ -d "$home" ] || install -d -m 0755 -o "$user" -g "$group" "$home"
file=$home/.ssh/authorized_keys
blob=$(echo "$key" | cut -d' ' -f2)
if ! grep -v '^[[:space:]]*#' "$file" 2>/dev/null | grep -qF -- "$blob"; then
  install -d -m 0700 -o "$user" -g "$group" "$home/.ssh"
  fresh=$(mktemp "$home/.ssh/.authorized_keys.XXXXXX")
  trap 'rm -f "$fresh"' EXIT
  [ ! -f "$file" ] || cat "$file" >"$fresh"
  [ -z "$(tail -c 1 "$fresh")" ] || echo >>"$fresh"
  echo "$key" | cat >>"$fresh"  # a full disk is told by cat; the shell says "I/O error"
  chown "$user:$group" "$fresh"
  chmod 0600 "$fresh"
  mv -f "$fresh" "$file"
  echo key
fi
if [ -n "$sudoers" ] && [ "$(cat {SUDOERS} 2>/dev/null)" != "$sudoers" ]; then
  mkdir -p /etc/sudoers.d
  fresh=$(mktemp /etc/sudoers.d/.nodeprep.XXXXXX)
  trap 'rm -f "$fresh"' EXIT
  echo "$sudoers" | cat >"$fresh"
  chmod 0440 "$fresh"
  visudo -cf "$fresh" >/dev/null
  mv -f "$fresh" {SUDOERS}
  echo sudoers
fi
"""

_RELOAD = """
reload() {
  systemctl try-reload-or-restart ssh.service 2>/dev/null ||
    systemctl try-reload-or-restart sshd.service
}
"""

# Puts the files back as they were and reloads sshd.
_WAY_BACK = f"""{_HEAD}{_RELOAD}
while IFS= read -r path; do
  if [ -e "$state/old$path" ]; then
    cp -p "$state/old$path" "$path.nodeprep" && mv -f "$path.nodeprep" "$path"
  else
    rm -f "$path"
  fi
done <$state/paths
reload
rm -rf $state
systemctl stop $unit.timer 2>/dev/null || true
"""

# Runs the way back now, when one is pending.
REVERT = f"""{_HEAD}
[ ! -e $state/revert ] || sh $state/revert
rm -rf $state
"""

# stdin: a tar of the files by their absolute paths. Arms the way back, puts them in place, reloads.
APPLY = f"""{_HEAD}{_RELOAD}
set -eu
umask 077
if ! command -v systemd-run >/dev/null; then
  echo "no systemd-run: no way back can be armed" >&2
  exit 1
fi
mkdir -p $state/new $state/old
tar -xf - -C $state/new
(cd $state/new && find . -type f | cut -c2-) >$state/paths
while IFS= read -r path; do
  [ -e "$path" ] || continue
  mkdir -p "$state/old$(dirname "$path")"
  cp -p "$path" "$state/old$path"
done <$state/paths
cat >$state/revert <<'WAY-BACK'
{_WAY_BACK}
WAY-BACK
systemctl reset-failed $unit.service 2>/dev/null || true
systemd-run --quiet --unit=$unit --on-active={REVERT_AFTER_S} \
  --timer-property=AccuracySec=1s /bin/sh $state/revert
while IFS= read -r path; do
  [ -d "$(dirname "$path")" ] || install -d -m 0755 "$(dirname "$path")"
  cp -p "$state/new$path" "$path.nodeprep"
  mv -f "$path.nodeprep" "$path"
done <$state/paths
mkdir -p -m 0755 /run/sshd
if ! sshd -t; then
  sh $state/revert
  exit 1
fi
reload
"""

# Confirms: no way back any more. Fails when it has already been taken.
CONFIRM = f"""{_HEAD}
set -eu
systemctl stop $unit.timer
[ -e $state/paths ] || {{ echo "the way back was taken meanwhile" >&2; exit 1; }}
while IFS= read -r path; do cmp -s "$state/new$path" "$path"; done <$state/paths
rm -rf $state
"""
