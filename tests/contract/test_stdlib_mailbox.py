"""The standard library has a module `mailbox` too."""

import subprocess
import sys
import sysconfig


def test_import_mailbox_is_the_standard_librarys(tmp_path):
    """With fencepost installed, and outside the repository, `import mailbox` still finds the standard library's."""
    code = "import mailbox, fencepost.mailbox; print(mailbox.__file__); mailbox.Maildir"

    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert found.stdout.startswith(sysconfig.get_path("stdlib"))
