"""The guides as pages: what they are made of, where their links lead, how often they are made."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

from app.core.version import VERSION
from app.domain.doc_pages import EXAMPLES, NEWS, PAGES, counterpart, place_of
from app.services import docs as module
from app.services.assets import Assets
from app.services.docs import BASES_KEPT, POLICY, ROOT, Docs, Place
from app.services.markdown_pages import render

HERE = Place("https://line.example.org")


@pytest.fixture(scope="module")
def assets() -> Assets:
    return Assets()


@pytest.fixture(scope="module")
def pages(assets: Assets) -> dict[str, str]:
    """Every page for one base address."""

    async def read() -> dict[str, str]:
        docs = Docs(assets)
        for path in PAGES:
            assert await docs.page(path, HERE) is not None, path
        return {path: docs.body(path, HERE).decode() for path in PAGES}

    return asyncio.run(read())


def anchors(page: str) -> list[str]:
    return re.findall(r'<h[1-6] id="([^"]+)"', page)


@pytest.mark.req("PAG-194", "PAG-195", "PAG-203")
def test_it_has_two_guides_in_two_languages_and_the_release_notes(pages: dict[str, str]) -> None:
    guides = ("/docs", "/docs/operations", "/docs/integration")
    for path in guides:
        english, thai = pages[path], pages[path.replace("/docs", "/docs/th", 1)]
        assert '<html lang="en">' in english
        assert '<html lang="th">' in thai
        assert f'<a href="{path.replace("/docs", "/docs/th", 1)}" lang="th"' in english
        assert f'<a href="{path}" lang="en"' in thai
        assert "ให้ถือฉบับภาษาอังกฤษ" in thai
        assert len(re.findall(r"[\u0e00-\u0e7f]", thai)) > 400
    assert f"Version {VERSION} is running" in pages[NEWS]
    assert "<h2" in pages[NEWS]


@pytest.mark.req("PAG-194")
def test_its_thai_guides_have_the_sections_of_the_english_ones(pages: dict[str, str]) -> None:
    """In their order and with their anchors, so that a link finds a section in both; English may be ahead."""
    for path, least in (("/docs/operations", 24), ("/docs/integration", 8)):
        english, thai = anchors(pages[path]), anchors(pages[path.replace("/docs", "/docs/th", 1)])
        assert [anchor for anchor in english if anchor in thai] == thai, path
        assert len(thai) >= least


@pytest.mark.req("PAG-200")
def test_its_links_lead_to_pages_and_sections_that_are_served(pages: dict[str, str]) -> None:
    sections = {path: {"", *anchors(page), "main"} for path, page in pages.items()}
    for path, page in pages.items():
        body = page.partition("<main")[2]
        assert "<a>" not in body, f"{path}: a link to a file that is not served"
        for link in re.findall(r'href="([^"]+)"', page):
            if "://" in link or link.startswith(("/assets/", *EXAMPLES)):
                continue
            target, _, section = link.partition("#")
            assert unquote(section) in sections[target or path], (path, link)
        assert not re.search(r">[^<]*\.md</a>", page), "a reader of the page knows no files"
    for page_ in PAGES.values():
        source = (ROOT / page_.source).read_text()
        missing = [link for link in re.findall(r"\]\(([^)\s]+)\)", source) if place_of(link, page_) is None]
        assert missing == [], page_.source
    assert all((ROOT / source).is_file() for source in EXAMPLES.values())


@pytest.mark.req("PAG-196", "PAG-199")
def test_it_shows_this_server_s_address_and_says_so_first(pages: dict[str, str]) -> None:
    for path, page in pages.items():
        body = page.partition("<main")[2]
        assert re.search(r'^[^>]*>\s*<p class="said">.*<code>https://line\.example\.org</code>', body), path
        assert "queue.example/" not in body
        assert not re.search("[\x02\x03]", page)
    assert "https://line.example.org/qm.js" in pages["/docs/integration"]


@pytest.mark.req("PAG-199")
def test_it_works_without_script_and_has_contents_and_code_that_can_be_copied(pages: dict[str, str]) -> None:
    for path, page in pages.items():
        listed = re.findall(r'<li class="l[23]"><a href="#([^"]+)">', page)
        assert listed == re.findall(r'<h[23] id="([^"]+)"', page), path
        assert len(set(anchors(page))) == len(anchors(page)), path
        assert "<script src=" in page
        assert not re.search(r"<script(?! src=\"/assets/docs-)|\son\w+=|style=", page), path
    code = re.findall(r"<pre><code[^>]*>(.*?)</code></pre>", pages["/docs/integration"], re.S)
    assert any(block.startswith("curl -s -H") for block in code), "as it is typed, without a prompt"


@pytest.mark.req("PAG-205", "PAG-207")
def test_it_asks_for_nothing_elsewhere(pages: dict[str, str]) -> None:
    for page in pages.values():
        own = re.findall(r'(?:src|href)="([^"]+)"[^>]*(?:defer|>)', page.partition("<body")[0])
        assert own
        assert all(url.startswith("/assets/") for url in own)
        assert not re.search(r"<(?:img|iframe|link[^>]+preconnect)", page)
    assert "default-src 'none'" in POLICY
    assert "unsafe" not in POLICY


@pytest.mark.req("PAG-200")
def test_it_passes_no_html_of_a_source_through() -> None:
    made = render("# A <b>\n\n<script>x</script>\n\n[x](javascript:alert(1)) [y](gone.md) `<i>`\n", lambda _link: None)

    assert made.title == "A <b>"
    assert "<script" not in made.body
    assert "href" not in made.body
    assert "&lt;script&gt;" in made.body


def test_it_names_two_sections_of_one_name_apart() -> None:
    made = render("# T\n\n## Same\n\n## Same\n\n<!-- #named -->\n### Other\n", str)

    assert [heading.anchor for heading in made.headings] == ["t", "same", "same-1", "named"]
    assert "named --" not in made.body


@pytest.mark.req("PAG-197")
async def test_it_renders_once_per_version_of_a_file_and_keeps_sixteen_addresses(
    assets: Assets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("spec", "adr", "images"))
    rendered: list[str] = []
    monkeypatch.setattr(module, "render", lambda source, *more: rendered.append(source[:20]) or render(source, *more))
    docs = Docs(assets, root=tmp_path)

    first = [await docs.page("/docs", Place(f"https://{name}.example.org")) for name in "ab"]
    await asyncio.gather(*(docs.page("/docs", HERE) for _ in range(5)))

    assert len(rendered) == 1
    assert first[0] is await docs.page("/docs", Place("https://a.example.org"))
    assert first[0] is not None
    assert first[1] is not None
    assert first[0].etag != first[1].etag
    for number in range(BASES_KEPT):
        await docs.page("/docs", Place(f"https://h{number}.example.org"))
    assert first[0] is not await docs.page("/docs", Place("https://a.example.org")), "the oldest one was dropped"
    assert len(docs._sent) == BASES_KEPT

    (tmp_path / "docs/README.md").write_text("# New\n")
    again = await docs.page("/docs", HERE)
    assert len(rendered) == 2
    assert again is not None
    assert b"<h1>New</h1>" in docs.body("/docs", HERE)
    (tmp_path / "docs/README.md").unlink()
    assert await docs.page("/docs", HERE) is None
    assert await docs.page(NEWS, HERE) is None


async def test_it_escapes_an_address_that_somebody_made_up(assets: Assets) -> None:
    docs = Docs(assets)
    place = Place('http://"><script>alert(1)</script>')
    await docs.page("/docs", place)

    assert b"<script>alert" not in docs.body("/docs", place)


def test_every_thai_page_has_its_english_one() -> None:
    thai = [page for page in PAGES.values() if page.lang == "th"]

    assert [counterpart(page) is not None for page in thai] == [True] * 3
    assert counterpart(PAGES["/docs/settings"]) is None
