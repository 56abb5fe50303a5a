"""Monitor links: minted, shown again, revoked, with their makers and without them, over rotations of SECRET."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.core.errors import BadRequest, QmError, RateLimited, StorageUnavailable
from app.core.settings import Settings
from app.domain.actor import Actor
from app.domain.principal import Principal
from app.domain.roles import Role
from app.infrastructure.postgres import Postgres
from app.services.monitor_links import LinkNotLive, NoLink
from app.services.named_keys import LINK_PER_MIN
from app.services.sessions import Standing
from tests.admin.desk import NOW, OWNER, Desk, brought, client_at

DAY_MS = 86_400_000


@pytest.fixture
async def other(desk: Desk) -> Desk:
    """Another instance, which hears the hints of ``desk``."""
    other = desk.another()
    desk.hears.append(other)
    return other


def person(ident: str, name: str = "Night ops") -> Actor:
    return Actor(name, kind="operator", ident=ident, role="operator", ip="192.0.2.7", instance="i:test")


async def state_of(desk: Desk, ident: str) -> str:
    links = {link["id"]: link for link in (await desk.links.listed())["links"]}
    return str(links[ident]["state"]) if ident in links else "gone"


async def acts(desk: Desk, ident: str) -> list[str]:
    """Audited acts on a link, oldest first."""
    found = await desk.postgres.fetch("SELECT action FROM audit WHERE detail LIKE $1 ORDER BY id", f"{ident}%")
    return [row["action"] for row in found]


@pytest.mark.req("ADM-222", "ADM-223", "ADM-231", "ADM-232")
async def test_it_mints_a_link_and_lists_it_without_its_token(desk: Desk) -> None:
    ident, _ = await desk.operator(name="ADMIN_KEY")
    own, token = await desk.links.mint({"label": " Agency "}, OWNER)
    sham, _ = await desk.links.mint({}, person(ident, "ADMIN_KEY"))

    assert re.fullmatch(r"m_[0-9a-f]{8}", own["id"])
    assert own == {
        "id": own["id"], "label": "Agency", "createdAt": NOW, "createdBy": "ADMIN_KEY", "createdById": None,
        "expiresAt": NOW + 3_600_000, "revokedAt": None, "revokedBy": None, "state": "live", "lastUsedAt": None,
    }  # fmt: skip
    assert (sham["createdBy"], sham["createdById"], sham["label"]) == ("ADMIN_KEY", ident, "")
    listed = await desk.links.listed()
    assert own in listed["links"]
    assert listed["live"] == sum(link["state"] == "live" for link in listed["links"])
    assert listed["ttlSec"] == 3600
    tables = str([dict(row) for row in await desk.postgres.fetch("SELECT * FROM monitor_links")])
    assert not any(part in str(listed) + tables for part in token.split("."))
    assert await acts(desk, own["id"]) == ["monitor_token.mint"]


@pytest.mark.req("ADM-221", "ADM-225")
async def test_a_token_lets_its_holder_watch_and_names_its_link(desk: Desk, other: Desk) -> None:
    first, token = await desk.links.mint({}, OWNER)
    _, second = await desk.links.mint({}, OWNER)

    for process in (desk, other):
        principal = await process.access.authenticate(brought(f"Bearer {token}"))
        assert principal == Principal(
            principal.kind, Role.MONITOR, "Monitor link", expires_at=first["expiresAt"], link_id=first["id"]
        )
        assert principal.kind == "monitor"
        assert await process.may(second) == "ok"
    for at in range(len(token)):
        if token[at] != ".":
            altered = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
            assert desk.named.tokens.read(altered, NOW) is None


@pytest.mark.req("ADM-224", "CFG-158")
async def test_a_link_ends_by_itself_and_then_counts_as_a_wrong_key(desk: Desk) -> None:
    link, token = await desk.links.mint({}, OWNER)
    strict = desk.another(limit=1, clock=[link["expiresAt"] - 1])
    assert await strict.may(token, at="192.0.2.5") == "ok"
    strict.clock[0] += 1
    desk.clock = strict.clock

    assert await strict.may(token, at="192.0.2.5") == "unauthorized"
    assert await strict.may(token, at="192.0.2.5") == "too_many_auth_failures"
    assert await state_of(desk, link["id"]) == "expired"
    with pytest.raises(LinkNotLive):
        await desk.links.reveal(link["id"], OWNER)


@pytest.mark.req("ADM-226", "ADM-227", "ADM-228", "ADM-293", "CFG-151")
async def test_it_shows_a_live_link_again_under_the_present_secret_and_never_revives_one(desk: Desk) -> None:
    link, token = await desk.links.mint({"label": "Agency"}, OWNER)
    rotated = desk.another(secret="n" * 32, previous=desk.secret)

    again, fresh = await rotated.links.reveal(link["id"], OWNER)

    assert (again["id"], again["expiresAt"], again["label"]) == (link["id"], link["expiresAt"], "Agency")
    without_old = desk.another(secret="n" * 32)
    assert (await rotated.may(token), await without_old.may(token), await without_old.may(fresh)) == (
        "ok", "unauthorized", "ok",
    )  # fmt: skip
    assert await acts(desk, link["id"]) == ["monitor_token.mint", "monitor_token.reveal"]
    await desk.links.revoke(link["id"], OWNER)
    with pytest.raises(LinkNotLive) as caught:
        await desk.links.reveal(link["id"], OWNER)
    assert (caught.value.status, caught.value.code) == (410, "link_not_live")
    for process in (desk.another(), without_old.another()):
        assert await process.may(token) == await process.may(fresh) == "unauthorized"


@pytest.mark.req("ADM-229", "ADM-230", "ADM-236")
async def test_a_revoked_link_is_refused_at_once_everywhere_with_its_tickets(desk: Desk, other: Desk) -> None:
    link, token = await desk.links.mint({}, OWNER)
    _, kept = await desk.links.mint({}, OWNER)
    sibling = desk.another()
    holder = await other.access.authenticate(brought(f"Bearer {token}"))
    for process in (desk, other, sibling):
        assert (await process.may(token), await process.may(kept)) == ("ok", "ok")
    ticket = await other.sessions.make_ticket(holder)

    assert await desk.links.revoke(link["id"], OWNER) == 1

    for process in (desk, other, sibling, desk.another()):
        assert (await process.may(token), await process.may(kept)) == ("unauthorized", "ok")
    assert await other.outcome(brought(ticket=ticket)) == "unauthorized"
    assert await other.sessions.present([holder]) == [Standing.OVER]
    assert await desk.links.revoke(link["id"], OWNER) == 0
    for unknown in ("m_00000000", "m_x", "", "nope"):
        with pytest.raises(NoLink):
            await desk.links.revoke(unknown, OWNER)
        with pytest.raises(NoLink):
            await desk.links.reveal(unknown, OWNER)

    assert await desk.links.revoke_all(OWNER) >= 1
    for process in (desk, other, sibling, desk.another()):
        assert await process.may(kept) == "unauthorized"
    assert await desk.links.revoke_all(OWNER) == 0
    assert await acts(desk, link["id"]) == ["monitor_token.mint", "monitor_token.revoke"]
    details = await desk.postgres.fetch("SELECT detail FROM audit WHERE action = 'monitor_token.revoke_all'")
    assert details[-1]["detail"].endswith(" closed")


@pytest.mark.req("ADM-210", "ADM-212", "ADM-200")
@pytest.mark.parametrize("purge", [False, True])
async def test_a_maker_takes_his_links_along_and_no_others(desk: Desk, other: Desk, purge: bool) -> None:
    maker, _ = await desk.operator()
    namesake, _ = await desk.operator()
    links = [await desk.links.mint({}, person(maker)) for _ in range(3)]
    of_others = [await desk.links.mint({}, person(namesake)), await desk.links.mint({}, OWNER)]
    unattributed, stray = await desk.links.mint({}, OWNER)
    await desk.postgres.execute("UPDATE monitor_links SET created_by = 'Night ops' WHERE id = $1", unattributed["id"])
    await desk.links.revoke(links[2][0]["id"], OWNER)
    live = {one["id"]: one["liveLinks"] for one in await desk.operators.listed()}
    assert (live[maker], live[namesake]) == (2, 1)
    assert [await other.may(token) for _, token in links] == ["ok", "ok", "unauthorized"]

    _, closed = await desk.operators.revoke(maker, OWNER, purge=purge)

    assert closed == 2
    for process in (desk, other, desk.another()):
        assert [await process.may(token) for _, token in links] == ["unauthorized"] * 3
        assert [await process.may(token) for _, token in (*of_others, (None, stray))] == ["ok"] * 3
    ids = {link["id"]: link for link in (await desk.links.listed())["links"]}
    assert ids[links[0][0]["id"]]["revokedBy"] == "ADMIN_KEY"


@pytest.mark.req("ADM-235")
async def test_it_keeps_no_more_than_the_documented_number_and_forgets_old_ones(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.links.revoke_all(OWNER)
    monkeypatch.setattr("app.services.monitor_links.LINKS_MAX", 2)
    (first, _), (second, _) = [await desk.links.mint({}, OWNER) for _ in range(2)]
    with pytest.raises(QmError) as caught:
        await desk.links.mint({}, OWNER)
    assert (caught.value.status, caught.value.code) == (409, "too_many_links")
    await desk.links.revoke(first["id"], OWNER)
    await desk.links.mint({}, OWNER)

    desk.clock = [NOW + 30 * DAY_MS - 1]
    assert (await state_of(desk, first["id"]), await state_of(desk, second["id"])) == ("revoked", "expired")
    desk.clock[0] += 1
    assert (await state_of(desk, first["id"]), await state_of(desk, second["id"])) == ("gone", "expired")
    desk.clock[0] += 3_600_000
    assert await state_of(desk, second["id"]) == "gone"


@pytest.mark.parametrize(
    ("body", "code"),
    [({"label": 5}, "invalid_label"), ({"label": "x" * 81}, "invalid_label"), ({"label": "a\tb"}, "invalid_label"),
     ({"label": None}, "invalid_label"), ({"name": "x"}, "unknown_field")],
)  # fmt: skip
async def test_it_mints_nothing_of_a_bad_body(desk: Desk, body: dict[str, Any], code: str) -> None:
    before = (await desk.links.listed())["live"]

    with pytest.raises(BadRequest) as caught:
        await desk.links.mint(body, OWNER)

    assert caught.value.code == code
    assert (await desk.links.listed())["live"] == before
    assert (await desk.links.mint({"label": "x" * 80}, OWNER))[0]["label"] == "x" * 80


@pytest.mark.req("ADM-297")
async def test_a_link_has_a_budget_of_its_own_in_the_whole_fleet(desk: Desk, other: Desk, cut_off: Desk) -> None:
    _, token = await desk.links.mint({}, OWNER)
    _, quiet = await desk.links.mint({}, OWNER)
    for number in range(LINK_PER_MIN):
        assert await (desk, other)[number % 2].may(token, at=f"192.0.2.{number % 200}") == "ok"

    with pytest.raises(RateLimited) as caught:
        await other.access.authenticate(brought(f"Bearer {token}"))

    assert caught.value.code == "rate_limited"
    assert 1 <= int(caught.value.headers["Retry-After"]) <= 60
    assert await desk.may(quiet) == "ok"
    assert (await desk.store.failures(client_at("192.0.2.1").key, count=False))[0] == 0
    alone = [await cut_off.may(quiet) for _ in range(LINK_PER_MIN + 1)]
    assert alone == ["ok"] * LINK_PER_MIN + ["rate_limited"]


@pytest.mark.req("ADM-042", "ADM-236")
async def test_a_link_whose_record_cannot_be_confirmed_is_refused_and_not_counted(desk: Desk) -> None:
    _, token = await desk.links.mint({}, OWNER)
    strict = desk.another(postgres=Postgres("postgresql://127.0.0.1:1/qm"), limit=1)

    for _ in range(3):
        with pytest.raises(StorageUnavailable):
            await strict.access.authenticate(brought(f"Bearer {token}"))
    with pytest.raises(StorageUnavailable):
        await strict.links.mint({}, OWNER)
    with pytest.raises(StorageUnavailable):
        await strict.links.listed()
    assert await strict.may("a.b") == "unauthorized"


async def test_it_keeps_when_a_link_was_used(desk: Desk) -> None:
    link, token = await desk.links.mint({}, OWNER)
    assert await desk.may(token) == "ok"
    await desk.people.stop()

    (shown,) = [one for one in (await desk.links.listed())["links"] if one["id"] == link["id"]]
    assert shown["lastUsedAt"] % 60_000 == 0


@pytest.mark.req("ENG-090")
async def test_links_and_sessions_end_by_their_age_and_keys_of_operators_never(desk: Desk) -> None:
    _, key = await desk.operator()
    link, token = await desk.links.mint({}, OWNER)
    cookie = await desk.cookie(key)
    assert Settings().monitor_token_ttl_sec == 604_800
    assert link["expiresAt"] == NOW + 3_600_000, "what the setting says"

    async def good(at: int) -> tuple[bool, bool, bool]:
        desk.clock[0] = at
        session = await desk.outcome(brought(cookies=(cookie,)))
        return await desk.may(token) == "ok", session == "ok", await desk.may(key) == "ok"

    assert await good(link["expiresAt"] - 1) == (True, True, True)
    assert await good(link["expiresAt"]) == (False, True, True)
    assert await good(NOW + 12 * 3_600_000 - 1) == (False, True, True)
    assert await good(NOW + 12 * 3_600_000) == (False, False, True)
    assert await good(NOW + 3650 * DAY_MS) == (False, False, True), "ten years later"
