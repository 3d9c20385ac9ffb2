"""Certificates made by the test itself: an authority, and leaves that it signs."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> Written:
        """`NAME.crt` and `NAME.key`, each replaced at once, key first."""
        written = Written(folder / f"{name}.crt", folder / f"{name}.key")
        replace(written.key, self.key)
        replace(written.certificate, self.certificate)
        return written

    @property
    def serial(self) -> int:
        return x509.load_pem_x509_certificate(self.certificate).serial_number


@dataclass(frozen=True)
class Written:
    """Where a pair lies."""

    certificate: Path
    key: Path


def replace(path: Path, content: bytes) -> None:
    """Write as certificate managers do: beside, then renamed over."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content)
    beside.replace(path)


@dataclass
class Authority:
    """A certificate authority of its own."""

    name: str = "tests"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.BasicConstraints(ca=True, path_length=None), True)]
        self.certificate = self._signed(self._subject(f"authority {self.name}"), self.key, extensions, lasts=DAY)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, path: Path) -> Path:
        replace(path, self.pem)
        return path

    def leaf(self, *names: str, lasts: dt.timedelta = DAY) -> Pair:
        """A pair for these DNS names and IPs; one that `lasts` less than nothing has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.SubjectAlternativeName([_general(name) for name in names]), False),
            (x509.ExtendedKeyUsage(usages), False),
        ]
        certificate = self._signed(self._subject(names[0]), key, extensions, lasts)
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return Pair(pem, private(key))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
        lasts: dt.timedelta,
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject(f"authority {self.name}"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + lasts)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, hashes.SHA256())

    @staticmethod
    def _subject(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
