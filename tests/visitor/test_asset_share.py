"""Page files of other builds during a rolling deploy: real stores, two builds."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.infrastructure.page_files import KEPT_SEC, MOST, PageFiles
from app.infrastructure.valkey import Valkey
from app.services import asset_share as module
from app.services.asset_file import content_hash
from app.services.asset_share import AssetShare
from app.services.assets import STATIC_DIR, Assets


@pytest.fixture
async def valkey(valkey_url: str) -> AsyncIterator[Valkey]:
    made = Valkey(valkey_url)
    yield made
    await made.close()


@pytest.fixture
def files(valkey: Valkey, fresh_prefix: str) -> PageFiles:
    return PageFiles(valkey, fresh_prefix)


@pytest.fixture
def other_build(tmp_path: Path) -> Assets:
    """The next release: another style and another script."""
    static = tmp_path / "static"
    shutil.copytree(STATIC_DIR, static)
    for name, more in (("waiting.css", "\nbody{color:red}"), ("main.js", "\nwindow.next = 1;\n")):
        path = static / "waiting" / name
        path.write_text(path.read_text() + more)
    return Assets(static_dir=static)


@pytest.mark.req("VIS-107", "VIS-223", "FLT-137", "FLT-136", "CFG-208")
@pytest.mark.req("PAG-166", "PAG-167")
async def test_both_builds_serve_every_file_that_either_hands_out(files: PageFiles, other_build: Assets) -> None:
    now = Assets()
    shares = [AssetShare(build, files, workers=1) for build in (now, other_build)]
    for share in shares:
        await share.start()

    names = {*now.bodies(), *other_build.bodies()}
    assert len(names) > len(now.bodies())
    for name in names:
        bodies = [found.body for share in shares if (found := await share.find(name)) is not None]
        assert len(bodies) == 2
        assert bodies[0] == bodies[1]
        found = await shares[0].find(name)
        assert found is not None
        assert found.media_type.partition("/")[0] in ("text", "image", "application")
    for share in shares:
        await share.stop()


@pytest.mark.req("FLT-151")
async def test_it_takes_only_what_its_name_says_and_asks_for_few_unknown_names(
    files: PageFiles, valkey: Valkey, monkeypatch: pytest.MonkeyPatch, fresh_prefix: str
) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "mono", lambda: now)
    share = AssetShare(Assets(), files, workers=1)
    good = b"body{}"
    name, forged = (f"waiting-{content_hash(body)}.css" for body in (good, b"other"))
    await files.put({name: good, forged: b"forged", "console.css": b"x"})

    assert await share.find(forged) is None
    assert await files.get(forged) is None, "removed"
    assert (await share.find(name)) is not None
    for strange in ("console.css", "waiting-.css", name.upper(), "../" + name, name + ".gz"):
        assert await share.find(strange) is None
    missing = [f"waiting-{content_hash(bytes([n]))}.js" for n in range(30)]
    now += 1
    for each in missing:
        assert await share.find(each) is None
    await files.put({each: bytes([n]) for n, each in enumerate(missing)})
    now += 1
    found = [each for each in missing if await share.find(each)]
    assert found == missing[20:], "misses are remembered; the last ten were not asked for"
    now += 60
    assert await share.find(missing[0]) is not None
    assert 0 < await valkey.execute("TTL", f"{fresh_prefix}asset:{name}") <= KEPT_SEC == 7 * 86_400


@pytest.mark.req("FLT-137")
async def test_it_keeps_64_files_and_puts_its_own_when_the_store_is_back(
    files: PageFiles,
) -> None:
    bodies = {f"waiting-{content_hash(bytes([n]))}.js": bytes([n]) for n in range(70)}
    for name, body in bodies.items():
        await files.put({name: body})
    assert len([name for name in bodies if await files.get(name)]) == MOST == 64

    gone = Valkey("unix:///nonexistent.sock", timeout_ms=100)
    away = AssetShare(Assets(), PageFiles(gone, "x"), workers=1)
    await away.start()
    assert await away.find(next(iter(bodies))) is None
    assert await away.find(next(iter(Assets().bodies()))) is not None
    await away.stop()
    await gone.close()
