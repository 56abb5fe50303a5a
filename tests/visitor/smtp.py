"""A mail server of one's own: takes or refuses mails over real SMTP, and keeps what it took."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class Taken:
    """One mail as it came."""

    sender: str
    to: list[str]
    message: EmailMessage


@dataclass
class MailServer:
    """``async with MailServer() as server:``. ``refuses``: how many of the next mails are refused after DATA;
    ``hangs_up``: the connection is cut after the mail was read, without an answer; ``offers_tls``: it says STARTTLS."""

    refuses: int = 0
    hangs_up: bool = False
    taken: list[Taken] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    async def __aenter__(self) -> MailServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        sender, to = "", []
        writer.write(b"220 mail.test ready\r\n")
        try:
            while line := (await reader.readline()).decode().rstrip("\r\n"):
                verb = line[:4].upper()
                if verb == "EHLO":
                    writer.write(b"250-mail.test\r\n250 SMTPUTF8\r\n")
                elif verb == "MAIL":
                    sender = line.partition("<")[2].partition(">")[0]
                    writer.write(b"250 ok\r\n")
                elif verb == "RCPT":
                    to.append(line.partition("<")[2].partition(">")[0])
                    writer.write(b"250 ok\r\n")
                elif verb == "DATA":
                    writer.write(b"354 go on\r\n")
                    raw = (await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n")
                    if self.refuses > 0:
                        self.refuses -= 1
                        writer.write(b"451 not now\r\n")
                        continue
                    message = message_from_bytes(raw, policy=policy.default)
                    self.taken.append(Taken(sender, to, message))
                    if self.hangs_up:
                        return
                    writer.write(b"250 taken\r\n")
                elif verb == "QUIT":
                    writer.write(b"221 bye\r\n")
                    return
                else:
                    writer.write(b"250 ok\r\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
