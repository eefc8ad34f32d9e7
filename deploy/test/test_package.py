"""What a release consists of, as `deploy/package` made it: that it is whole, needs nothing of the machine, can be
read, installed, run and removed again. Installed, as root, into a view of this machine's files that goes with the
test.
"""

import os
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import unittest
from contextlib import ExitStack
from pathlib import Path

from node import Node

PACKAGES = Path(os.environ["PACKAGES"])
PROGRAMS = ("silverback", "silverctl")
ENDED_WITHIN_S = 30
SHELLS = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
# A view of all files of this machine in which whatever is written is kept apart, and the rest of the arguments run.
IN_A_VIEW = """
set -e
mount -t tmpfs tmpfs "$0"
mkdir "$0"/written "$0"/work "$0"/view
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/written,workdir=$0/work" "$0/view"
mount -t proc proc "$0/view/proc"
for tree in dev sys; do mount --rbind "/$tree" "$0/view/$tree"; done
mount --bind "$PACKAGES" "$0/view/mnt"
ip link set lo up
exec chroot "$0/view" "$@"
"""
INSTALL_RUN_REMOVE = """
set -eu
dpkg --install /mnt/silverback_*.deb
grep '^silverback:.*:/var/lib/silverback:/usr/sbin/nologin$' /etc/passwd
ls -l /etc/systemd/system/multi-user.target.wants/silverback.service
grep -x '/etc/silverback/node.yaml' /var/lib/dpkg/info/silverback.conffiles

# As the unit has it: its command, its user and the directory that systemd would make.
install --directory --owner=silverback --group=silverback --mode=0750 /var/lib/silverback
command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/silverback.service)
setpriv --reuid=silverback --regid=silverback --clear-groups $command >/tmp/log 2>&1 &
node=$!
trap 'status=$?; [ "$status" = 0 ] || cat /tmp/log; exit "$status"' EXIT
for _ in $(seq 300); do
    if silverctl shards >/dev/null 2>&1; then break; fi
    sleep 0.1
done
echo 'package_check 21.5' | silverctl write
silverctl query package_check --output csv | grep '21.5'
kill "$node"
wait "$node"

echo '# mine' >>/etc/silverback/node.yaml
dpkg --install /mnt/silverback_*.deb
tail -n 1 /etc/silverback/node.yaml | grep -x '# mine'
dpkg --remove silverback
test ! -e /usr/bin/silverback
test -e /etc/silverback/node.yaml
dpkg --purge silverback
test ! -e /etc/silverback/node.yaml
test ! -L /etc/systemd/system/multi-user.target.wants/silverback.service
test -d /var/lib/silverback/data
"""


def run(*command, **options):
    """Exit code, and all that was said."""
    ended = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        **options,
    )
    return ended.returncode, ended.stdout


def only(pattern):
    (found,) = PACKAGES.glob(pattern)
    return found


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cleanup = ExitStack()
        cls.directory = Path(cls.cleanup.enter_context(tempfile.TemporaryDirectory(prefix="silverback-package-")))
        with tarfile.open(only("*.tar.gz")) as tarball:
            cls.entries = tarball.getmembers()
        subprocess.run(["tar", "--extract", "--file", only("*.tar.gz"), "--directory", cls.directory], check=True)
        (cls.root,) = cls.directory.iterdir()

    @classmethod
    def tearDownClass(cls):
        cls.cleanup.close()

    def check(self, *command, **options):
        code, told = run(*command, **options)
        self.assertEqual(code, 0, told)
        return told

    def test_the_sums_are_those_of_the_files(self):
        told = self.check("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=PACKAGES)
        self.assertEqual(told.count(": OK\n"), len(list(PACKAGES.iterdir())) - 1)

    def test_all_is_named_by_the_node_s_version(self):
        version = self.check(self.root / "bin/silverback", "--version").split()[1]
        self.assertEqual(self.check(self.root / "bin/silverctl", "--version").split()[1], version)
        self.assertRegex(self.root.name, rf"^silverback-{re.escape(version)}-(x86_64|aarch64)-linux$")
        fields = self.check("dpkg-deb", "--field", only("*.deb"), "Package", "Version", "Architecture")
        named = re.fullmatch(r"Package: silverback\nVersion: (.+)\nArchitecture: (\w+)\n", fields)
        self.assertEqual(named[1], version)
        self.assertEqual(only("*.deb").name, f"silverback_{version}_{named[2]}.deb")

    def test_the_programs_need_no_library_of_the_machine(self):
        for program in PROGRAMS:
            _, told = run("ldd", self.root / "bin" / program)
            self.assertRegex(told, "statically linked|not a dynamic executable")
            read = self.check("readelf", "--wide", "--program-headers", "--dynamic", self.root / "bin" / program)
            self.assertNotRegex(read, r"INTERP|\(NEEDED\)")

    def test_what_is_packed_is_root_s_and_of_the_commit_s_time(self):
        self.assertEqual({(entry.uid, entry.gid, entry.uname) for entry in self.entries}, {(0, 0, "")})
        self.assertEqual(len({entry.mtime for entry in self.entries}), 1)
        self.assertEqual([entry.name for entry in self.entries if entry.mode & 0o022], [])
        listed = self.check("dpkg-deb", "--contents", only("*.deb"))
        self.assertEqual({line.split()[1] for line in listed.splitlines()}, {"root/root"})

    def test_it_says_what_it_is_made_of_and_under_which_licence(self):
        for name in ("LICENSE", "README.md", "docs/operations.md", "docs/plots/cache.svg", "sbom.cdx.json"):
            self.assertTrue((self.root / name).stat().st_size > 0)
        bill = (self.root / "sbom.cdx.json").read_text()
        for part in ('"glommio"', '"ratatui"', '"libc6-dev"'):
            self.assertIn(part, bill)

    def test_each_page_of_the_manual_can_be_set(self):
        pages = sorted((self.root / "share/man/man1").iterdir())
        self.assertLessEqual({"silverback.1", "silverctl.1", "silverctl-import.1"}, {page.name for page in pages})
        for page in pages:
            with self.subTest(page=page.name):
                # All that groff has to say of them, but for words that are longer than a line.
                told = self.check("groff", "-K", "utf8", "-man", "-ww", "-W", "break", "-T", "utf8", "-z", page)
                self.assertEqual(told, "")

    def test_each_shell_reads_its_completions(self):
        for shell, file in SHELLS.items():
            for program in PROGRAMS:
                script = self.root / "share" / file.format(program)
                self.assertIn(program, script.read_text())
                if shutil.which(shell):
                    self.check(shell, "-n", script)

    def test_bash_completes_commands(self):
        for program, begun, expected in (("silverback", "check-", "check-config"), ("silverctl", "imp", "import")):
            script = self.root / "share" / SHELLS["bash"].format(program)
            words = f"COMP_WORDS=({program} {begun}) COMP_CWORD=1"
            ask = f"source {script}; {words}; _{program} {program} {begun} {program}; echo ${{COMPREPLY[@]}}"
            self.assertEqual(self.check("bash", "--norc", "-c", ask).split(), [expected])

    def test_the_node_runs_from_where_it_was_unpacked(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        arguments = ["--config", "etc/silverback/node.yaml", "--listen", address, "--data-dir", self.directory / "data"]
        with (self.directory / "log").open("w") as log:
            process = subprocess.Popen(["bin/silverback", *arguments], cwd=self.root, stdout=log, stderr=log)
        try:
            node = Node(address)
            node.wait_ready(lambda: process.poll() is not None)
            self.assertEqual(node.write("package_check", 21.5)[0], 200)
            # By name, too: names are looked up by what is in the program.
            for host in (address, address.replace("127.0.0.1", "localhost")):
                asked = self.check(
                    self.root / "bin/silverctl", "--address", f"http://{host}", "query", "package_check", "--output", "csv"
                )
                self.assertIn("21.5", asked)
        finally:
            process.terminate()
            ended = process.wait(ENDED_WITHIN_S)
        self.assertEqual(ended, 0, (self.directory / "log").read_text())

    def test_the_debian_package_holds_the_same_programs(self):
        unpacked = self.directory.with_suffix(".deb")
        self.cleanup.callback(shutil.rmtree, unpacked)
        self.check("dpkg-deb", "--extract", only("*.deb"), unpacked)
        for program in PROGRAMS:
            self.assertEqual(
                (unpacked / "usr/bin" / program).read_bytes(), (self.root / "bin" / program).read_bytes()
            )

    @unittest.skipUnless(os.getuid() == 0, "it takes root")
    def test_it_is_installed_runs_by_its_unit_s_command_and_is_removed(self):
        view = self.directory.with_suffix(".view")
        view.mkdir()
        self.cleanup.callback(view.rmdir)
        self.check(
            *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"),
            *("bash", "-c", IN_A_VIEW, view, "bash", "-c", INSTALL_RUN_REMOVE),
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        )
