"""Which rule acts on a request. A script is {"seed": 0, "rules": [...], "default": ACTION, "handlers": {...}}.

A rule is a dict of these keys, all but `action` optional; the first rule that applies acts:
  name            shown in the log and in FaultyServer.acted; otherwise "rule 1", "rule 2", ...
  listener        name of a listener
  method          one, or several joined by "|"
  path, query     regular expressions, searched in the part before and after the "?", neither of them decoded
  header          {name: regular expression}; an expression of null wants the header to be absent
  nth             3, "3+", "1-3", "2,5-7": which of the requests that match all of the above and that no rule before
                  took. Fail the first k and then succeed: nth "1-k", followed by a rule or default that succeeds.
  count_by        "all", or "target": each method and target has a count of its own, so that nth 1 is every first try
  on_connection   the same forms: the how-manieth request of its connection
  connection      the same forms: the number of the connection; with a cut at "accept" this and `listener` are all that
                  can be known, and nth counts connections
  rate            of those that apply, so large a part, chosen by seed, rule and count: the same in every run
  action          see action.py
"""
import random
import re
import threading
from dataclasses import dataclass, field

from .action import Action, ScriptError, made, require

EVERY = "1+"
NOT_PREPARED = {"status": 404, "body": "no rule for ${method} ${target}\n", "headers": {"Content-Type": "text/plain"}}


def selects(spec, number):
    """Whether `number` is among those that a spec like 3, "3+", "1-3" or "2,5-7" names."""
    for part in str(spec).split(","):
        found = re.fullmatch(r"\s*([0-9]+)(\+|-([0-9]+))?\s*", part)
        require(found, f"no count: {spec!r}")
        first = int(found[1])
        last = int(found[3]) if found[3] else float("inf") if found[2] else first
        if first <= number <= last:
            return True
    return False


@dataclass
class Rule:
    action: Action
    name: str = ""
    listener: str | None = None
    method: str | None = None
    path: str | None = None
    query: str | None = None
    header: dict = field(default_factory=dict)
    nth: int | str = EVERY
    count_by: str = "all"
    on_connection: int | str = EVERY
    connection: int | str = EVERY
    rate: float = 1

    def __post_init__(self):
        self.action = made(Action, self.action)
        self.at_accept = self.action.cut is not None and self.action.cut.place == "accept"
        self.counts = {}
        self.acted = 0
        require(self.count_by in ("all", "target"), f"no way to count: {self.count_by!r}")
        for spec in (self.nth, self.on_connection, self.connection):
            for number in (0, 1 << 62):  # reads every part of the spec
                selects(spec, number)
        for pattern in (self.path, self.query, *self.header.values()):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ScriptError(f"pattern {pattern!r}: {error}") from error
        about_requests = self.method or self.path or self.query or self.header or self.on_connection != EVERY
        require(not (self.at_accept and about_requests), "a cut at accept comes before there is a request")

    def groups(self, request):
        """The groups of the path pattern as template variables, or None where the rule is not about this request."""
        if self.listener not in (None, request.listener) or not selects(self.connection, request.connection):
            return None
        if self.method and request.method not in self.method.split("|"):
            return None
        if not selects(self.on_connection, request.on_connection):
            return None
        if self.query is not None and not re.search(self.query, request.query):
            return None
        for name, pattern in self.header.items():
            value = request.header(name)
            if (value is None) != (pattern is None) or (value is not None and not re.search(pattern, value)):
                return None
        found = re.search(self.path or "", request.path)
        if not found:
            return None
        numbered = {f"g{at}": text for at, text in enumerate(found.groups(), 1)}
        return {name: text or "" for name, text in {**numbered, **found.groupdict()}.items()}

    def applies(self, key, seed, place):
        """Counts one more match and tells its number where the rule is to act, else None."""
        count = self.counts[key] = self.counts.get(key, 0) + 1
        if not selects(self.nth, count):
            return None
        # Not one generator for all: clients that race would otherwise get each other's luck.
        if self.rate < 1 and random.Random(f"{seed}/{place}/{key}/{count}").random() >= self.rate:
            return None
        self.acted += 1
        return count


class Script:
    """THREADS: choose and choose_for_connection may be called from any."""

    def __init__(self, rules=(), default=None, seed=0):
        self.seed = seed
        self.default = made(Action, NOT_PREPARED if default is None else default)
        self.rules = [made(Rule, rule) for rule in rules]
        self.lock = threading.Lock()
        for at, rule in enumerate(self.rules, 1):
            rule.name = rule.name or f"rule {at}"

    def choose(self, request):
        """The action for a request and the groups of the path; the rule is noted in the request."""
        with self.lock:
            for place, rule in enumerate(self.rules):
                groups = None if rule.at_accept else rule.groups(request)
                if groups is None:
                    continue
                key = f"{request.method} {request.target}" if rule.count_by == "target" else ""
                count = rule.applies(key, self.seed, place)
                if count is not None:
                    request.rule, request.nth = rule.name, count
                    return rule.action, groups
        return self.default, {}

    def choose_for_connection(self, number, listener):
        """The cut for a connection that was just accepted, or None."""
        with self.lock:
            for place, rule in enumerate(self.rules):
                known = rule.listener in (None, listener) and selects(rule.connection, number)
                if rule.at_accept and known and rule.applies("", self.seed, place) is not None:
                    return rule.action.cut
        return None

    def acted(self):
        """How often each rule acted; a test whose fault did not happen has shown nothing."""
        with self.lock:
            return {rule.name: rule.acted for rule in self.rules}
