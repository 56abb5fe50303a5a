"""Sending one mail through ``SMTP_URL``. Source: WHK-090, WHK-213.

Belongs here: the connection, TLS, and whether a mail may have left. Not here: whom to write and what.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Final

import aiosmtplib

from app.core.mail_kinds import SmtpServer, smtp_server

TIMEOUT_SEC: Final = 15.0


class NotSent(Exception):
    """The mail has not left: trying again cannot make two of it."""


class MaybeSent(Exception):
    """The connection broke when the mail may already have been taken: trying again could make two of it."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One mail to one address; plain text."""

    to: str
    subject: str
    text: str


class Mailer:
    """Sends through one mail server, one connection a mail."""

    def __init__(self, url: str, sender: str) -> None:
        """``url``: SMTP_URL, which was checked at the start. ``sender``: SMTP_FROM."""
        self._server = smtp_server(url)
        self._sender = sender
        self._tls = ssl.create_default_context()
        """Made once: reading the system's certificates takes tens of milliseconds."""

    async def send(self, letter: Letter) -> None:
        """Return once the server has taken it. Raises NotSent or MaybeSent."""
        message = self._written(letter)
        client = _client(self._server, self._tls)
        try:
            await client.connect()
            if self._server.user:
                await client.login(self._server.user, self._server.password)
        except (aiosmtplib.SMTPException, OSError) as error:
            client.close()
            raise NotSent(type(error).__name__) from error
        try:
            await client.sendmail(self._sender, [letter.to], message, mail_options=[])
        except (aiosmtplib.SMTPResponseException, aiosmtplib.SMTPRecipientsRefused, UnicodeError) as error:
            raise NotSent(type(error).__name__) from error
        except (aiosmtplib.SMTPException, OSError) as error:
            raise MaybeSent(type(error).__name__) from error
        finally:
            client.close()

    def _written(self, letter: Letter) -> bytes:
        """The mail as it is sent. Raises NotSent for an address that no header can carry."""
        try:
            return self._message(letter).as_bytes()
        except Exception as error:  # the standard library's parser of addresses fails in ways of its own
            raise NotSent(type(error).__name__) from error

    def _message(self, letter: Letter) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self._sender, letter.to, letter.subject
        message["Date"] = formatdate()
        message["Message-ID"] = make_msgid(domain=self._sender.rpartition("@")[2])
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(letter.text, charset="utf-8", cte="base64")
        return message


def _client(server: SmtpServer, tls: ssl.SSLContext) -> aiosmtplib.SMTP:
    """STARTTLS is demanded unless the address says never; certificates are verified against the host."""
    return aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=server.is_tls,
        start_tls=None if server.is_tls else server.starttls,
        tls_context=tls,
        timeout=TIMEOUT_SEC,
    )
