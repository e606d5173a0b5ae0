"""The endpoints from which programs in a cloud get temporary keys: EC2 instance metadata (version 2), the ECS container
endpoint, STS AssumeRoleWithWebIdentity. All of them share these settings:

  lifetime_s   until the keys expire; negative: they are expired when handed out
  renew        new keys each time (True), or the same ones with a new expiry
  refuse       which requests for keys get a 403, written like nth of a rule; "1" is "403 once"
  keys         list of {"access_key", "secret_key", "token"} to hand out in turn, the last one from then on, for servers
               that check them; otherwise made up, recognisable and different for every handler
"""
import itertools
import json
import threading
import time
from pathlib import Path
from xml.sax.saxutils import escape

from .message import Answer
from .script import selects

JSON = [("Content-Type", "application/json")]
MOST_TOKEN_SECONDS = 21600


def timestamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Issuer:
    """THREADS: any. `issued` lists all keys that were handed out, in order."""
    serial = itertools.count(1)

    def __init__(self, lifetime_s=3600, renew=True, refuse=None, keys=()):
        self.lifetime_s, self.renew, self.refuse, self.keys = lifetime_s, renew, refuse, list(keys)
        self.issued = []
        self.asked = 0
        self.lock = threading.Lock()
        self.place = next(Issuer.serial)
        self.mark = f"{type(self).__name__}{self.place}"

    def refused(self):
        """Counts one more request for keys; whether it is one to refuse."""
        with self.lock:
            self.asked += 1
            return self.refuse is not None and selects(self.refuse, self.asked)

    def issue(self):
        with self.lock:
            number = len(self.issued) + 1 if self.renew else 1
            if self.keys:
                keys = dict(self.keys[min(number, len(self.keys)) - 1])
            else:
                keys = {"access_key": f"ASIA{self.place:08d}{number:08d}",
                        "secret_key": f"secret/{self.mark}+{number}", "token": f"token/{self.mark}+{number}=="}
            keys["expires"] = time.time() + self.lifetime_s
            self.issued.append(keys)
            return keys


def key_document(keys, **more):
    return json.dumps({"AccessKeyId": keys["access_key"], "SecretAccessKey": keys["secret_key"],
                       "Token": keys.get("token", ""), "Expiration": timestamp(keys["expires"]), **more}).encode()


class InstanceMetadata(Issuer):
    """Version 2 only: a PUT gives a token for some seconds, every GET without a living token is answered 401."""
    KEYS = "/latest/meta-data/iam/security-credentials/"

    def __init__(self, role="test-role", region="us-east-1", **settings):
        super().__init__(**settings)
        self.role, self.region = role, region
        self.tokens = {}  # text -> when it dies

    def __call__(self, request):
        if request.path == "/latest/api/token":
            return self.make_token(request)
        dies = self.tokens.get(request.header("X-aws-ec2-metadata-token"))
        if dies is None or dies < time.monotonic():
            return Answer(401, [("Content-Type", "text/html")], b"Unauthorized\n")
        if request.method != "GET":
            return Answer(405)
        return self.document(request.path)

    def make_token(self, request):
        ttl = request.header("X-aws-ec2-metadata-token-ttl-seconds", "")
        if request.method != "PUT":
            return Answer(405)
        if request.header("X-Forwarded-For") is not None:
            return Answer(403)  # an open proxy must not get at the keys
        if not ttl.isdigit() or not 1 <= int(ttl) <= MOST_TOKEN_SECONDS:
            return Answer(400)
        with self.lock:
            token = f"metadata-{self.mark}-{len(self.tokens) + 1}=="
            self.tokens[token] = time.monotonic() + int(ttl)
        headers = [("Content-Type", "text/plain"), ("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", ttl)]
        return Answer(200, headers, token.encode())

    def drop_tokens(self):
        """As if the instance had been moved: every token is unknown from now on."""
        self.tokens.clear()

    def document(self, path):
        plain = [("Content-Type", "text/plain")]
        if path.rstrip("/") == self.KEYS.rstrip("/"):
            return Answer(200, plain, self.role.encode())
        if path == self.KEYS + self.role:
            if self.refused():
                return Answer(403)
            more = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": timestamp(time.time())}
            return Answer(200, plain, key_document(self.issue(), **more))
        if path == "/latest/meta-data/placement/region":
            return Answer(200, plain, self.region.encode())
        return Answer(404)


class ContainerCredentials(Issuer):
    """One GET, for any path that a rule sends here, be it a relative or a full URI. With `authorization` the header of
    that name must be this text, with `authorization_file` the present content of a file."""

    def __init__(self, authorization=None, authorization_file=None, **settings):
        super().__init__(**settings)
        self.authorization, self.authorization_file = authorization, authorization_file

    def __call__(self, request):
        if request.method != "GET":
            return self.error(405, "MethodNotAllowed")
        wanted = self.authorization
        if self.authorization_file:
            wanted = Path(self.authorization_file).read_text().strip()
        if wanted is not None and request.header("Authorization") != wanted:
            return self.error(401, "AccessDenied")
        if self.refused():
            return self.error(403, "AccessDenied")
        return Answer(200, list(JSON), key_document(self.issue(), RoleArn="arn:aws:iam::000000000000:role/test-role"))

    @staticmethod
    def error(status, code):
        return Answer(status, list(JSON), json.dumps({"code": code, "message": code}).encode())


class WebIdentity(Issuer):
    """STS AssumeRoleWithWebIdentity. With `identity_file` the client must send the present content of that file."""

    def __init__(self, identity_file=None, role_arn=None, **settings):
        super().__init__(**settings)
        self.identity_file, self.role_arn = identity_file, role_arn

    def __call__(self, request):
        given = request.parameters()
        if given.get("Action") != "AssumeRoleWithWebIdentity" or given.get("Version") != "2011-06-15":
            return self.error(400, "InvalidAction", "only AssumeRoleWithWebIdentity of 2011-06-15")
        missing = [name for name in ("RoleArn", "RoleSessionName", "WebIdentityToken") if not given.get(name)]
        if missing:
            return self.error(400, "MissingParameter", ", ".join(missing))
        if self.identity_file and given["WebIdentityToken"] != Path(self.identity_file).read_text().strip():
            return self.error(400, "InvalidIdentityToken", "not the token of the file")
        if self.refused() or self.role_arn not in (None, given["RoleArn"]):
            return self.error(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
        keys = self.issue()
        body = f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>test-subject</SubjectFromWebIdentityToken>
    <AssumedRoleUser>
      <Arn>{escape(given["RoleArn"])}/{escape(given["RoleSessionName"])}</Arn>
      <AssumedRoleId>AROATEST:{escape(given["RoleSessionName"])}</AssumedRoleId>
    </AssumedRoleUser>
    <Credentials>
      <AccessKeyId>{escape(keys["access_key"])}</AccessKeyId>
      <SecretAccessKey>{escape(keys["secret_key"])}</SecretAccessKey>
      <SessionToken>{escape(keys.get("token", ""))}</SessionToken>
      <Expiration>{timestamp(keys["expires"])}</Expiration>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata><RequestId>00000000-0000-0000-0000-{len(self.issued):012d}</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>
"""
        return Answer(200, [("Content-Type", "text/xml")], body.encode())

    @staticmethod
    def error(status, code, message):
        kind = "Sender" if status < 500 else "Receiver"
        body = f"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <Error><Type>{kind}</Type><Code>{code}</Code><Message>{escape(message)}</Message></Error>
  <RequestId>00000000-0000-0000-0000-000000000000</RequestId>
</ErrorResponse>
"""
        return Answer(status, [("Content-Type", "text/xml")], body.encode())
