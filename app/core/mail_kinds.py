"""Variables about mail: the server's address, addresses of people. Source: WHK-194, WHK-195, WHK-213, VIS-178."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from app.core.secret import Secret
from app.core.settings_kinds import BadValue, split_url

MAX_ADDRESS_CHARS: Final = 254
_FORBIDDEN: Final = frozenset(",;<>\x7f")
_SMTP_PORTS: Final = {"smtp": 587, "smtps": 465}


def is_email_address(text: str) -> bool:
    """Tell whether ``text`` is one address that may stand in an SMTP command and a header as it is.

    At most 254 characters, an ``@`` with something on both sides, no control character, blank, comma, semicolon or
    angle bracket: nothing that could add a second recipient or a header.
    """
    local, _, domain = text.rpartition("@")
    if not local or not domain or len(text) > MAX_ADDRESS_CHARS:
        return False
    return text.isprintable() and not any(char in _FORBIDDEN or char.isspace() for char in text)


class SmtpServer(NamedTuple):
    """What SMTP_URL says. ``starttls``: it is demanded; False only for a relay of one's own (WHK-213)."""

    host: str
    port: int
    is_tls: bool
    starttls: bool
    user: str
    password: str


def smtp_server(text: str) -> SmtpServer:
    """The parts of an SMTP_URL. Raises BadValue, whose words hold nothing of the text."""
    parts = split_url(text)
    if parts is None or parts.scheme not in _SMTP_PORTS or not parts.hostname or parts.path not in ("", "/"):
        raise BadValue("is not smtp://host, smtp://user:password@host:port or smtps:// of either")
    port = parts.port or _SMTP_PORTS[parts.scheme]
    if parts.query not in ("", "starttls=never"):
        raise BadValue("may have ?starttls=never after it and nothing else")
    if parts.query and (parts.scheme != "smtp" or not _is_near(parts.hostname)):
        raise BadValue("has ?starttls=never, which is for smtp:// to a loopback or private address only")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return SmtpServer(parts.hostname, port, parts.scheme == "smtps", not parts.query, user, password)


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class SmtpUrl:
    """Address of a mail server; a secret, since it carries a password (WHK-194)."""

    def parse(self, text: str) -> Secret:
        """The address as it was set."""
        smtp_server(text)
        return Secret(text)

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "address (secret)", "smtp:// (STARTTLS demanded; ?starttls=never to a private relay), smtps://"


@dataclass(frozen=True, slots=True)
class EmailAddress:
    """One e-mail address (WHK-195)."""

    def parse(self, text: str) -> str:
        """The address as it was set."""
        if not is_email_address(text):
            raise BadValue("is not one e-mail address")
        return text

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "e-mail address", "one address"
