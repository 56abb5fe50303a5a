"""Step-up tokens over real stores: whose they are, how they end, what is kept of them (WHK-113 … WHK-115)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sanic.response import HTTPResponse, text

from app.core.errors import QmError, StorageUnavailable
from app.domain.principal import Principal
from app.domain.roles import Role
from blueprints.admin.confirmed import HEADER, StepUp
from blueprints.admin.routing import Call, Route, Router
from tests.admin.desk import KEY, OWNER, PUBLIC, Desk, brought, client_at

AT = "192.0.2.1"


async def by_key(desk: Desk, key: str = KEY) -> Principal:
    return await desk.access.authenticate(brought(f"Bearer {key}"))


async def by_session(desk: Desk, cookie: str) -> Principal:
    return await desk.access.authenticate(brought(cookies=(cookie,)))


async def answered(desk: Desk, caller: Principal, key: str, at: str = AT) -> str:
    """``ok`` or the code of the refusal to ``caller``, who presents ``key``."""
    try:
        await desk.access.step_up(client_at(at), caller, key)
    except QmError as refusal:
        return refusal.code
    return "ok"


@pytest.mark.req("WHK-115", "ADM-053")
async def test_it_takes_the_callers_own_key_or_the_shared_one_and_counts_wrong_ones(desk: Desk) -> None:
    _, own = await desk.operator("owner")
    _, other = await desk.operator("owner")
    link = (await desk.links.mint({}, OWNER))[1]
    admin, person = await by_key(desk), await by_key(desk, own)
    asked = [(admin, KEY), (person, own), (person, KEY), (admin, own), (person, other), (admin, link), (admin, PUBLIC)]

    codes = [await answered(desk, caller, key) for caller, key in asked]

    assert codes == ["ok"] * 3 + ["step_up_other_person"] * 3 + ["insufficient_role"]
    assert (await desk.store.failures(client_at(AT).key, count=False))[0] == 0
    strict = desk.another(limit=2)
    for _ in range(2):
        assert await answered(strict, admin, "guess", "192.0.2.77") == "unauthorized"
    assert await answered(strict, admin, KEY, "192.0.2.77") == "too_many_auth_failures"


@pytest.mark.req("WHK-114", "WHK-115")
async def test_a_token_is_good_for_its_person_in_its_session_for_five_minutes_anywhere(desk: Desk) -> None:
    desk = desk.another(clock=list(desk.clock))
    elsewhere = desk.another()
    _, key = await desk.operator("owner")
    cookies = [await desk.cookie(), await desk.cookie(), await desk.cookie(key)]
    callers = [await by_session(desk, cookie) for cookie in cookies] + [await by_key(desk), await by_key(desk, key)]

    made = [await desk.step_ups.begin(caller) for caller in callers]

    for place, (token, until) in enumerate(made):
        assert (len(token), token[:5], until) == (48, "qmsu_", desk.now() + 300_000)
        for other, caller in enumerate(callers):
            for _ in range(2):
                assert await elsewhere.step_ups.fits(token, caller) is (place == other)
    junk = ("", "qmsu_", "qmsu_" + "A" * 43, made[0][0][5:], made[0][0] + "A", "qmsu_" + "é" * 43, made[0][0].upper())
    for token in junk:
        assert not await desk.step_ups.fits(token, callers[0])
    desk.clock[0] += 299_999
    assert await elsewhere.step_ups.fits(made[0][0], callers[0])
    desk.clock[0] += 1
    assert not await elsewhere.step_ups.fits(made[0][0], callers[0])


@pytest.mark.req("WHK-114")
async def test_a_token_ends_with_the_session_the_operator_and_the_shared_key(desk: Desk) -> None:
    ident, key = await desk.operator("owner")
    cookie = await desk.cookie()
    session, person, admin = await by_session(desk, cookie), await by_key(desk, key), await by_key(desk)
    by_cookie, by_person, by_admin = [(await desk.step_ups.begin(one))[0] for one in (session, person, admin)]

    await desk.access.sign_out(brought(cookies=(cookie,)))
    assert await desk.outcome(brought(cookies=(cookie,))) == "unauthorized", "nobody is left who could use it"
    anew = await by_session(desk, await desk.cookie())
    assert not await desk.step_ups.fits(by_cookie, anew)
    assert await desk.step_ups.fits(by_person, person)
    await desk.operators.revoke(ident, OWNER, purge=False)
    assert not await desk.step_ups.fits(by_person, person)
    changed = desk.another(admin_key="another-key-of-this-house")
    assert await desk.step_ups.fits(by_admin, admin)
    assert not await changed.step_ups.fits(by_admin, await by_key(changed, changed.admin_key))
    rotated = desk.another(secret="t" * 32, previous=desk.secret)
    assert await rotated.step_ups.fits(by_admin, admin)
    assert not await desk.another(secret="t" * 32).step_ups.fits(by_admin, admin)


@pytest.mark.req("ADM-301", "ADM-022")
async def test_the_store_keeps_no_token_and_nothing_that_opens(desk: Desk, cut_off: Desk) -> None:
    token, _ = await desk.step_ups.begin(await by_key(desk))
    (key,) = await desk.valkey.execute("KEYS", f"{desk.prefix}*step-up*")

    stored = key + await desk.valkey.execute("GET", key)

    assert 290_000 < await desk.valkey.execute("PTTL", key) <= 300_000
    for secret in (token, token[5:], KEY):
        assert secret.encode() not in stored
    with pytest.raises(StorageUnavailable):
        await cut_off.step_ups.fits(token, await by_key(desk))
    with pytest.raises(StorageUnavailable):
        await cut_off.step_ups.begin(await by_key(desk))


async def act(call: Call) -> HTTPResponse:
    """Of a made-up command."""
    return text("done")


COMMAND = Router((Route("POST", "command", act, role=Role.OWNER, step_up=StepUp.ALWAYS),))


@pytest.mark.req("WHK-115")
async def test_a_command_asks_everybody_after_his_role_and_before_the_request_is_read(desk: Desk) -> None:
    """As commands on webhooks are declared; asked without a server."""
    _, key = await desk.operator("operator", "Bob")
    token, _ = await desk.step_ups.begin(await by_key(desk))
    qm = SimpleNamespace(access=desk.access, step_ups=desk.step_ups, settings=SimpleNamespace(cookie_secure=None))

    async def asked(key: str, query: str = "", **headers: str) -> tuple[int, bytes | None]:
        sent = Headers({"authorization": f"Bearer {key}", **headers})
        ctx = SimpleNamespace(client=client_at(AT), inline=None)
        request: Any = SimpleNamespace(
            method="POST", path="/api/admin/command", query_string=query, headers=sent, ctx=ctx,
            app=SimpleNamespace(ctx=SimpleNamespace(qm=qm)),
        )  # fmt: skip
        answer = await COMMAND.answer(request)
        assert answer is not None
        return answer.status, answer.body

    right = {HEADER.lower(): token}
    assert await asked(KEY, **right) == (200, b"done")
    assert await asked(KEY, **right) == (200, b"done"), "any number of commands"
    for headers in ({}, {HEADER.lower(): "qmsu_" + "A" * 43}):
        status, body = await asked(KEY, "x=1", **headers)
        assert (status, b"step_up_required" in (body or b"")) == (403, True)
    status, body = await asked(KEY, "x=1", **right)
    assert (status, b"unknown_field" in (body or b"")) == (400, True)
    status, body = await asked(key, **right)
    assert (status, b"insufficient_role" in (body or b"")) == (403, True)


class Headers(dict[str, str]):
    """Headers of a request, by their names in lower case."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def getall(self, name: str, default: Any = None) -> Any:
        return [self[name.lower()]] if name.lower() in self else default
