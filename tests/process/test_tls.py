"""Certificates of the shared stores: which are believed, and that nothing is sent to any other."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from app.core.secret import Secret
from app.core.settings import Settings
from app.infrastructure.postgres import Postgres
from app.infrastructure.store_checks import StoreRefused, check_postgres, check_valkey
from app.infrastructure.valkey import Valkey
from app.process.start import shared_urls
from tests.process.tls import make_ca, make_certificate, postgres_over_tls, valkey_over_tls


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, ours and another's."""
    made = tmp_path_factory.mktemp("tls")
    for name in ("ours", "other"):
        make_ca(made, name)
    return made


@pytest.fixture(scope="module")
def here(folder: Path) -> ssl.SSLContext:
    """A server whose certificate our authority signed for this address."""
    return make_certificate(folder, "ours", "here", "IP:127.0.0.1")


def urls(valkey: str, database: str, **files: Path | None) -> tuple[str, str]:
    """Addresses as the clients get them by the settings."""
    return shared_urls(Settings(valkey_url=Secret(valkey), database_url=Secret(database), **files))  # type: ignore[arg-type]


@pytest.mark.req("CFG-034")
async def test_it_believes_a_valkey_that_the_given_authority_vouches_for(
    valkey_url: str, fresh_prefix: str, folder: Path, here: ssl.SSLContext
) -> None:
    with valkey_over_tls(valkey_url, here) as port:
        for scheme in ("rediss", "valkeys"):
            url, _ = urls(f"{scheme}://127.0.0.1:{port}", "postgres://a/b", valkey_ca_file=folder / "ours.pem")
            assert await check_valkey(url, 30) is None
        valkey = Valkey(url)
        assert await valkey.execute("SET", fresh_prefix + "a", "1") == b"OK"
        await valkey.close()
        for file in (None, folder / "other.pem"):
            url, _ = urls(f"valkeys://127.0.0.1:{port}", "postgres://a/b", valkey_ca_file=file)
            with pytest.raises(StoreRefused, match="certificate of Valkey does not verify"):
                await check_valkey(url, 30)


@pytest.mark.req("CFG-037")
async def test_it_believes_a_postgres_that_the_given_authority_vouches_for(
    database_url: str, folder: Path, here: ssl.SSLContext
) -> None:
    """By its name too, and never in the clear."""
    parts = urlsplit(database_url)
    (home,) = parse_qs(parts.query)["host"]
    elsewhere = make_certificate(folder, "ours", "elsewhere", "DNS:elsewhere.test")

    def url(port: int, ca: str = "ours") -> str:
        return urls("redis://a", f"postgresql://qm@127.0.0.1:{port}/postgres", pg_ca_file=folder / f"{ca}.pem")[1]

    with postgres_over_tls(home, here) as port:
        assert await check_postgres(url(port)) is None
        postgres = Postgres(url(port), max_size=1)
        assert await postgres.fetchval("SELECT 7") == 7
        await postgres.close()
        with pytest.raises(StoreRefused, match="certificate of Postgres does not verify"):
            await check_postgres(url(port, "other"))
    with postgres_over_tls(home, elsewhere) as port, pytest.raises(StoreRefused, match="does not verify"):
        await check_postgres(url(port))
    with postgres_over_tls(home, None) as port:
        said = await check_postgres(url(port))
        assert said is not None
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await asyncpg.connect(url(port))
