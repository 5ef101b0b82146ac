"""How the reader learns what the next boot does: GRUB's menu, command lines, modules by kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.probe import reader
from tests.unit.probe.tree import Tree

ROOT = "root=UUID=1f2e ro"
HEADER = """\
set have_grubenv=true
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="%s"
fi
function load_video {
  if [ x$feature_all_video_module = xy ]; then
    insmod all_video
  fi
}
"""
MENU = f"""\
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1f2e' {{
\tload_video
\tif [ x$grub_platform = xxen ]; then insmod xzio; fi
\techo\t'Loading Linux 6.1.0-30-amd64 ...'
\tlinux\t/boot/vmlinuz-6.1.0-30-amd64 {ROOT} quiet iommu=pt
\tinitrd\t/boot/initrd.img-6.1.0-30-amd64
}}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1f2e' {{
\tmenuentry 'Debian, with Linux 6.1.0-30-amd64' --class debian $menuentry_id_option 'gnulinux-30' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-30-amd64 {ROOT} quiet iommu=pt
\t}}
\tmenuentry 'Debian, with Linux 6.1.0-30-amd64 (recovery mode)' $menuentry_id_option 'r30' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-30-amd64 {ROOT} single
\t}}
\tmenuentry "Debian, with Linux 6.1.0-18-amd64" $menuentry_id_option 'gnulinux-18' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-18-amd64 {ROOT} iommu=soft
\t}}
}}
menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {{
\tfwsetup
}}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.write("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-6.1.0-18-amd64 {ROOT} iommu=pt nosmt\n")
    return made


def menu(tree: Tree, default: str = "0", text: str = MENU, grubenv: str = "") -> None:
    tree.write("/boot/grub/grub.cfg", HEADER % default + text)
    tree.write("/boot/grub/grubenv", f"# GRUB Environment Block\n{grubenv}\n########")


class TestArgument:
    def test_running_and_next_boot_apart(self, tree: Tree) -> None:
        menu(tree)
        assert tree.data("kernel_argument", "iommu") == {
            "running": ["pt"],
            "persisted": ["pt"],
            "persisted_in": "/boot/grub/grub.cfg, entry 'Debian GNU/Linux'",
            "configured_in": [],
        }
        assert tree.data("kernel_argument", "nosmt")["running"] == [""]
        assert tree.data("kernel_argument", "nosmt")["persisted"] == []
        assert tree.data("kernel_argument", "quiet")["persisted"] == [""]

    def test_dash_and_underscore_are_the_same(self, tree: Tree) -> None:
        menu(tree, text=MENU.replace("iommu=pt", "amd-pstate=active"))
        assert tree.data("kernel_argument", "amd_pstate")["persisted"] == ["active"]

    def test_a_name_is_not_its_beginning(self, tree: Tree) -> None:
        menu(tree, text=MENU.replace("iommu=pt", "iommu.strict=1 intel_iommu=on"))
        assert tree.data("kernel_argument", "iommu")["persisted"] == []

    def test_what_is_set_and_not_in_the_menu(self, tree: Tree) -> None:
        menu(tree)
        tree.write("/etc/default/grub", 'GRUB_CMDLINE_LINUX="nosmt=force"\n# iommu=off\n')
        line = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT hugepages=16"\n'
        tree.write("/etc/default/grub.d/60-x.cfg", line)
        tree.write("/etc/default/grub.d/readme", 'GRUB_CMDLINE_LINUX="hugepages=1"\n')
        found = tree.data("kernel_argument", "hugepages")
        assert found["persisted"] == []
        assert found["configured_in"] == ["/etc/default/grub.d/60-x.cfg"]
        assert tree.data("kernel_argument", "nosmt")["configured_in"] == ["/etc/default/grub"]

    def test_no_grub_is_an_error(self, tree: Tree) -> None:
        assert "how this machine boots" in tree.error("kernel_argument", "iommu")

    def test_an_entry_that_starts_no_linux_is_an_error(self, tree: Tree) -> None:
        menu(tree, default="uefi-firmware")
        assert "starts no Linux" in tree.error("kernel_argument", "iommu")

    def test_an_empty_menu_is_an_error(self, tree: Tree) -> None:
        menu(tree, text="")
        assert "no entry" in tree.error("kernel_argument", "iommu")


OLD, RECOVERY = "vmlinuz-6.1.0-18-amd64", "single"


@pytest.mark.parametrize(
    ("default", "grubenv", "first"),
    [
        ("0", "", "quiet"),
        ("1>2", "", "iommu=soft"),
        ("1>1", "", RECOVERY),
        ("1", "", "quiet"),  # a submenu: its first entry
        ("gnulinux-advanced-1f2e>gnulinux-18", "", "iommu=soft"),
        ("Advanced options for Debian GNU/Linux>Debian, with Linux 6.1.0-18-amd64", "",
         "iommu=soft"),
        ("${saved_entry}", "saved_entry=gnulinux-advanced-1f2e>gnulinux-18", "iommu=soft"),
        ("${saved_entry}", "", "quiet"),
        ("0", "next_entry=1>2", "iommu=soft"),
        ("7", "", "quiet"),  # GRUB falls back on the first
        ("no such entry", "", "quiet"),
        ("1>9", "", "quiet"),
    ],
)  # fmt: skip
def test_which_entry_the_next_boot_takes(
    tree: Tree, default: str, grubenv: str, first: str
) -> None:
    menu(tree, default, grubenv=grubenv)
    name, _, value = first.partition("=")
    assert tree.data("kernel_argument", name)["persisted"] == [value]


class TestCommandLine:
    def test_quotes_hold_words_together(self) -> None:
        line = 'a="x y" "b=1 2" c dyndbg="file z +p" -- d=1'
        assert reader.command_line(line) == [
            ("a", "x y"), ("b", "1 2"), ("c", ""), ("dyndbg", "file z +p"),
        ]  # fmt: skip

    def test_a_value_may_hold_an_equals_sign(self) -> None:
        assert reader.command_line("root=UUID=1-2") == [("root", "UUID=1-2")]

    @given(st.text(max_size=200))
    def test_anything_is_read_without_a_word_lost(self, text: str) -> None:
        found = reader.command_line(text)
        assert all(" " not in name for name, _ in found if '"' not in text)
        if '"' not in text and "--" not in text.split():
            assert len(found) == len(text.split())

    @given(
        st.lists(
            st.tuples(
                st.from_regex(r"[a-z_.]{1,8}", fullmatch=True),
                st.from_regex(r"[a-z0-9,:/]{0,8}", fullmatch=True),
            ),
            max_size=8,
        )
    )
    def test_what_is_written_is_what_is_read(self, words: list[tuple[str, str]]) -> None:
        text = " ".join(f"{name}={value}" if value else name for name, value in words)
        assert reader.command_line(text) == words


TITLES = st.text(st.characters(codec="ascii", exclude_characters="'\\\n\r\x0b\x0c\x1c\x1d\x1e"))


@given(st.lists(st.tuples(TITLES, st.booleans()), min_size=1, max_size=6), st.data())
def test_every_entry_of_a_made_menu_is_found(
    titles: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """Entries with any title, some within submenus: by its place each is found again."""
    text, places = "", []
    for number, (title, nested) in enumerate(titles):
        entry = f"menuentry '{title}' --class x {{\n\tlinux /boot/vmlinuz-{number} n={number}\n}}\n"
        text += f"submenu 'more' {{\n{entry}}}\n" if nested else entry
        places.append(f"{number}>0" if nested else f"{number}")
    entries = reader.grub_menu(text)
    number = data.draw(st.integers(0, len(titles) - 1))
    found = reader.grub_entry(entries, places[number])
    assert (found["title"], found["linux"]) == (
        titles[number][0],
        f"/boot/vmlinuz-{number} n={number}",
    )


@given(st.text(st.sampled_from("{}\n'\" \tmenuentry submenu linux x1>$"), max_size=300), st.text())
def test_garbage_never_breaks_the_parser(text: str, default: str) -> None:
    entries = reader.grub_menu(text)
    reader.grub_default(text, {})
    try:
        reader.grub_entry(entries, default)
    except reader.Failed:
        assert not entries


class TestBuilt:
    def kernel(self, tree: Tree, release: str, *modules: str, builtin: str = "") -> None:
        tree.write(f"/boot/vmlinuz-{release}", "")
        index = "".join(f"{path}: kernel/a.ko kernel/b.ko\n" for path in modules)
        tree.write(f"/lib/modules/{release}/modules.dep", index)
        tree.write(f"/lib/modules/{release}/modules.builtin", builtin)

    def read(self, tree: Tree, name: str = "nvidia") -> dict[str, Any]:
        tree.write("/proc/modules", "")
        tree.write("/proc/sys/kernel/osrelease", "6.1\n")
        return tree.data("module", name, built=True)

    def test_of_every_kernel(self, tree: Tree) -> None:
        self.kernel(tree, "6.1", "kernel/net/x.ko", "updates/dkms/nvidia.ko")
        self.kernel(tree, "6.2", "updates/dkms/nvidia-uvm.ko.xz", "kernel/x/nvidia2.ko")
        found = self.read(tree)
        assert (found["running"], found["kernels"]) == ("6.1", {"6.1": True, "6.2": False})
        assert self.read(tree, "nvidia_uvm")["kernels"] == {"6.1": False, "6.2": True}

    def test_its_file_may_have_another_name(self, tree: Tree) -> None:
        self.kernel(tree, "6.1", "updates/dkms/nvidia-current.ko")
        tree.write("/proc/modules", "nvidia 1 0 - Live 0x0 (POE)\n")
        tree.write("/proc/sys/kernel/osrelease", "6.1\n")
        found = tree.data("module", "nvidia", built=True, file="nvidia-current")
        assert (found["loaded"], found["kernels"]) == (True, {"6.1": True})
        assert tree.data("module", "nvidia", built=True)["kernels"] == {"6.1": False}

    def test_built_into_a_kernel_counts(self, tree: Tree) -> None:
        self.kernel(tree, "6.1", builtin="kernel/drivers/nvidia.ko\n")
        assert self.read(tree)["kernels"] == {"6.1": True}

    def test_a_dependency_is_not_a_module_that_is_there(self, tree: Tree) -> None:
        self.kernel(tree, "6.1", "kernel/x.ko")
        assert self.read(tree, "a")["kernels"] == {"6.1": False}

    def test_a_kernel_without_a_folder_has_no_modules(self, tree: Tree) -> None:
        self.kernel(tree, "6.1", "updates/dkms/nvidia.ko")
        tree.write("/boot/vmlinuz-6.2", "")
        assert self.read(tree)["kernels"] == {"6.1": True, "6.2": False}

    def test_the_running_kernel_counts_without_its_image(self, tree: Tree) -> None:
        tree.write("/lib/modules/6.1/modules.dep", "updates/dkms/nvidia.ko:\n")
        assert self.read(tree)["kernels"] == {"6.1": True}

    def test_no_kernel_at_all(self, tree: Tree) -> None:
        assert self.read(tree)["kernels"] == {}

    def test_it_is_not_read_where_it_is_not_asked_for(self, tree: Tree) -> None:
        tree.write("/proc/modules", "")
        assert "kernels" not in tree.data("module", "nvidia")
