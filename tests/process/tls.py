"""TLS in front of a store without it: a CA, certificates, and a relay that takes TLS off."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

_SSL_REQUEST = struct.pack("!II", 8, 80877103)
"""What a client of Postgres asks before it speaks TLS (protocol 3, SSLRequest)."""
_SOCKET = ".s.PGSQL.5432"


def make_ca(folder: Path, name: str) -> Path:
    """A new authority ``name``; its certificate."""
    made = folder / f"{name}.pem"
    _openssl(
        folder,
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", made.name),
    )
    return made


def make_certificate(folder: Path, ca: str, name: str, who: str) -> ssl.SSLContext:
    """Server side of TLS with a certificate for ``who`` (``IP:127.0.0.1``, ``DNS:a.test``) that ``ca`` signed."""
    _openssl(
        folder,
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
        *("-addext", f"subjectAltName={who}", "-keyout", f"{name}.key", "-out", f"{name}.csr"),
    )
    _openssl(
        folder,
        *("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial"),
        *("-days", "2", "-copy_extensions", "copy", "-out", f"{name}.pem"),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


@contextmanager
def valkey_over_tls(valkey_url: str, context: ssl.SSLContext) -> Iterator[int]:
    """A loopback port that speaks TLS and is the Valkey at a ``unix://`` address."""
    with _relay(valkey_url.removeprefix("unix://"), lambda sock: context.wrap_socket(sock, server_side=True)) as port:
        yield port


@contextmanager
def postgres_over_tls(folder: str, context: ssl.SSLContext | None) -> Iterator[int]:
    """The same for the Postgres whose socket is in ``folder``; with None it says that it has no TLS."""

    def greet(sock: socket.socket) -> socket.socket:
        assert sock.recv(8, socket.MSG_WAITALL) == _SSL_REQUEST
        sock.sendall(b"N" if context is None else b"S")
        return sock if context is None else context.wrap_socket(sock, server_side=True)

    with _relay(f"{folder}/{_SOCKET}", greet) as port:
        yield port


@contextmanager
def _relay(path: str, greet: Callable[[socket.socket], socket.socket]) -> Iterator[int]:
    """Between a loopback port and the socket at ``path``; ``greet`` begins with each client. Leaves nothing open."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as held, ThreadPoolExecutor(32) as pool:

        def serve(sock: socket.socket) -> None:
            with suppress(OSError), closing(sock):
                client = greet(sock)
                with closing(client), closing(socket.socket(socket.AF_UNIX)) as store:
                    store.connect(path)
                    for one in (client, store):
                        held.callback(_shut, one)
                    back = pool.submit(_copy, store, client)
                    _copy(client, store)
                    back.result()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    held.callback(_shut, sock)
                    pool.submit(serve, sock)

        accepting = pool.submit(accept)
        try:
            yield listener.getsockname()[1]
        finally:
            _shut(listener)
            accepting.result()
            held.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _shut(target)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
