"""Nodes on one machine, each a network namespace with a cable of a chosen rate to a switch between them."""
import os
import subprocess
import time
from pathlib import Path


JUMBO = 9000             # bytes of a frame, as clusters have them: less work for the processor than 1500
LARGEST_PACKET = 66_000  # that TCP hands down


def why_not():
    """What this machine does not allow of it; empty: nothing."""
    prefix = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    script = ("ip link add switch type bridge && ip link add port0 type veth peer name cable && "
              "tc qdisc add dev cable root tbf rate 8mbit burst 16kb limit 1mb")
    try:
        tried = subprocess.run([*prefix, "sh", "-c", script], capture_output=True, text=True)
    except FileNotFoundError as error:
        return str(error)
    return "" if tried.returncode == 0 else tried.stderr.strip() or "no namespaces"


class ShapedNetwork:
    """OWNS `nodes` namespaces. What a node sends goes at the rate last set; what it receives, at its senders'."""

    def __init__(self, nodes):
        self.nodes = nodes

    def __enter__(self):
        root = os.geteuid() == 0
        self.enter = ["nsenter"] if root else ["nsenter", "--preserve-credentials", "-U"]
        self.switch = self._hold(["unshare", "-n"] if root else ["unshare", "-Urn"])
        self.holders = []
        self._run(self.switch, "ip link add switch type bridge && ip link set switch up")
        for node in range(self.nodes):
            holder = self._hold([*self._inside(self.switch), "unshare", "-n"])
            self.holders.append(holder)
            self._run(self.switch, f"ip link add port{node} type veth peer name cable netns {holder.pid} && "
                                   f"ip link set port{node} mtu {JUMBO} master switch up")
            self._run(holder, f"ip addr add {self.address(node)}/24 dev cable && ip link set cable mtu {JUMBO} up && "
                              "ip link set lo up")
        return self

    def __exit__(self, *_):
        for holder in [*self.holders, self.switch]:
            holder.kill()
            holder.wait()

    @staticmethod
    def address(node):
        return f"10.79.0.{node + 1}"

    def set_rate(self, bytes_per_s):
        """The bucket holds what 2 ms send (a timer's tick at most is lost), and one of the large packets that a kernel would
        otherwise cut up at a cost of its own; the queue holds more than TCP leaves in it."""
        burst = max(LARGEST_PACKET, int(bytes_per_s * 0.002))
        for holder in self.holders:
            self._run(holder, f"tc qdisc replace dev cable root tbf rate {int(bytes_per_s * 8)}bit burst {burst} limit 16mb")

    def set_sockets(self, most_bytes, segment_bytes):
        """What a connection may have under way: large ones fill a link's queue, and what others send waits behind it. And what it
        sends at once: a bucket of tokens that is smaller cuts it into packets, which cost more at low rates than at high ones."""
        for holder in self.holders:
            self._run(holder, f"echo 4096 16384 {most_bytes} > /proc/sys/net/ipv4/tcp_wmem && "
                              f"ip link set cable gso_max_size {segment_bytes}")

    def command(self, node, argv):
        return [*self._inside(self.holders[node]), *map(str, argv)]

    def _hold(self, prefix):
        """A process that keeps a namespace of its own alive."""
        own = os.readlink("/proc/self/ns/net")
        holder = subprocess.Popen([*prefix, "sleep", "7200"])
        deadline = time.monotonic() + 30
        while Path(f"/proc/{holder.pid}/comm").read_text() != "sleep\n":
            if holder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{prefix} made no namespace")
            time.sleep(0.01)
        if os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            raise RuntimeError(f"{prefix} made no network of its own")
        return holder

    def _inside(self, holder):
        return [*self.enter, "-t", str(holder.pid), "-n"]

    def _run(self, holder, script):
        subprocess.run([*self._inside(holder), "sh", "-c", script], check=True)
