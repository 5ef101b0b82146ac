"""Sources for DKMS: modules that drive nothing, with the names and versions of the real ones."""

from __future__ import annotations

_CONF = """\
PACKAGE_NAME="{name}"
PACKAGE_VERSION="{version}"
BUILT_MODULE_NAME[0]="{module}"
DEST_MODULE_LOCATION[0]="/updates/dkms"
MAKE[0]="make -C ${{kernel_source_dir}} M=${{dkms_tree}}/{name}/{version}/build modules"
CLEAN="make -C ${{kernel_source_dir}} M=${{dkms_tree}}/{name}/{version}/build clean"
AUTOINSTALL="yes"
"""
_MODULE = """\
/* Stands in for {module}: it can be built, loaded and asked for its version. */
#include <linux/module.h>
{include}
static int __init start(void)
{{
\treturn 0;
}}

static void __exit stop(void)
{{
}}

module_init(start);
module_exit(stop);
MODULE_DESCRIPTION("{module} (simulated)");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("{version}");
"""


def source(name: str, module: str, version: str, *, against: str = "") -> dict[str, str]:
    """Files of /usr/src/<name>-<version>, by absolute path.

    against  a header of another package's source, `nvidia/nv-p2p.h`: without it, no build
    """
    folder, header = "/usr/src/%s-%s" % (name, version), against.rpartition("/")[2]
    kbuild = "obj-m := %s.o\n" % module
    if against:
        there = "$(dir $(lastword $(sort $(wildcard /usr/src/*/%s))))" % against
        kbuild += "ccflags-y := -I%s\n" % there
    include = '#include "%s"\n' % header if against else ""
    return {
        folder + "/dkms.conf": _CONF.format(name=name, module=module, version=version),
        folder + "/Kbuild": kbuild,
        folder + "/%s.c" % module: _MODULE.format(module=module, version=version, include=include),
    }


def installed(name: str, version: str) -> str:
    """postinst: builds for the kernels whose headers are there; nothing on a node without DKMS."""
    helper = "/usr/lib/dkms/common.postinst"
    return "[ ! -x %s ] || %s %s %s\n" % (helper, helper, name, version)


def removed(name: str, version: str) -> str:
    """prerm, before a removal or an upgrade."""
    forget = "dkms remove -m %s -v %s --all" % (name, version)
    return "! command -v dkms >/dev/null || %s >/dev/null 2>&1 || true\n" % forget
