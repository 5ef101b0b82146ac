"""A source like those that sites build: configure, make, make install; small, and real C.

What it builds is a program of a name that says what it was told to say at configure time, so that a
lab can stand in for any tool whose build is exercised.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

from .deb import EPOCH

if TYPE_CHECKING:
    from pathlib import Path

NAME = "labtool-1.0"
_CONFIGURE = """\
#!/bin/sh
# ./configure --prefix=/opt/x --program=name --says=line ...
set -e
prefix=/usr/local program=labtool
: > says.h
for arg; do
    case "$arg" in
        --prefix=*) prefix=${arg#*=} ;;
        --program=*) program=${arg#*=} ;;
        --says=*) printf 'puts("%s");\\n' "${arg#*=}" >> says.h ;;
        *) echo "configure: error: unrecognized option: $arg" >&2; exit 1 ;;
    esac
done
printf 'checking whether the C compiler works... '
printf 'int main(void) { return 0; }\\n' > conftest.c
cc -o conftest conftest.c && ./conftest && echo yes
rm -f conftest conftest.c
sed -e "s|@prefix@|$prefix|" -e "s|@program@|$program|" Makefile.in > Makefile
echo "config.status: creating Makefile"
"""
_MAKEFILE = """\
prefix = @prefix@
program = @program@

all: $(program)

$(program): labtool.c says.h
\tcc -O2 -Wall -o $@ labtool.c

install: all
\tinstall -D $(program) $(DESTDIR)$(prefix)/bin/$(program)
"""
_PROGRAM = """\
#include <stdio.h>

int main(void) {
#include "says.h"
    return 0;
}
"""
_FILES = {"configure": _CONFIGURE, "Makefile.in": _MAKEFILE, "labtool.c": _PROGRAM}


def write(out_dir: Path) -> Path:
    """`labtool-1.0.tar.gz` in `out_dir`; the same bytes each time, with one zlib."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in _FILES.items():
            entry = tarfile.TarInfo("%s/%s" % (NAME, name))
            entry.mode = 0o755 if name == "configure" else 0o644
            entry.mtime = EPOCH
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    target = out_dir / (NAME + ".tar.gz")
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return target
