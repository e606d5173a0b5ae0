"""A shaped network whose frames arrive later, for kernels without netem: a relay between the nodes holds them back."""
import collections
import ctypes
import fcntl
import os
import selectors
import struct
import subprocess
import sys
import time

from shaped_network import ShapedNetwork

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
MTU = 9000  # fewer frames: the relay is no part of what is measured, and shares its processors


class DelayedNetwork(ShapedNetwork):
    """Every frame is `delay_s` on its way, beside what its link takes."""

    def __init__(self, nodes, delay_s):
        super().__init__(nodes)
        self.delay_s = delay_s

    def __enter__(self):
        prefix = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
        self.enter = ["nsenter"] if os.geteuid() == 0 else ["nsenter", "--preserve-credentials", "-U"]
        self.switch = self._hold(prefix)
        self.holders = [self._hold([*self._inside(self.switch), "unshare", "-n"]) for _ in range(self.nodes)]
        pids = [str(holder.pid) for holder in self.holders]
        relay = [sys.executable, __file__, str(self.delay_s), *pids]
        user = [] if os.geteuid() == 0 else [*self.enter, "-t", str(self.switch.pid)]
        self.relay = subprocess.Popen([*user, *relay], stdout=subprocess.PIPE, text=True)
        if self.relay.stdout.readline() != "ready\n":
            raise RuntimeError("the relay did not start")
        for node, holder in enumerate(self.holders):
            self._run(holder, f"ip link set cable mtu {MTU} up && ip addr add {self.address(node)}/24 dev cable && ip link set lo up")
        return self

    def __exit__(self, *exception):
        self.relay.kill()
        self.relay.wait()
        super().__exit__(*exception)


def tap_of(pid):
    """The end of a cable of the process's network namespace."""
    with open(f"/proc/{pid}/ns/net") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", b"cable", IFF_TAP | IFF_NO_PI))
    return tap


def relay(delay_s, taps):
    """Frames leave in the order they came: all are held back equally long."""
    selector, known, waiting = selectors.DefaultSelector(), {}, collections.deque()
    for tap in taps:
        selector.register(tap, selectors.EVENT_READ)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for key, _ in selector.select(timeout):
            try:
                frame = os.read(key.fd, 65536)
            except (BlockingIOError, OSError):
                continue
            known[frame[6:12]] = key.fd
            waiting.append((time.monotonic() + delay_s, key.fd, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, source, frame = waiting.popleft()
            for target in [known[frame[:6]]] if frame[:6] in known else [tap for tap in taps if tap != source]:
                try:
                    os.write(target, frame)
                except (BlockingIOError, OSError):
                    pass  # lost, as on a cable


if __name__ == "__main__":
    cables = [tap_of(pid) for pid in sys.argv[2:]]
    print("ready", flush=True)
    relay(float(sys.argv[1]), cables)
