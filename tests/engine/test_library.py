"""The Lua library as a whole: headers, names, the tables it shares with Python, loading, errors with a place."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from app.domain import facts, facts_of_passes, layout, ticket_state
from app.domain.room import RoomState
from app.infrastructure import engine_pack, engine_results, lua_docs
from app.infrastructure.lua_bundle import LUA_DIR, bundle, engine_bundle, manifest
from app.infrastructure.lua_loader import LuaFailure, LuaLoader
from tests.engine.world import ROOM, Browser, World

LUA = {name: (LUA_DIR / name).read_text() for name in manifest()}


def _table(name: str) -> dict[str, int]:
    """Numbers of the Lua table ``qm.<name>``."""
    text = "\n".join(LUA.values())
    found = re.search(rf"^qm\.{name} = \{{(.*?)\}}", text, re.MULTILINE | re.DOTALL)
    assert found, name
    return {key: int(value) for key, value in re.findall(r"(\w+) = (\d+)", found[1])}


@pytest.mark.parametrize(
    ("name", "enum"),
    [
        ("CODE", engine_pack.RoomCode),
        ("T", engine_results.TicketState),
        ("S", RoomState),
        ("PRESENTED", engine_results.Presented),
        ("REASON", engine_results.Reason),
        ("VIEW", engine_results.ViewState),
        ("JOIN", engine_results.JoinCode),
        ("VERDICT", engine_results.Verdict),
        ("WHY", ticket_state.Why),
        ("RELEASED", facts_of_passes.Released),
        ("BY", facts_of_passes.PromotedBy),
        ("FACT", facts.FactType),
        ("ASK", engine_pack.Ask),
    ],
)
def test_it_has_the_same_numbers_as_python(name: str, enum: type[IntEnum]) -> None:
    assert _table(name) == {member.name: member.value for member in enum}


def test_it_has_the_same_flags_and_sizes_as_python() -> None:
    base = LUA["lib/base.lua"]
    sizes = {name: int(re.search(rf"qm\.{name} = (\d+)", base)[1]) for name in ("LAYOUT", "CHUNK")}  # type: ignore[index]

    assert _table("FLAG").items() <= {flag.name: flag.value for flag in layout.Flag}.items()
    assert sizes == {"LAYOUT": layout.LAYOUT, "CHUNK": layout.CHUNK}
    assert (layout.TICKET.size, layout.DOOR.size) == (layout.TICKET_BYTES, layout.DOOR_BYTES) == (72, 48)


def test_it_packs_the_header_in_the_order_of_python() -> None:
    text = LUA["lib/header.lua"]
    listed = re.findall(r'"(\w+)"', text.split("qm.HEADER_FIELDS = {")[1].split("}")[0])
    read = re.search(r"\n  local\n(.*?)= unpack_", text, re.DOTALL)
    packed = re.search(r"return pack\(FORMAT,\n(.*?)\)\nend", text, re.DOTALL)
    assigned = re.findall(r"(\w+) = (\w+)", text.split("return {")[1].split("}")[0])

    assert read
    assert packed
    assert tuple(listed) == layout.HEADER_FIELDS
    assert tuple(re.findall(r"\w+", read[1])) == layout.HEADER_FIELDS
    assert tuple(re.findall(r"h\.(\w+)", packed[1])) == layout.HEADER_FIELDS
    assert [a for a, _ in assigned] == [b for _, b in assigned] == list(layout.HEADER_FIELDS)


def test_it_has_a_complete_header_for_every_function_file() -> None:
    files = lua_docs.function_files()

    assert len(files) == len([name for name in LUA if name.startswith("fn/")])
    for file in files:
        assert Path(file.name).stem in file.functions


def test_it_names_only_known_errors_and_facts_in_the_headers() -> None:
    codes = {member.name for member in engine_pack.RoomCode}
    words = {kind.word for kind in facts.FactType}
    for file in lua_docs.function_files():
        assert set(re.findall(r"\b[A-Z]{4,}\b", file.header["Errors"])) <= codes, file.name
        written = set(re.findall(r"qm\.FACT\.(\w+)", LUA[file.name]))
        assert {name.lower() for name in written} <= set(re.findall(r"\w+", file.header["Facts"])), file.name
        assert set(re.findall(r"\b\w+_\w+\b", file.header["Facts"])) <= words, file.name


def test_it_keeps_lua_files_small_and_lists_them_all() -> None:
    on_disk = {str(path.relative_to(LUA_DIR)) for path in LUA_DIR.rglob("*.lua")}

    assert on_disk == set(LUA)
    assert {name for name, text in LUA.items() if text.count("\n") > 160} == set()


def test_it_publishes_the_headers_as_they_are() -> None:
    assert lua_docs.write_page(check=True) == 0, "run python -m app docs"


def test_it_names_the_library_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "manifest").write_text("# files\na.lua\nb.lua\n")
    (tmp_path / "a.lua").write_text("qm.x = 1\n")
    (tmp_path / "b.lua").write_text("qm.y = 2\n\nqm.z = 3\n")
    one = bundle(tmp_path)
    (tmp_path / "b.lua").write_text("qm.y = 2\n\nqm.z = 4\n")
    two = bundle(tmp_path)

    assert one.name != two.name
    assert one.function("join") == f"{one.name}_join"
    line = one.code.split("\n").index("qm.z = 3") + 1
    assert one.place(line) == "b.lua:3"
    assert one.explain(f"user_function:{line}: oops") == "b.lua:3: oops"


async def test_it_loads_a_missing_library_by_itself(world: World) -> None:
    await world.valkey.execute("FUNCTION", "FLUSH")

    await world.create(rate_per_minute=0)
    await world.valkey.execute("FUNCTION", "DELETE", engine_bundle().name)
    headers = await world.jobs.headers([ROOM])

    assert headers[0] is not None
    assert headers[0]["verified"] is True, "it was compared in this life of Valkey"


async def test_it_names_file_and_line_of_a_failure(world: World) -> None:
    await world.create()
    await world.valkey.execute("SET", world.keys.deadlines(1), "not a sorted set")

    with pytest.raises(LuaFailure, match=r"deadlines\.lua:\d+"):
        await world.jobs.tick(ROOM)
    (failure,) = await world.jobs.tick_many([ROOM])
    assert isinstance(failure, LuaFailure)


async def test_it_refuses_a_library_that_does_not_compile(world: World, tmp_path: Path) -> None:
    (tmp_path / "manifest").write_text("a.lua\n")
    (tmp_path / "a.lua").write_text("qm.x = = 1\n")

    with pytest.raises(LuaFailure, match=r"a\.lua:1"):
        await LuaLoader(world.valkey, bundle(tmp_path)).load()


async def test_it_keeps_two_prefixes_apart(world: World, fresh_prefix: str) -> None:
    other = World(world.valkey, fresh_prefix + "b:")
    await world.create(rate_per_minute=0)
    await other.create(rate_per_minute=0)

    await world.joined(3)

    assert (await other.figures()).waiting == 0
    assert (await world.status(Browser(ticket=1))).ticket == 0
