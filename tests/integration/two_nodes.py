"""Two nodes on one machine: network namespaces with a cable between them, and mounts of their own."""
import os
import subprocess
import time
from pathlib import Path

ADDRESSES = ["10.77.0.1", "10.77.0.2"]


def why_not():
    """What this machine does not allow of it; empty: nothing."""
    prefix = ["unshare", "-nm"] if os.geteuid() == 0 else ["unshare", "-Urnm"]
    tried = subprocess.run([*prefix, "sh", "-c", "mount --make-rprivate / && ip link add cable type veth peer name other"],
                           capture_output=True, text=True)
    return "" if tried.returncode == 0 else tried.stderr.strip() or "no namespaces"


class TwoNodes:
    """`command(node, argv, mounts)` runs on that node, where each (source, target) of `mounts` is seen at its target."""

    def __enter__(self):
        root = os.geteuid() == 0
        self.enter = ["nsenter"] if root else ["nsenter", "--preserve-credentials", "-U"]
        self.holders = [self._hold(["unshare", "-n"] if root else ["unshare", "-Urn"])]
        self.holders.append(self._hold([*self._inside(0), "unshare", "-n"]))
        second = self.holders[1].pid
        self._on(0, f"ip link add cable type veth peer name cable netns {second}")
        for node, address in enumerate(ADDRESSES):
            self._on(node, f"ip addr add {address}/24 dev cable && ip link set cable up && ip link set lo up")
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()

    def _hold(self, prefix):
        """A process that keeps a namespace of its own alive."""
        holder = subprocess.Popen([*prefix, "sleep", "7200"])
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 30
        while Path(f"/proc/{holder.pid}/comm").read_text() != "sleep\n":
            assert holder.poll() is None and time.monotonic() < deadline, f"{prefix} made no namespace"
            time.sleep(0.01)
        assert os.readlink(f"/proc/{holder.pid}/ns/net") != own
        return holder

    def _inside(self, node):
        return [*self.enter, "-t", str(self.holders[node].pid), "-n"]

    def _on(self, node, script):
        subprocess.run([*self._inside(node), "sh", "-c", script], check=True)

    def cut(self):
        """The cable is pulled out: what was sent is lost, and nobody is told."""
        self._on(0, "ip link set cable down")

    def mend(self):
        self._on(0, "ip link set cable up")

    def mute(self, node):
        """What it sends is lost on the way, what it is sent arrives: its neighbour's address is made a wrong one."""
        self._on(node, f"ip neigh replace {ADDRESSES[1 - node]} lladdr 02:00:00:00:00:99 dev cable nud permanent")

    def unmute(self, node):
        self._on(node, f"ip neigh del {ADDRESSES[1 - node]} dev cable")

    def command(self, node, argv, mounts=()):
        binds = " && ".join(["mount --make-rprivate /", *(f"mount --bind '{a}' '{b}'" for a, b in mounts)])
        return [*self._inside(node), "unshare", "-m", "sh", "-c", binds + ' && exec "$@"', "sh", *map(str, argv)]
