"""Other people's clients: find the program, or say loudly that it is missing."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from support import needs, servers
from support.tool import run_program

NODE_FOLDER = Path(__file__).parents[2] / "clients" / "node"


def require_program(name: str, kind: str = "redis7") -> str:
    """redis-cli or redis-benchmark: of the system, or of a Redis that tests/peers.sh built. The test ends without it."""
    if kind in servers.BUILT:
        built = servers.peers_folder() / f"redis-{servers.BUILT[kind]}" / name
        found = str(built) if built.exists() else None
    else:
        found = shutil.which(name)
    if found is None or needs.none_wanted():
        needs.leave_out(kind if kind in {*servers.BUILT, "exporter"} else "redis-cli")
    return found


def node_modules() -> Path:
    """The installed packages of `tests/clients/node/package.json`, in a cache folder of the user.

    A machine without node, npm or network can do without: the test is skipped, and the summary says so.
    """
    package = (NODE_FOLDER / "package.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rillet-tests"
    if needs.none_wanted():
        needs.leave_out("node")
    folder = cache / f"node-{hashlib.sha256(package).hexdigest()[:16]}"
    if not (folder / "node_modules").is_dir():
        if not (shutil.which("node") and shutil.which("npm")):
            needs.leave_out("node")
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=cache))
        (fresh / "package.json").write_bytes(package)
        words = "npm install --no-audit --no-fund --ignore-scripts --loglevel=error".split()
        done = run_program(*words, seconds=300, cwd=fresh)
        if done.returncode:
            shutil.rmtree(fresh)
            needs.leave_out("node", done.stderr[-500:])
        try:
            fresh.rename(folder)  # whole or not at all: another worker may have been quicker
        except OSError:
            shutil.rmtree(fresh)
    if not shutil.which("node"):
        needs.leave_out("node")
    return folder / "node_modules"


def run_node(name: str, *words: str | int):
    """Run a script of `tests/clients/node/` to its end."""
    modules = {"NODE_PATH": str(node_modules()), "RILLET_CHECK": str(NODE_FOLDER / "check.js")}
    return run_program("node", NODE_FOLDER / name, *words, seconds=300, env=os.environ | modules)
