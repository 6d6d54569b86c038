"""A PostgreSQL server of the test's own, where its programs are installed."""

import os
import shutil
import subprocess
import time
from pathlib import Path

DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def program(name):
    """Return the path of one of PostgreSQL's programs; None where it is not installed."""
    return shutil.which(name) or next((str(b / name) for b in DEBIAN if (b / name).exists()), None)


def why_not():
    """Say why no server can be started here; "" where one can."""
    if program("initdb") is None or program("postgres") is None:
        return "PostgreSQL is not installed; on Debian: apt-get install postgresql"
    if os.name != "posix":
        return "the server is reached through a socket of the file system"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and there is no setpriv to run it as another user"
    return ""


class Server:
    """A server in a folder, reached through a socket in it, with a user that needs a password."""

    def __init__(self, folder):
        self.folder = folder
        self.as_other = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        if self.as_other:
            os.chown(folder, 65534, -1)
            for above in [folder, *folder.parents][:3]:
                above.chmod(above.stat().st_mode | 0o011)
        self.url = f"postgresql+psycopg://me@/postgres?host={folder}"
        self.process = None
        options = ["-U", "me", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run(program("initdb"), "-D", str(folder / "db"), *options)
        settings = ["-c", "listen_addresses=", "-c", "fsync=off"]
        self.process = subprocess.Popen(
            [*self.as_other, program("postgres"), "-D", str(folder / "db"), "-k", str(folder), *settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while not (folder / ".s.PGSQL.5432").exists():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("PostgreSQL did not start")
            time.sleep(0.05)

    def _run(self, *command):
        environment = os.environ | {"HOME": str(self.folder), "LC_ALL": "C"}
        subprocess.run([*self.as_other, *command], check=True, capture_output=True, env=environment, cwd="/")

    def close(self):
        self.process.terminate()
        self.process.wait(30)
