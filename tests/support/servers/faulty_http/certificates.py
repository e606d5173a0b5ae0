"""Certificates for TLS listeners, made with the openssl program when they are needed and kept in a folder of the run.

  good          for 127.0.0.1 and localhost, by the CA of `ca_file`
  expired       the same, until yesterday
  not_yet       the same, from tomorrow on
  wrong_name    by the same CA for another host
  self_signed   for the right host, by itself
  unknown_ca    for the right host, by a CA that nobody was told of
  old_tls       the good one, but the server speaks TLS 1.1 only, where this Python still can
"""
import datetime
import ssl
import subprocess
import warnings
from pathlib import Path

KINDS = ("good", "expired", "not_yet", "wrong_name", "self_signed", "unknown_ca", "old_tls")
RIGHT = "IP:127.0.0.1,DNS:localhost"
CONFIG = """
[req]
prompt = no
distinguished_name = name
[name]
CN = {name}
[ca]
default_ca = issuer
[issuer]
database = {name}.index
new_certs_dir = .
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
x509_extensions = {extensions}
[any]
commonName = supplied
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = {hosts}
"""


class Certificates:
    """A folder with one key for all servers and the certificates that were asked for."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.ca_file = self.folder / "authority.pem"
        self.make_authority("authority")

    def context(self, kind):
        """What a listener of this kind needs. Makes its certificate on the first call."""
        name = "good" if kind == "old_tls" else kind
        if not (self.folder / f"{name}.pem").exists():
            self.make(name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        if kind == "old_tls":
            if not ssl.HAS_TLSv1_1:
                raise RuntimeError("this Python has no TLS 1.1")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("DEFAULT:@SECLEVEL=0")  # its hashes are below what OpenSSL 3 allows otherwise
        return context

    def make(self, name):
        day = {"expired": -1, "not_yet": 3}.get(name, 2)
        begin = 1 if name == "not_yet" else -2
        hosts = "DNS:elsewhere.example" if name == "wrong_name" else RIGHT
        issuer = {"self_signed": None, "unknown_ca": "stranger"}.get(name, "authority")
        if issuer == "stranger":
            self.make_authority(issuer)
        self.make_key(name, "server", hosts)
        self.sign(name, issuer, begin, day)

    def make_authority(self, name):
        self.make_key(name, "authority", RIGHT)
        self.sign(name, None, -2, 30)

    def make_key(self, name, extensions, hosts):
        """The key and the request for a certificate, and the settings with which it is signed."""
        (self.folder / f"{name}.cnf").write_text(CONFIG.format(name=name, extensions=extensions, hosts=hosts))
        (self.folder / f"{name}.index").touch()
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-config", f"{name}.cnf", "-keyout", f"{name}.key", "-out", f"{name}.csr")

    def sign(self, name, issuer, first_day, last_day):
        by = ["-selfsign", "-keyfile", f"{name}.key"]
        if issuer:
            by = ["-cert", f"{issuer}.pem", "-keyfile", f"{issuer}.key"]
        self.openssl("ca", "-batch", "-notext", "-config", f"{name}.cnf", *by, "-in", f"{name}.csr",
                     "-startdate", day_text(first_day), "-enddate", day_text(last_day), "-out", f"{name}.pem")

    def openssl(self, *args):
        done = subprocess.run(["openssl", *args], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"openssl {args[0]} ended with {done.returncode}:\n{done.stderr}")


def day_text(days_from_now):
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days_from_now)
    return then.strftime("%Y%m%d%H%M%SZ")
