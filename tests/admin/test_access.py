"""Credentials: which one decides, what a failure costs, sessions, stream tickets, the lock."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from app.core.errors import Forbidden, RateLimited, StorageUnavailable, Unauthorized
from app.domain.keyring import Purpose
from app.domain.principal import Via
from app.domain.roles import GROUPS, Role, can
from app.domain.tokens import SignedTokens
from app.infrastructure.admin_store import AdminStore
from app.services.sessions import SESSION_MS, Bad
from tests.admin.desk import KEY, NOW, OWNER, PUBLIC, Desk, brought, client_at


@pytest.mark.req("ADM-040")
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
async def test_it_reads_the_scheme_without_case_and_counts_only_other_schemes(desk: Desk, scheme: str) -> None:
    principal = await desk.access.authenticate(brought(f"{scheme} {KEY}"))
    store = AdminStore(desk.valkey, desk.prefix)

    assert (principal.kind, principal.role, principal.via, principal.name) == (
        "admin_key",
        Role.OWNER,
        "bearer",
        "ADMIN_KEY",
    )
    for empty in ("Bearer", "Bearer ", "bearer   "):
        assert await desk.outcome(brought(empty)) == "unauthorized"
    assert (await store.failures(client_at("192.0.2.1").key, count=False))[0] == 0
    assert await desk.outcome(brought("Basic " + base64.b64encode(b"a:b").decode())) == "unauthorized"
    assert (await store.failures(client_at("192.0.2.1").key, count=False))[0] == 1


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer x",
        f"Bearer{KEY}",
        KEY,
        f"Bearer {KEY}x",
        f"Bearer {KEY} x",
        f"Token {KEY}",
        f"Bearer {KEY}, Bearer {KEY}",
        "Bearer \ud800",
    ],
)
async def test_it_refuses_every_other_header_with_the_same_answer(desk: Desk, header: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        await desk.access.authenticate(brought(header))

    assert (caught.value.code, caught.value.sentence) == ("unauthorized", "A valid key is required.")
    assert caught.value.headers["WWW-Authenticate"] == 'Bearer realm="queue-manager"'


async def test_it_judges_a_request_with_a_header_by_the_header_alone(desk: Desk) -> None:
    cookie = await desk.cookie()

    assert (await desk.access.authenticate(brought(cookies=(cookie,)))).via == Via.SESSION
    for header in ("", "Bearer ", "Bearer wrong", "Basic x"):
        with pytest.raises(Unauthorized) as caught:
            await desk.access.authenticate(brought(header, cookies=(cookie,)))
        assert not getattr(caught.value, "cookie_failed", False)


async def test_it_tells_the_public_key_that_it_has_no_right_here_and_counts_nothing(desk: Desk) -> None:
    strict = desk.another(limit=1)
    for _ in range(3):
        with pytest.raises(Forbidden) as caught:
            await strict.access.authenticate(brought(f"Bearer {PUBLIC}"))
        assert caught.value.code == "insufficient_role"


@pytest.mark.req("ADM-049", "ADM-050", "ADM-051", "CFG-140", "CFG-055")
async def test_it_answers_the_allowed_failures_and_then_locks_right_and_wrong_alike(desk: Desk) -> None:
    codes = [await desk.outcome(brought(f"Bearer wrong{n}")) for n in range(21)]
    cookie = (await desk.sessions.begin(await desk.access.authenticate(brought(f"Bearer {KEY}", at="192.0.2.9"))))[0]

    assert codes == ["unauthorized"] * 20 + ["too_many_auth_failures"]
    store = AdminStore(desk.valkey, desk.prefix)
    assert await store.locked() == 1
    await store.note_locked(b"\xc0\x00\x02\x63", 60_000)
    await store.note_locked(b"\xc0\x00\x02\x64", 1)
    while await store.locked() > 2:
        await asyncio.sleep(0.001)  # a lock ends by itself
    ticket = await desk.sessions.make_ticket(await desk.access.authenticate(brought(f"Bearer {KEY}", at="192.0.2.9")))
    for locked_out in (
        brought(f"Bearer {KEY}"), brought(f"Bearer {PUBLIC}"), brought("Bearer wrong"), brought(cookies=(cookie,)),
        brought(in_query="key"), brought(ticket=ticket),
    ):  # fmt: skip
        with pytest.raises(RateLimited) as caught:
            await desk.access.authenticate(locked_out)
        error = caught.value
        assert error.code == "too_many_auth_failures"
        wait = int(error.headers["Retry-After"])
        assert 1 <= wait <= 60
        assert error.members["retryAfterSec"] == wait
        assert error.headers["X-RateLimit-Limit"] == "20"
        assert error.headers["X-RateLimit-Remaining"] == "0"
        assert int(error.headers["X-RateLimit-Reset"]) == wait
    with pytest.raises(Unauthorized) as allowed:
        await desk.access.authenticate(brought("Bearer wrong", at="192.0.2.10"))
    assert not [name for name in allowed.value.headers if name.startswith("X-RateLimit")]
    assert await desk.outcome(brought()) == "unauthorized"
    assert await desk.outcome(brought(f"Bearer {KEY}", at="192.0.2.9")) == "ok"
    assert (await desk.sessions.redeem(ticket)) is not None


@pytest.mark.req("ADM-050")
async def test_the_window_begins_with_the_first_failure_and_is_not_drawn_out(desk: Desk) -> None:
    strict = desk.another(limit=2)
    assert await strict.outcome(brought("Bearer wrong")) == "unauthorized"
    (key,) = await desk.valkey.execute("KEYS", f"{desk.prefix}*fail*")
    assert 59_000 < await desk.valkey.execute("PTTL", key) <= 60_000
    await desk.valkey.execute("PEXPIRE", key, 1500)

    for _ in range(3):
        await strict.outcome(brought("Bearer wrong"))
    assert 0 < await desk.valkey.execute("PTTL", key) <= 1500
    with pytest.raises(RateLimited) as caught:
        await strict.access.authenticate(brought(f"Bearer {KEY}"))
    assert caught.value.headers["Retry-After"] in {"1", "2"}
    await desk.valkey.execute("PEXPIRE", key, 1)
    while await desk.valkey.execute("EXISTS", key):
        await asyncio.sleep(0.001)
    assert await strict.outcome(brought(f"Bearer {KEY}")) == "ok"


@pytest.mark.req("CFG-055")
async def test_it_counts_failures_of_all_processes_and_sign_ins_together(desk: Desk) -> None:
    other = desk.another()
    for _ in range(10):
        assert await desk.outcome(brought("Bearer wrong")) == "unauthorized"
        with pytest.raises(Unauthorized):
            await other.access.sign_in(client_at("192.0.2.1"), "wrong")

    with pytest.raises(RateLimited):
        await other.access.sign_in(client_at("192.0.2.1"), KEY)
    assert await desk.outcome(brought(f"Bearer {KEY}")) == "too_many_auth_failures"


async def test_it_never_answers_more_failures_than_allowed_at_the_same_instant(desk: Desk) -> None:
    codes = await asyncio.gather(*(desk.outcome(brought(f"Bearer wrong{n}")) for n in range(60)))

    assert sorted(codes) == ["too_many_auth_failures"] * 40 + ["unauthorized"] * 20


@pytest.mark.req("ADM-037", "CFG-140")
async def test_it_counts_nothing_that_is_no_guess(desk: Desk) -> None:
    strict = desk.another(limit=1)
    cookie = await strict.cookie()
    strict.clock[0] += SESSION_MS
    signed_out = await strict.another(clock=[NOW]).cookie()
    later = strict.another(clock=[NOW])
    await later.access.sign_out(brought(cookies=(signed_out,)))

    for harmless in (
        brought(),
        brought("Bearer "),
        brought(in_query="token"),
        brought(cookies=(cookie,)),
        brought(ticket="x", is_foreign=True),
    ):
        assert await strict.outcome(harmless) in {"unauthorized", "credential_in_query", "csrf_required"}
    assert await later.outcome(brought(cookies=(signed_out,))) == "unauthorized"
    key = (await strict.operator("viewer"))[1]
    _, link = await strict.links.mint({"label": "Agency"}, OWNER)
    for _ in range(3):
        assert await strict.may(KEY) == await strict.may(key) == await strict.may(link) == "ok"
        assert await strict.may(PUBLIC) == "insufficient_role"
        await strict.access.sign_in(client_at("192.0.2.1"), KEY)
    assert await strict.may("wrong") == "unauthorized", "the first that counts"
    assert await strict.may(link) == await strict.may(PUBLIC) == "too_many_auth_failures"
    with pytest.raises(RateLimited):
        await strict.access.sign_in(client_at("192.0.2.1"), KEY)


@pytest.mark.req("ADM-056", "CFG-055")
async def test_it_never_locks_when_the_budget_is_off(desk: Desk) -> None:
    off = desk.another(limit=0)

    assert {await off.outcome(brought("Bearer wrong")) for _ in range(60)} == {"unauthorized"}
    assert await off.outcome(brought(f"Bearer {KEY}")) == "ok"


@pytest.mark.req("FLT-035")
async def test_it_counts_alone_while_valkey_is_away(cut_off: Desk) -> None:
    assert await cut_off.outcome(brought(f"Bearer {KEY}")) == "ok"
    codes = [await cut_off.outcome(brought("Bearer wrong")) for _ in range(21)]

    assert codes == ["unauthorized"] * 20 + ["too_many_auth_failures"]
    assert await cut_off.outcome(brought(f"Bearer {KEY}")) == "too_many_auth_failures"
    assert await cut_off.outcome(brought(f"Bearer {KEY}", at="192.0.2.9")) == "ok"


async def test_it_lets_no_session_through_that_it_cannot_confirm(desk: Desk, cut_off: Desk) -> None:
    cookie = await desk.cookie()

    with pytest.raises(StorageUnavailable) as caught:
        await cut_off.access.authenticate(brought(cookies=(cookie,)))

    assert caught.value.headers["Retry-After"] == "5"
    assert await cut_off.outcome(brought(f"Bearer {KEY}")) == "ok"


@pytest.mark.req("ADM-063", "CFG-158")
async def test_it_ends_a_session_twelve_hours_after_sign_in_however_it_is_used(desk: Desk) -> None:
    assert SESSION_MS == 12 * 3_600_000
    cookie = await desk.cookie()
    for _ in range(11):
        desk.clock[0] += 3_600_000
        assert await desk.outcome(brought(cookies=(cookie,))) == "ok"

    desk.clock[0] = NOW + SESSION_MS - 1
    assert await desk.outcome(brought(cookies=(cookie,))) == "ok"
    desk.clock[0] = NOW + SESSION_MS
    assert await desk.sessions.find([cookie]) is Bad.OVER


@pytest.mark.req("ADM-062")
@pytest.mark.parametrize("sign_v2", [False, True])
async def test_it_takes_a_cookie_with_any_altered_byte_for_a_forgery_and_keeps_keys_out_of_it(
    desk: Desk, sign_v2: bool
) -> None:
    desk = desk.another(sign_v2=sign_v2)
    cookie = await desk.cookie()
    body, _, mac = cookie.partition(".")

    assert KEY.encode() not in base64.urlsafe_b64decode(body + "===")
    for at in range(len(cookie)):
        other = "A" if cookie[at] != "A" else "B"
        if cookie[at] != ".":
            assert await desk.sessions.find([cookie[:at] + other + cookie[at + 1 :]]) is Bad.FORGED
    assert await desk.sessions.find([body + "." + mac[:-2]]) is Bad.FORGED
    assert await desk.sessions.find(["", ".", "x", "a.b", "." + mac]) is Bad.FORGED


@pytest.mark.req("CFG-232")
@pytest.mark.parametrize("sign_v2", [False, True])
async def test_it_refuses_a_session_made_with_secret_alone(desk: Desk, sign_v2: bool) -> None:
    desk = desk.another(sign_v2=sign_v2)
    thief = desk.another(admin_key="not-the-key-but-long-enough")
    payload = {"scope": "session", "sid": "x" * 22, "who": "admin_key", "iat": NOW, "exp": NOW + SESSION_MS}
    signed = SignedTokens(desk.keyring, Purpose.SESSION)

    for cookie in (await thief.cookie(), signed.sign(payload), signed.sign({**payload, "bind": ""})):
        assert await desk.sessions.find([cookie]) is Bad.FORGED
    strict = desk.another(limit=1)
    assert await strict.outcome(brought(cookies=(await thief.cookie(),))) == "unauthorized"
    assert await strict.outcome(brought(f"Bearer {KEY}")) == "too_many_auth_failures"


@pytest.mark.req("ADM-073", "CFG-138", "CFG-151")
async def test_it_ends_sessions_with_the_key_and_carries_them_over_a_rotation_of_secret(desk: Desk) -> None:
    cookie = await desk.cookie()
    new = "n" * 32

    assert await desk.another(secret=new, previous=desk.secret).outcome(brought(cookies=(cookie,))) == "ok"
    assert await desk.another(secret=new).sessions.find([cookie]) is Bad.FORGED
    assert await desk.another(admin_key="another-admin-key").sessions.find([cookie]) is Bad.FORGED


@pytest.mark.req("CFG-158")
async def test_it_accepts_no_other_kind_of_token_as_a_session(desk: Desk) -> None:
    cookie = await desk.cookie()
    body = json.loads(base64.urlsafe_b64decode(cookie.partition(".")[0] + "==="))
    signed = SignedTokens(desk.keyring, Purpose.VISITOR)
    wrong = [
        {**body, "scope": "monitor"}, {**body, "scope": None}, {name: body[name] for name in body if name != "scope"},
        {**body, "who": "operator"}, {**body, "room": "shop"}, {**body, "ticket": 1}, {**body, "iat": str(NOW)},
        {**body, "exp": True}, {**body, "sid": 5}, {**body, "sid": ""}, {**body, "bind": "ü"},
        {"room": "shop", "gen": 1, "ticket": 1, "iat": NOW},
    ]  # fmt: skip

    assert await desk.outcome(brought(cookies=(signed.sign(body),))) == "ok"
    for payload in wrong:
        assert await desk.sessions.find([signed.sign(payload)]) is Bad.FORGED
    assert await desk.sessions.find([signed.sign({**body, "exp": body["exp"] + 1})]) is Bad.OVER
    assert await desk.sessions.find([signed.sign({**body, "iat": NOW + 60_001, "exp": NOW + 70_000})]) is Bad.OVER


@pytest.mark.req("ADM-075")
async def test_it_lets_a_valid_cookie_win_over_others(desk: Desk) -> None:
    good, old = await desk.cookie(), await desk.cookie()
    await desk.access.sign_out(brought(cookies=(old,)))

    for cookies in ((old, good), (good, old), ("junk", good), ("junk", old, good)):
        assert (await desk.access.authenticate(brought(cookies=cookies))).via == Via.SESSION


async def test_it_refuses_a_signed_out_session_everywhere_and_marks_only_the_cookie_as_failed(desk: Desk) -> None:
    cookie = await desk.cookie()
    other = desk.another()
    assert await other.outcome(brought(cookies=(cookie,))) == "ok"

    ended = await desk.access.sign_out(brought(cookies=(cookie, "junk")))

    assert len(ended) == 1
    with pytest.raises(Unauthorized) as caught:
        await other.access.authenticate(brought(cookies=(cookie,)))
    assert caught.value.cookie_failed  # type: ignore[attr-defined]


async def test_it_claims_no_sign_out_that_is_not_recorded(desk: Desk, cut_off: Desk) -> None:
    cookie = await desk.cookie()

    with pytest.raises(StorageUnavailable):
        await cut_off.access.sign_out(brought(cookies=(cookie,)))


@pytest.mark.req("FLT-038", "ADM-070")
async def test_it_keeps_refusing_a_sign_out_it_heard_of_when_valkey_forgets(desk: Desk) -> None:
    cookie = await desk.cookie()
    (session,) = await desk.another().access.sign_out(brought(cookies=(cookie,)))
    desk.sessions.note_signed_out(session.session_id)
    await desk.valkey.execute("DEL", f"{desk.prefix}{{admin}}:out:{session.session_id}")

    assert await desk.sessions.find([cookie]) is Bad.OVER
    assert await desk.another().outcome(brought(cookies=(cookie,))) == "ok"


@pytest.mark.req("CFG-158")
async def test_it_gives_the_rights_of_its_maker_to_a_ticket_once(desk: Desk) -> None:
    maker = await desk.access.authenticate(brought(cookies=(await desk.cookie(),)))
    ticket = await desk.sessions.make_ticket(maker)

    assert len(ticket) == 43
    assert await desk.another().access.authenticate(brought(ticket=ticket)) == maker
    assert await desk.outcome(brought(ticket=ticket)) == "unauthorized"


@pytest.mark.req("ADM-296", "ADM-053")
async def test_it_counts_a_ticket_that_is_none_and_examines_none_that_another_page_sent(desk: Desk) -> None:
    strict = desk.another(limit=1)
    ticket = await strict.sessions.make_ticket(await strict.access.authenticate(brought(f"Bearer {KEY}")))

    assert await strict.outcome(brought(ticket=ticket, is_foreign=True)) == "csrf_required"
    assert await strict.outcome(brought(ticket=ticket)) == "ok"
    for number, junk in enumerate((ticket, "", "x", "é" * 43, "A" * 43)):
        lone = desk.another(limit=1, prefix=f"{desk.prefix}{number}:")
        assert await lone.outcome(brought(ticket=junk)) == "unauthorized"
        assert await lone.outcome(brought(f"Bearer {KEY}")) == "too_many_auth_failures"


@pytest.mark.req("ADM-301")
@pytest.mark.req("ADM-053")
async def test_each_credential_that_is_no_good_counts_once(desk: Desk) -> None:
    strict = desk.another(limit=100, clock=list(desk.clock))
    revoked, revoked_key = await strict.operator()
    await strict.operators.revoke(revoked, OWNER, purge=False)
    links = [await strict.links.mint({}, OWNER) for _ in range(2)]
    await strict.links.revoke(links[0][0]["id"], OWNER)
    cookie = await strict.cookie()
    ticket = await strict.sessions.make_ticket(await strict.access.authenticate(brought(f"Bearer {KEY}")))
    assert await strict.outcome(brought(ticket=ticket)) == "ok"
    strict.clock[0] += 3_600_001
    wrong = [brought(f"Bearer {text}") for text in ("guess", revoked_key, links[0][1], links[1][1])]
    wrong += [brought(ticket=text) for text in (ticket, "A" * 43)]
    wrong += [brought(cookies=(cookie[:-2] + ("AA" if cookie[-2:] != "AA" else "BB"),)), brought("Basic eDp5")]

    for count, what in enumerate(wrong, 1):
        assert await strict.outcome(what) == "unauthorized"
        assert (await strict.store.failures(what.client.key, count=False))[0] == count, what
    with pytest.raises(Unauthorized):
        await strict.access.sign_in(wrong[0].client, "guess")
    assert (await strict.store.failures(wrong[0].client.key, count=False))[0] == len(wrong) + 1


@pytest.mark.req("CFG-158")
async def test_it_lets_a_ticket_end_after_thirty_seconds_and_stores_its_hash_only(desk: Desk) -> None:
    ticket = await desk.sessions.make_ticket(await desk.access.authenticate(brought(f"Bearer {KEY}")))
    (key,) = await desk.valkey.execute("KEYS", f"{desk.prefix}*sse*")

    assert 29_000 < await desk.valkey.execute("PTTL", key) <= 30_000
    stored = key + await desk.valkey.execute("GET", key)
    assert ticket.encode() not in stored
    assert KEY.encode() not in stored


async def test_it_refuses_a_ticket_whose_session_was_signed_out_meanwhile(desk: Desk) -> None:
    cookie = await desk.cookie()
    ticket = await desk.sessions.make_ticket(await desk.access.authenticate(brought(cookies=(cookie,))))
    await desk.access.sign_out(brought(cookies=(cookie,)))

    assert await desk.outcome(brought(ticket=ticket)) == "unauthorized"


def test_a_higher_role_may_do_everything_of_the_roles_below_it() -> None:
    for low, high in zip(list(Role), list(Role)[1:], strict=False):
        assert {group for group, may in can(low).items() if may} <= {group for group, may in can(high).items() if may}
    assert set(can(Role.OWNER)) == set(GROUPS)
    assert [group for group, may in can(Role.MONITOR).items() if may] == ["reports", "security"]
    assert can(Role.OWNER)["write"]
    assert can(Role.OWNER)["deleteRoom"]
    assert not can(Role.OPERATOR)["deleteRoom"]
