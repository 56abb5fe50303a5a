"""Operators' keys, sessions and rights: made, judged, changed, revoked; in two processes; over rotations of SECRET."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any

import pytest

from app.core.errors import BadRequest, Forbidden, QmError, StorageUnavailable, Unauthorized
from app.domain.actor import Actor
from app.domain.principal import OWNER_BY_KEY, Principal, Via
from app.domain.roles import Role
from app.infrastructure.postgres import Postgres
from app.services.operators import OperatorRevoked
from app.services.people import LOOKUPS_PER_SEC
from app.services.sessions import Bad, Standing
from tests.admin.desk import KEY, OWNER, PUBLIC, Desk, brought, client_at


@pytest.fixture
async def other(desk: Desk) -> Desk:
    """Another instance, which hears the hints of ``desk``."""
    other = desk.another()
    desk.hears.append(other)
    return other


@pytest.fixture
async def no_postgres(desk: Desk) -> Desk:
    """An instance that cannot reach Postgres."""
    return desk.another(postgres=Postgres("postgresql://127.0.0.1:1/qm"))


def acting(ident: str, role: str = "owner") -> Actor:
    return Actor("Night ops", kind="operator", ident=ident, role=role, ip="192.0.2.7", instance="i:test")


def unheard(process: Desk) -> Desk:
    """``process`` with no memory that tells it of changes, as on another instance."""
    process.people._changes = type("Silent", (), {"total": lambda *_: 0, "add": lambda *_: None})()
    return process


async def rows(desk: Desk, table: str) -> str:
    """Everything that a table holds, as text."""
    return str([dict(row) for row in await desk.postgres.fetch(f"SELECT * FROM {table}")])


async def notes_of(desk: Desk, ident: str) -> list[tuple[str, str, str]]:
    """Action, actor and detail of the audit entries that name an operator, oldest first."""
    found = await desk.postgres.fetch(
        "SELECT action, actor, detail FROM audit WHERE detail LIKE $1 ORDER BY id", f"%{ident}%"
    )
    return [(row["action"], row["actor"], row["detail"]) for row in found]


@pytest.mark.req("ADM-202", "ADM-203", "ADM-294", "ADM-301")
async def test_it_makes_a_key_of_the_documented_form_and_stores_only_a_verifier(desk: Desk) -> None:
    for sign_v2 in (False, True):
        process = desk.another(sign_v2=sign_v2)
        ident, key = await process.operator()

        assert re.fullmatch(r"qmo_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", key)
        assert key.split("_")[1] == ident
        secret = key.split("_", 2)[2]
        assert len(base64.urlsafe_b64decode(secret + "=")) == 32
        kept = await rows(desk, "operators") + await rows(desk, "audit")
        assert secret not in kept
        assert secret not in str(await process.operators.listed())
        assert await process.may(key) == "ok"


async def test_it_answers_who_an_operator_is(desk: Desk) -> None:
    ident, key = await desk.operator("viewer", "Shop desk")

    principal = await desk.access.authenticate(brought(f"Bearer {key}"))

    assert principal == Principal(principal.kind, Role.VIEWER, "Shop desk", operator_id=ident)
    assert principal.me() | {"can": None} == {
        "kind": "operator", "via": "bearer", "role": "viewer", "name": "Shop desk", "operatorId": ident, "linkId": None,
        "expiresAt": None, "can": None,
    }  # fmt: skip


@pytest.mark.req("ADM-038", "ADM-041")
async def test_it_refuses_every_wrong_operator_key_alike_and_counts_it(desk: Desk) -> None:
    ident, key = await desk.operator()
    revoked, revoked_key = await desk.operator()
    await desk.operators.revoke(revoked, OWNER, purge=False)
    purged, purged_key = await desk.operator()
    await desk.operators.revoke(purged, OWNER, purge=True)
    strict = desk.another(limit=100)
    wrong = (
        key[:-1] + ("A" if key[-1] != "A" else "B"),
        key[:-1],
        key + "A",
        key.upper(),
        key.replace(ident, "00000000"),
        f"qmo_{ident}_",
        f"qmo_{ident}",
        revoked_key,
        purged_key,
        "a.b",
    )
    texts = set()
    for count, one in enumerate(wrong, 1):
        with pytest.raises(Unauthorized) as caught:
            await strict.access.authenticate(brought(f"Bearer {one}", at="192.0.2.3"))
        texts.add((caught.value.code, caught.value.sentence, str(caught.value.headers)))
        assert (await desk.store.failures(client_at("192.0.2.3").key, count=False))[0] == count, one
    assert len(texts) == 1
    assert await strict.may(key) == "ok"


async def test_a_locked_address_learns_nothing_of_an_operators_key(desk: Desk, no_postgres: Desk) -> None:
    _, key = await desk.operator()
    for process in (desk.another(limit=1), no_postgres.another(limit=1)):
        await process.may("wrong", at="192.0.2.4")
        assert await process.may(key, at="192.0.2.4") == "too_many_auth_failures"
        assert await process.may(key[:-1] + "A", at="192.0.2.4") == "too_many_auth_failures"


@pytest.mark.req("ADM-042", "FLT-032", "FLT-037")
async def test_it_refuses_operators_whose_record_it_cannot_confirm_and_counts_nothing(
    desk: Desk, no_postgres: Desk
) -> None:
    _, key = await desk.operator()
    cookie = await desk.cookie(key)
    strict = no_postgres.another(limit=1)

    for what in (brought(f"Bearer {key}"), brought(f"Bearer {key[:-1]}A"), brought(cookies=(cookie,))):
        for _ in range(3):
            with pytest.raises(QmError) as caught:
                await strict.access.authenticate(what)
            assert (caught.value.code, caught.value.headers["Retry-After"]) == ("storage_unavailable", "5")
            assert not getattr(caught.value, "cookie_failed", False)
    assert await strict.may(KEY) == "ok"


@pytest.mark.req("ADM-283")
async def test_it_relies_on_its_copy_until_it_is_older_than_the_resync(desk: Desk) -> None:
    _, key = await desk.operator()
    process = desk.another(postgres=Postgres(desk.postgres.dsn), resync_ms=600)
    assert await process.may(key) == "ok"
    process.postgres._dsn = "postgresql://127.0.0.1:1/qm"
    await process.postgres.close()

    outcomes = []
    while not outcomes or outcomes[-1] == "ok":
        outcomes.append(await process.may(key))
        await asyncio.sleep(0.02)

    assert outcomes[0] == "ok"
    assert outcomes[-1] == "storage_unavailable"


@pytest.mark.req("ADM-207", "ADM-213", "FLT-030", "FLT-031")
@pytest.mark.req("CFG-041")
async def test_a_revoked_operator_is_refused_at_the_next_request_everywhere(desk: Desk, other: Desk) -> None:
    """By the shared memory on the instance, by the hint on others, with the hint lost within the resync."""
    ident, key = await desk.operator()
    sibling, deaf = desk.another(), desk.another(resync_ms=300)
    lonely = unheard(deaf.another())
    everywhere = (desk, other, sibling, deaf)
    for process in (*everywhere, lonely):
        assert await process.may(key) == "ok"
    cookie = await desk.cookie(key)

    revoked, links = await desk.operators.revoke(ident, OWNER, purge=False)

    assert (revoked["id"], links) == (ident, 0)
    assert revoked["revokedAt"] == desk.now()
    assert revoked["revokedBy"] == "ADMIN_KEY"
    for process in everywhere:
        assert await process.may(key) == "unauthorized"
        assert await process.sessions.find([cookie]) is Bad.OVER
    async with asyncio.timeout(10):
        while await lonely.may(key) == "ok":
            await asyncio.sleep(0.02)
    again, links = await desk.operators.revoke(ident, OWNER, purge=False)
    assert (again["revokedAt"], links) == (revoked["revokedAt"], 0)


@pytest.mark.req("ADM-208", "ADM-209")
async def test_a_revoked_operator_stays_listed_and_a_purged_one_does_not(desk: Desk) -> None:
    ident, key = await desk.operator("owner", "Temp")
    await desk.operators.change(ident, {"name": "Temp (gone)"}, acting(ident))
    await desk.operators.revoke(ident, OWNER, purge=False)
    listed = {one["id"]: one for one in await desk.operators.listed()}
    assert (listed[ident]["name"], listed[ident]["revokedBy"]) == ("Temp (gone)", "ADMIN_KEY")

    await desk.operators.revoke(ident, OWNER, purge=True)

    assert ident not in {one["id"] for one in await desk.operators.listed()}
    assert await desk.may(key) == "unauthorized"
    kept = await desk.postgres.fetch("SELECT actor, action FROM audit WHERE actor_id = $1", ident)
    assert [tuple(row) for row in kept] == [("Night ops", "operator.update")]


@pytest.mark.req("ADM-064", "ADM-206")
async def test_a_change_of_role_or_name_holds_from_the_next_request(desk: Desk, other: Desk) -> None:
    ident, key = await desk.operator()
    cookie = await desk.cookie(key)
    stream = await other.access.authenticate(brought(f"Bearer {key}"))

    after, changed = await desk.operators.change(ident, {"role": "viewer", "name": " Day ops "}, OWNER)

    assert (after["role"], after["name"], sorted(changed)) == ("viewer", "Day ops", ["name", "role"])
    for process in (desk, other):
        for what in (brought(f"Bearer {key}"), brought(cookies=(cookie,))):
            principal = await process.access.authenticate(what)
            assert (principal.role, principal.name) == (Role.VIEWER, "Day ops")
        (now,) = await process.sessions.present([stream])
        assert isinstance(now, Principal)
        assert (now.role, now.name) == (Role.VIEWER, "Day ops")
    _, unchanged = await desk.operators.change(ident, {"role": "viewer"}, OWNER)
    assert unchanged == []
    with pytest.raises(BadRequest) as caught:
        await desk.operators.change(ident, {}, OWNER)
    assert caught.value.code == "nothing_to_change"
    await desk.operators.revoke(ident, OWNER, purge=False)
    with pytest.raises(OperatorRevoked):
        await desk.operators.change(ident, {"role": "owner"}, OWNER)


@pytest.mark.req("ADM-204")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "x"}, "invalid_role"),
        ({"name": "x", "role": "admin"}, "invalid_role"),
        ({"name": "x", "role": "monitor"}, "invalid_role"),
        ({"name": "x", "role": "OWNER"}, "invalid_role"),
        ({"name": "x", "role": 3}, "invalid_role"),
        ({"role": "owner"}, "invalid_name"),
        ({"role": "owner", "name": "  "}, "invalid_name"),
        ({"role": "owner", "name": "x" * 81}, "invalid_name"),
        ({"role": "owner", "name": "a\nb"}, "invalid_name"),
        ({"role": "owner", "name": 5}, "invalid_name"),
        ({"role": "owner", "name": "x", "key": "mine"}, "unknown_field"),
    ],
)
async def test_it_makes_nobody_of_a_bad_body(desk: Desk, body: dict[str, Any], code: str) -> None:
    before = len(await desk.operators.listed())

    with pytest.raises(BadRequest) as caught:
        await desk.operators.create(body, OWNER)

    assert caught.value.code == code
    assert len(await desk.operators.listed()) == before
    for role in ("owner", "operator", "viewer"):
        made, _ = await desk.operators.create({"name": " " + "x" * 80 + " ", "role": role}, OWNER)
        assert (made["role"], made["name"]) == (role, "x" * 80)


@pytest.mark.req("ADM-205")
async def test_names_are_free_and_nobody_is_matched_by_one(desk: Desk) -> None:
    (first, first_key), (_, second_key) = [await desk.operator(name="Night ops") for _ in range(2)]
    sham, sham_key = await desk.operator("viewer", "ADMIN_KEY")

    principal = await desk.access.authenticate(brought(f"Bearer {sham_key}"))
    assert (principal.kind, principal.role, principal.operator_id) == ("operator", Role.VIEWER, sham)
    await desk.operators.revoke(first, OWNER, purge=False)
    assert await desk.may(first_key) == "unauthorized"
    assert await desk.may(second_key) == "ok"
    await desk.operators.revoke(sham, OWNER, purge=False)
    assert await desk.may(KEY) == "ok"


@pytest.mark.req("ADM-214")
async def test_an_owner_may_revoke_himself_and_is_refused_from_then_on(desk: Desk) -> None:
    ident, key = await desk.operator("owner")

    revoked, _ = await desk.operators.revoke(ident, acting(ident), purge=False)

    assert revoked["revokedBy"] == "Night ops"
    assert await desk.may(key) == "unauthorized"


async def test_whoever_lost_his_rights_on_the_way_hands_out_nothing(desk: Desk) -> None:
    ident, _ = await desk.operator("owner")
    before = {one["id"] for one in await desk.operators.listed()}
    await desk.operators.change(ident, {"role": "operator"}, OWNER)
    with pytest.raises(Forbidden) as demoted:
        await desk.operators.create({"name": "accomplice", "role": "owner"}, acting(ident))
    told = {"role": "operator", "needs": "owner"}
    assert (demoted.value.status, demoted.value.code, demoted.value.members) == (403, "insufficient_role", told)
    await desk.links.mint({}, acting(ident))
    await desk.operators.revoke(ident, OWNER, purge=False)
    with pytest.raises(Unauthorized) as revoked:
        await desk.links.mint({}, acting(ident, "operator"))
    assert revoked.value.headers["WWW-Authenticate"] == 'Bearer realm="queue-manager"'

    assert {one["id"] for one in await desk.operators.listed()} == before
    assert (await desk.records.links_by_maker(desk.now())).get(ident) is None


@pytest.mark.req("FLT-032")
async def test_a_look_that_was_broken_off_confirms_nothing_for_whoever_waited(desk: Desk) -> None:
    ident, key = await desk.operator()
    process = desk.another()
    assert await process.may(key) == "ok"
    version, is_looking = process.records.version, asyncio.Event()

    async def hang() -> int:
        process.records.version = version  # type: ignore[method-assign]
        is_looking.set()
        await asyncio.Event().wait()
        return 0

    process.records.version = hang  # type: ignore[method-assign]
    async with process.people._looking:
        await desk.operators.revoke(ident, OWNER, purge=False)
        gone = asyncio.create_task(process.people.refresh())
        waits = asyncio.create_task(process.people.operator(ident))
        await asyncio.sleep(0)
    await is_looking.wait()
    gone.cancel()

    found = await waits
    assert found is not None
    assert found.revoked_at == desk.now()


@pytest.mark.req("FLT-032")
async def test_a_look_begun_before_a_hint_does_not_answer_for_it(desk: Desk) -> None:
    ident, key = await desk.operator()
    process = unheard(desk.another())
    assert await process.may(key) == "ok"
    version, has_read, may_end = process.records.version, asyncio.Event(), asyncio.Event()

    async def slow() -> int:
        found = await version()
        has_read.set()
        await may_end.wait()
        return found

    async def fail() -> int:
        raise StorageUnavailable

    process.records.version = slow  # type: ignore[method-assign]
    early = asyncio.create_task(process.people.refresh())
    await has_read.wait()
    await desk.operators.revoke(ident, OWNER, purge=False)
    process.records.version = fail  # type: ignore[method-assign]
    heard = asyncio.create_task(process.people.hear())
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(early, heard)

    assert await process.may(key) == "storage_unavailable"
    process.records.version = version  # type: ignore[method-assign]
    assert await process.may(key) == "unauthorized"


async def test_many_streams_wait_for_one_look_at_a_store_that_is_away(desk: Desk) -> None:
    holders = [await desk.access.authenticate(brought(f"Bearer {(await desk.operator())[1]}")) for _ in range(4)]
    process, looks = desk.another(), 0

    async def fail() -> int:
        nonlocal looks
        looks += 1
        raise StorageUnavailable

    process.records.version = fail  # type: ignore[method-assign]

    assert await process.sessions.present([*holders, OWNER_BY_KEY]) == [Standing.UNSURE] * 4 + [OWNER_BY_KEY]
    assert looks == 1


@pytest.mark.req("FLT-033")
async def test_a_key_made_a_moment_ago_elsewhere_works(desk: Desk) -> None:
    deaf = unheard(desk.another())
    await deaf.people.confirm()

    _, key = await desk.operator()

    assert await deaf.may(key) == "ok"


@pytest.mark.req("ADM-302")
async def test_invented_ids_load_no_store(desk: Desk) -> None:
    process = desk.another(limit=0)
    await process.people.confirm()
    looks = 0
    look = process.people._look

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await look()

    process.people._look = counted  # type: ignore[method-assign]
    for number in range(200):
        assert await process.may(f"qmo_{number:08x}_" + "A" * 43) == "unauthorized"

    assert 1 <= looks <= LOOKUPS_PER_SEC * 2


@pytest.mark.req("ADM-218", "ENG-097", "CFG-152", "CFG-153")
async def test_a_verifier_follows_the_secret_within_the_request_that_proves_the_key(desk: Desk) -> None:
    _, key = await desk.operator()
    _, unused = await desk.operator()
    new = "n" * 32

    rotating = desk.another(secret=new, previous=desk.secret)
    assert await rotating.may(key) == "ok"
    assert await desk.another(secret=new).may(key) == "ok"
    assert await desk.another().may(key) == "ok", "an instance that has the old secret still"
    assert await desk.another(secret=new).may(unused) == "unauthorized"
    assert await desk.another(secret="x" * 32).may(key) == "unauthorized"


@pytest.mark.req("ENG-096")
async def test_a_secret_changed_without_the_old_one_ends_what_it_signed(desk: Desk) -> None:
    _, key = await desk.operator()
    _, link = await desk.links.mint({"label": "wall"}, OWNER)
    by_name, by_key = await desk.cookie(key), await desk.cookie()
    presented = [
        brought(f"Bearer {key}"),
        brought(f"Bearer {link}"),
        brought(cookies=(by_name,)),
        brought(cookies=(by_key,)),
    ]
    assert [await desk.outcome(what) for what in presented] == ["ok"] * 4

    changed = desk.another(secret="n" * 32)

    assert [await changed.outcome(what) for what in presented] == ["unauthorized"] * 4
    assert await changed.may(desk.admin_key) == "ok"


@pytest.mark.req("ADM-218", "CFG-156", "ENG-098")
async def test_a_verifier_becomes_v2_where_that_is_written_and_never_goes_back(desk: Desk) -> None:
    ident, key = await desk.operator()

    async def form() -> str:
        verifier = await desk.postgres.fetchval("SELECT verifier FROM operators WHERE id = $1", ident)
        return "v2" if "." in verifier else "legacy"

    assert (await desk.another().may(key), await form()) == ("ok", "legacy")
    assert (await desk.another(sign_v2=True).may(key), await form()) == ("ok", "v2")
    assert (await desk.another().may(key), await form()) == ("ok", "v2")
    new = "n" * 32
    assert (await desk.another(secret=new, previous=desk.secret).may(key), await form()) == ("ok", "v2")
    assert (await desk.another(secret=new).may(key), await form()) == ("ok", "v2")


async def test_a_verifier_that_cannot_be_renewed_lets_its_holder_in_all_the_same(desk: Desk) -> None:
    _, key = await desk.operator()
    rotating = desk.another(secret="n" * 32, previous=desk.secret)
    assert await desk.another().may(key) == "ok"
    before = await desk.postgres.fetch("SELECT id, verifier, verifier_before FROM operators ORDER BY id")

    async with desk.postgres.acquire() as link, link.transaction():
        await link.execute("UPDATE access_version SET version = version")
        rotating.records._postgres = Postgres(desk.postgres.dsn, statement_timeout_ms=200)
        assert await rotating.may(key) == "ok"
    await rotating.records._postgres.close()

    assert await desk.postgres.fetch("SELECT id, verifier, verifier_before FROM operators ORDER BY id") == before


@pytest.mark.req("ADM-219")
async def test_it_keeps_when_and_where_an_operator_was_seen_to_the_minute(desk: Desk) -> None:
    ident, key = await desk.operator()
    assert (await desk.may(key, at="198.51.100.4"), await desk.may(key, at="198.51.100.4")) == ("ok", "ok")
    await desk.people.stop()

    (one,) = [one for one in await desk.operators.listed() if one["id"] == ident]
    assert one["lastUsedIp"] == "198.51.100.4"
    assert one["lastUsedAt"] % 60_000 == 0
    assert await desk.another().may(KEY, at="198.51.100.9") == "ok"


@pytest.mark.req("ADM-295", "ADM-072", "ADM-071", "CFG-138")
async def test_a_session_of_an_operator_is_bound_to_his_own_second_secret(desk: Desk) -> None:
    ident, key = await desk.operator()
    _, other_key = await desk.operator()
    cookie = await desk.cookie(key)

    session = await desk.sessions.find([cookie])
    assert isinstance(session, Principal)
    assert (session.via, session.operator_id, session.role) == (Via.SESSION, ident, Role.OPERATOR)
    # a changed ADMIN_KEY ends sessions of ADMIN_KEY only
    of_admin = await desk.cookie()
    rekeyed = desk.another(admin_key="another-admin-key")
    assert await rekeyed.outcome(brought(cookies=(cookie,))) == "ok"
    assert await rekeyed.sessions.find([of_admin]) is Bad.FORGED
    # a rotation of SECRET, and a thief who has SECRET alone
    assert await desk.another(secret="n" * 32, previous=desk.secret).outcome(brought(cookies=(cookie,))) == "ok"
    assert await desk.another(secret="n" * 32).sessions.find([cookie]) is Bad.FORGED
    stolen = await desk.cookie(other_key)
    payload = desk.sessions._signed.open(stolen)
    assert isinstance(payload, dict)
    forged = desk.sessions._signed.sign({**payload, "who": f"operator:{ident}"})
    assert await desk.sessions.find([forged]) is Bad.FORGED
    as_admin = desk.sessions._signed.sign({**payload, "who": "admin_key"})
    assert await desk.sessions.find([as_admin]) is Bad.FORGED

    await desk.operators.revoke(ident, OWNER, purge=False)
    assert await desk.outcome(brought(cookies=(cookie,))) == "unauthorized"
    await desk.operators.revoke(ident, OWNER, purge=True)
    assert await desk.outcome(brought(cookies=(cookie,))) == "unauthorized"
    assert await desk.outcome(brought(cookies=(stolen,))) == "ok"


@pytest.mark.req("ADM-088", "FLT-036")
async def test_a_ticket_of_a_revoked_operator_opens_nothing(desk: Desk, other: Desk, no_postgres: Desk) -> None:
    ident, key = await desk.operator()
    holder = await desk.access.authenticate(brought(f"Bearer {key}"))
    tickets = [await desk.sessions.make_ticket(holder) for _ in range(3)]

    assert await other.access.authenticate(brought(ticket=tickets[0])) == holder
    assert await no_postgres.outcome(brought(ticket=tickets[1])) == "storage_unavailable"
    await desk.operators.revoke(ident, OWNER, purge=False)
    assert await other.outcome(brought(ticket=tickets[2])) == "unauthorized"
    assert await desk.sessions.present([holder]) == [Standing.OVER]


@pytest.mark.req("ADM-211")
async def test_each_act_leaves_one_entry_that_tells_it(desk: Desk) -> None:
    ident, key = await desk.operator("viewer", "Temp")
    await desk.operators.change(ident, {"role": "operator"}, OWNER)
    await desk.operators.change(ident, {"role": "operator"}, OWNER)
    maker = Actor("Temp", kind="operator", ident=ident, role="operator", ip="192.0.2.7", instance="i:test")
    for _ in range(2):
        await desk.links.mint({}, maker)
    _, links = await desk.operators.revoke(ident, OWNER, purge=False)
    await desk.operators.revoke(ident, OWNER, purge=False)
    assert links == 2
    (newest,) = await desk.postgres.fetch(
        "SELECT * FROM audit WHERE action = 'operator.revoke' ORDER BY id DESC LIMIT 1"
    )
    assert (newest["actor"], newest["actor_kind"], newest["role"], newest["ip"], newest["ok"]) == (
        "ADMIN_KEY", "admin_key", "owner", "192.0.2.1", True,
    )  # fmt: skip
    assert newest["detail"] == "Temp; closed 2 monitor links"
    assert newest["room"] is None
    texts = [row["detail"] for row in await desk.postgres.fetch("SELECT detail FROM audit ORDER BY id DESC LIMIT 5")]
    assert texts[::-1][0] == f"Temp (viewer, {ident})"
    assert texts[::-1][1] == "Temp: role viewer → operator"
    assert key not in str(texts)


@pytest.mark.req("ADM-215")
async def test_it_takes_no_more_than_the_documented_number(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.operator()
    present = len(await desk.operators.listed())
    monkeypatch.setattr("app.services.operators.OPERATORS_MAX", present + 1)
    ident, _ = await desk.operator()
    for _ in range(2):
        with pytest.raises(QmError) as caught:
            await desk.operator()
        assert (caught.value.status, caught.value.code) == (409, "too_many_operators")
        await desk.operators.revoke(ident, OWNER, purge=False)
    await desk.operators.revoke(ident, OWNER, purge=True)
    await desk.operator()


@pytest.mark.req("ADM-217")
async def test_it_shows_no_key_that_is_not_recorded(desk: Desk, no_postgres: Desk) -> None:
    ident, key = await desk.operator()

    for act in (
        no_postgres.operators.create({"name": "x", "role": "viewer"}, OWNER),
        no_postgres.operators.change(ident, {"name": "x"}, OWNER),
        no_postgres.operators.revoke(ident, OWNER, purge=False),
        no_postgres.operators.revoke(ident, OWNER, purge=True),
    ):
        with pytest.raises(QmError) as caught:
            await act
        assert (caught.value.status, caught.value.code) == (503, "storage_unavailable")
    assert await desk.may(key) == "ok"


async def test_the_public_key_and_the_admin_key_have_no_record(desk: Desk, no_postgres: Desk) -> None:
    assert await no_postgres.may(KEY) == "ok"
    assert await no_postgres.may(PUBLIC) == "insufficient_role"


AUDIT_IS_FULL = """
CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE CONSTRAINT TRIGGER no_space AFTER INSERT ON audit
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no_space();
"""


@pytest.mark.req("FLT-111", "ADM-217")
async def test_rights_links_and_their_audit_entries_are_one_transaction(desk: Desk) -> None:
    """The entry alone cannot be written, at the commit: then nothing of it has happened, and nothing is answered."""
    ident, key = await desk.operator()
    mine, token = await desk.links.mint({"label": "his"}, acting(ident, "operator"))
    spare, _ = await desk.operator(name="Spare")
    tables = ("operators", "monitor_links", "audit")
    before = [await rows(desk, table) for table in tables]
    await desk.postgres.execute(AUDIT_IS_FULL)

    for act in (
        desk.operators.create({"name": "x", "role": "viewer"}, OWNER),
        desk.operators.change(ident, {"role": "viewer"}, OWNER),
        desk.operators.revoke(ident, OWNER, purge=False),
        desk.operators.revoke(spare, OWNER, purge=True),
        desk.links.mint({"label": "x"}, OWNER),
        desk.links.revoke(mine["id"], OWNER),
        desk.links.revoke_all(OWNER),
    ):
        with pytest.raises(QmError) as caught:
            await act
        assert (caught.value.status, caught.value.code) == (503, "storage_unavailable")

    assert [await rows(desk, table) for table in tables] == before
    for right in (key, token):
        assert await desk.may(right) == "ok"
    await desk.postgres.execute("DROP TRIGGER no_space ON audit; DROP FUNCTION no_space()")
    assert (await desk.operators.revoke(ident, OWNER, purge=False))[1] == 1
    for right in (key, token):
        assert await desk.may(right) == "unauthorized"
