"""The server: listeners, a thread for each connection, the record of all requests."""
import itertools
import os
import select
import shutil
import socket
import tempfile
import threading
import time

from .action import require
from .certificates import KINDS, Certificates
from .connection import ClientGone, Connection, Stopped
from .exchange import Exchange, cut_connection
from .handlers import make_handlers
from .message import Answer, read_request
from .script import Script

PLAIN = "plain"


class FaultyServer:
    """Serves from `with` (or start) until its end (or stop), on loopback.

    rules, default, seed, handlers   the script, see script.py; `script` takes all of it as one dict
    listeners   {name: "plain" | kind of certificate}, or names that are kinds; names are for rules and `urls`
    port        of the first listener; 0 is any that is free
    keep_body_bytes   more of a request's body is not kept, only its length and hash
    receive_buffer_bytes   small, it lets a slow reader press back on the client early
    THREADS: all methods may be called from any.
    """

    def __init__(self, rules=(), default=None, seed=0, handlers=None, script=None, listeners=(PLAIN,), port=0,
                 keep_body_bytes=None, receive_buffer_bytes=None):
        given = {"rules": list(rules), "default": default, "seed": seed, "handlers": handlers or {}}
        self.listeners = dict(listeners) if isinstance(listeners, dict) else {name: name for name in listeners}
        require(self.listeners, "no listener")
        for kind in self.listeners.values():
            require(kind in (PLAIN, *KINDS), f"no kind of listener: {kind!r}")
        self.ports = dict.fromkeys(self.listeners, 0)
        self.ports[next(iter(self.listeners))] = port
        self.keep_body_bytes, self.receive_buffer_bytes = keep_body_bytes, receive_buffer_bytes
        self.handlers = {}
        self.set_script(given if script is None else script)
        self.log = []
        self.lock = threading.Lock()
        self.connection_numbers, self.request_numbers = itertools.count(1), itertools.count(1)
        self.connections, self.acceptors, self.threads = {}, [], []
        self.handler_errors = []
        self.folder, self.contexts, self.ca_file = None, {}, None
        self.stop_pipe = None

    def set_script(self, given):
        """Another script from the next request on; its counts begin anew."""
        unknown = set(given) - {"rules", "default", "seed", "handlers"}
        require(not unknown, f"a script has no {', '.join(sorted(unknown))}")
        script = Script(given.get("rules", ()), given.get("default"), given.get("seed", 0))
        handlers = make_handlers(given.get("handlers") or {})
        for action in [rule.action for rule in script.rules] + [script.default]:
            require(action.handler is None or action.handler in handlers, f"no handler {action.handler!r}")
        for rule in script.rules:
            require(rule.listener in (None, *self.listeners), f"no listener {rule.listener!r}")
        self.handlers, self.script = handlers, script

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        self.stop()
        if kind is None and self.handler_errors:
            raise RuntimeError("; ".join(self.handler_errors))

    def start(self):
        if any(kind != PLAIN for kind in self.listeners.values()) and not self.folder:
            self.folder = tempfile.mkdtemp(prefix="faulty_http.")
            try:
                certificates = Certificates(self.folder)
                self.contexts = {kind: certificates.context(kind) for kind in set(self.listeners.values()) - {PLAIN}}
            except BaseException:
                self.stop()
                raise
            self.ca_file = str(certificates.ca_file)
        self.up()
        return self

    def stop(self):
        self.down()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder, self.contexts, self.ca_file = None, {}, None

    def up(self):
        """Listens, after a `down` on the same ports as before."""
        self.stop_pipe = os.pipe()
        for name in self.listeners:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.receive_buffer_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
            sock.bind(("127.0.0.1", self.ports[name]))
            sock.listen(128)
            self.ports[name] = sock.getsockname()[1]
            self.acceptors.append(threading.Thread(target=self.accept, args=(sock, name), daemon=True))
            self.acceptors[-1].start()

    def down(self):
        """Ends all connections and refuses new ones, as a server that was killed."""
        if not self.stop_pipe:
            return
        os.close(self.stop_pipe[1])
        while self.acceptors:  # first, so that no connection comes after those that are woken here
            self.acceptors.pop().join()
        with self.lock:
            threads, self.threads = self.threads, []
            for connection in self.connections.values():
                connection.wake()
        for thread in threads:
            thread.join(5)
        os.close(self.stop_pipe[0])
        self.stop_pipe = None

    def accept(self, sock, name):
        waiting = select.poll()
        waiting.register(sock, select.POLLIN)
        waiting.register(self.stop_pipe[0], select.POLLIN)
        with sock:
            while self.stop_pipe[0] not in dict(waiting.poll()):
                accepted = sock.accept()[0]
                accepted.setblocking(True)
                connection = Connection(accepted, next(self.connection_numbers), name, self.stop_pipe[0])
                with self.lock:
                    self.connections[connection.number] = connection
                    self.threads = [one for one in self.threads if one.is_alive()]
                    self.threads.append(threading.Thread(target=self.serve, args=(connection,), daemon=True))
                    self.threads[-1].start()

    def serve(self, connection):
        try:
            cut = self.script.choose_for_connection(connection.number, connection.listener)
            if cut:
                cut_connection(connection, cut)
                return
            if self.listeners[connection.listener] != PLAIN:
                connection.start_tls(self.contexts[self.listeners[connection.listener]])
            count = 0
            while self.serve_request(connection, count := count + 1):
                pass
        except (ClientGone, Stopped):
            connection.close()
        finally:
            with self.lock:
                del self.connections[connection.number]

    def serve_request(self, connection, count):
        request = read_request(connection)
        if request is None:
            connection.finish()
            return False
        request.on_connection = count
        with self.lock:
            request.number = next(self.request_numbers)
            self.log.append(request)
        try:
            if request.outcome != "open":
                connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                connection.finish()
                return False
            action, groups = self.script.choose(request)
            return Exchange(self, connection, request, action, groups).run()
        finally:
            request.trim_body(self.keep_body_bytes)
            request.finished = time.monotonic()

    def handle(self, name, request):
        """The answer of a handler. One that breaks must not look like a fault that was asked for: the end of `with`
        raises what happened."""
        try:
            return self.handlers[name](request)
        except Exception as error:
            text = f"handler {name} failed at {request.method} {request.target}: {error!r}"
            self.handler_errors.append(text)
            return Answer(599, [("Content-Type", "text/plain")], f"{text}\n".encode())

    @property
    def urls(self):
        return {name: f"{'http' if kind == PLAIN else 'https'}://127.0.0.1:{self.ports[name]}"
                for name, kind in self.listeners.items()}

    @property
    def url(self):
        """Of the first listener."""
        return next(iter(self.urls.values()))

    @property
    def requests(self):
        """All requests so far, in the order of their heads; one that is still being read grows."""
        with self.lock:
            return list(self.log)

    @property
    def acted(self):
        """How often each rule acted, by its name."""
        return self.script.acted()

    def clear_log(self):
        with self.lock:
            self.log.clear()

    def wait_for(self, condition, seconds=5):
        """BLOCKS until `condition(self)` holds, and returns what it returned; for things that follow an answer."""
        end = time.monotonic() + seconds
        while not (value := condition(self)) and time.monotonic() < end:
            time.sleep(0.005)
        return value
