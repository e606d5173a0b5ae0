"""An HTTP/1.1 server that fails on request: for faults that a real server cannot be made to show.

    with FaultyServer(rules=[
            {"method": "PUT", "path": "^/bucket/", "nth": "1-2", "action": {"status": 503, "retry_after": 1}},
            {"path": "^/bucket/", "action": {"handler": "echo", "cut": {"at": "body:10", "how": "reset"}}},
    ]) as server:
        ...  # server.url, server.requests, server.acted

    python tests/support/servers/faulty_http --port 0 --script FILE.json   # one JSON line when ready

script.py says how rules are matched, action.py what an action can do, handlers.py and credentials.py which ready-made
answers there are, certificates.py which TLS listeners, admin.py what the separate admin port of the program offers.
"""
from .action import Action, ScriptError
from .certificates import KINDS as TLS_KINDS
from .credentials import ContainerCredentials, InstanceMetadata, WebIdentity
from .handlers import Echo, Proxy, StaticFiles
from .message import Answer, Request
from .server import FaultyServer

__all__ = ["Action", "Answer", "ContainerCredentials", "Echo", "FaultyServer", "InstanceMetadata", "Proxy", "Request",
           "ScriptError", "StaticFiles", "TLS_KINDS", "WebIdentity"]
