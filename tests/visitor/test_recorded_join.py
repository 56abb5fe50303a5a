"""What is kept of who joined, and where."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.facts import FactType, decode_body
from app.domain.facts_of_tickets import Joined
from app.domain.fingerprint import Digester, fingerprints
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.visitor.site import Browser, Site


@pytest.mark.req("ENG-259")
async def test_it_keeps_the_readable_address_of_a_join_in_the_journal_alone(
    idle_house: House, limiter: RateLimiter
) -> None:
    site = Site(idle_house, limiter)
    await site.create(rate_per_minute=0)
    joining = asyncio.ensure_future(Browser(site, peer="198.51.100.77").join())
    while not joining.done():
        await idle_house.drain("shop")
        await idle_house.commits._ask_now()
        await asyncio.sleep(0)
    browser = Browser(site, peer="198.51.100.77")
    room = site.rooms.copies["shop"]
    digests = Digester(room.salt)
    request = browser.request("GET", "/")
    strict, loose = fingerprints(digests, request.client, browser.agent.encode())
    session = next(c for c in joining.result().cookies if c.startswith("qms_shop="))

    (row,) = await idle_house.postgres.fetch("SELECT ip, body FROM events WHERE type = 6")
    found = decode_body(FactType.JOINED, 1, row["body"][:4] + row["ip"] + row["body"][4:])

    assert isinstance(found, Joined)
    address = bytes(10) + b"\xff\xff" + bytes([198, 51, 100, 77])
    assert (found.ticket, found.ip) == (1, address)
    assert found.cookie == digests.cookie(session.partition("=")[2].partition(";")[0])
    assert (found.strict, found.loose, found.address) == (strict, loose, digests.address(address))
    for name in await idle_house.valkey.execute("KEYS", f"{idle_house.prefix}*"):
        dump = await idle_house.valkey.execute("DUMP", name)
        assert address[12:] not in dump, name
        assert b"198.51.100.77" not in dump
    await site.stop()
