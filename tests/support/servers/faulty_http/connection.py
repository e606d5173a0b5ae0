"""One accepted connection: reading with a buffer, and the ways in which a connection can end."""
import select
import socket
import ssl
import struct
import time


class ClientGone(Exception):
    """The client closed or reset the connection before the exchange was over."""


class Stopped(Exception):
    """The server is going down; whatever waits gives up."""


class Connection:
    """THREADS: used by the thread that serves it; only `wake` may be called from another."""

    def __init__(self, sock, number, listener, stop_fd):
        self.sock, self.number, self.listener = sock, number, listener
        self.stop_fd = stop_fd
        self.buffer = bytearray()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # paced bytes leave one by one

    def start_tls(self, context):
        """BLOCKS until the handshake is over; a client that refuses the certificate counts as gone."""
        try:
            self.sock = context.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
            self.sock.do_handshake()  # apart, so that `wake` reaches the socket meanwhile
        except OSError as error:  # ssl.SSLError is one of them
            raise ClientGone(f"TLS handshake: {error}") from error

    def receive(self, limit=65536):
        """At least one and at most `limit` bytes, or none at the end of the stream."""
        if not self.buffer:
            try:
                self.buffer += self.sock.recv(65536)
            except (OSError, ValueError) as error:
                raise ClientGone(str(error)) from error
        taken = bytes(self.buffer[:limit])
        del self.buffer[:limit]
        return taken

    def receive_until(self, mark, limit):
        """Everything up to and with `mark`; what there is if the stream ends or `limit` is passed first."""
        seen = bytearray()
        while mark not in seen and len(seen) < limit:
            more = self.receive()
            if not more:
                return bytes(seen)
            seen += more
        end = seen.find(mark) + len(mark) if mark in seen else len(seen)
        self.buffer[:0] = seen[end:]
        return bytes(seen[:end])

    def send(self, data, pace=None):
        """With `pace` {"bytes", "delay_s"}: so many bytes at a time, with a pause after each piece."""
        pieces = [data]
        if pace:
            pieces = [data[at:at + pace["bytes"]] for at in range(0, len(data), pace["bytes"])]
        for piece in pieces:
            try:
                self.sock.sendall(piece)
            except (OSError, ValueError) as error:
                raise ClientGone(str(error)) from error
            if pace:
                self.pause(pace["delay_s"])

    def pause(self, seconds):
        """Waits; raises at once when the client hangs up or the server stops. `None` waits for ever."""
        if seconds == 0:
            return  # a client that has closed its own direction may still be waiting for the answer
        waiting = select.poll()
        waiting.register(self.stop_fd, select.POLLIN)  # a closed pipe reports POLLHUP
        # Hanging up is seen without reading, so an unread request body keeps pressing back on the client.
        waiting.register(self.sock, select.POLLRDHUP)
        ready = dict(waiting.poll(None if seconds is None else max(0, seconds) * 1000))
        if self.stop_fd in ready:
            raise Stopped
        if ready:
            raise ClientGone("hung up during a pause")

    def finish(self):
        """An orderly end, as real servers do it: what the client still sends is read for a moment and thrown away, for
        otherwise the kernel would answer it with a reset that overtakes the response."""
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.settimeout(0)
            try:
                self.sock.unwrap()  # sends close_notify and does not wait for the client's
            except (OSError, ValueError):
                pass
        try:  # below TLS, which is over
            socket.socket.shutdown(self.sock, socket.SHUT_WR)
            self.sock.settimeout(1)
            end = time.monotonic() + 2
            while time.monotonic() < end and socket.socket.recv(self.sock, 65536):
                pass
        except OSError:
            pass
        self.sock.close()

    def close(self):
        """Closes as a process that dies does: no TLS close_notify."""
        self.sock.close()

    def reset(self):
        """The client gets a TCP reset; bytes on the way may be lost."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def wake(self):
        """Ends every read and write that blocks. Not SSLSocket.shutdown, which takes the TLS state from its user."""
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass
