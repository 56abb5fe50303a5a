"""Origins and return URLs: an open redirect would be here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.origins import OriginPolicy, parse_origin, parse_pattern, parse_web_url, with_token

TARGET = "https://shop.example/checkout"
WILD = OriginPolicy(TARGET, ["https://*.shop.example", "http://plain.example:8080", "https://[2001:db8::1]"])


@pytest.mark.req("ENG-207")
def test_it_always_covers_the_origin_of_the_target() -> None:
    assert OriginPolicy(TARGET, []).judge("https://shop.example/other") == "https://shop.example/other"


@pytest.mark.req("ENG-208")
@pytest.mark.parametrize(
    ("origin", "covered"),
    [
        ("https://shop.example", True),
        ("https://SHOP.example:443", True),
        ("https://www.shop.example", True),
        ("https://a.b.shop.example", True),
        ("https://evilshop.example", False),
        ("https://shop.example.evil", False),
        ("https://www.shop.example:8443", False),
        ("http://www.shop.example", False),
        ("http://shop.example", False),
        ("http://plain.example:8080", True),
        ("http://plain.example", False),
        ("http://sub.plain.example:8080", False),
        ("https://[2001:db8::1]", True),
        ("null", False),
        ("https://.shop.example", False),
        ("https://*.shop.example", False),
        ("https://www.shop.example/", False),
        ("https://u@www.shop.example", False),
        ("", False),
    ],
)
def test_it_covers_by_scheme_host_and_port(origin: str, covered: bool) -> None:
    parsed = parse_origin(origin)

    assert (parsed is not None and WILD.covers(parsed)) is covered


@pytest.mark.req("ENG-208")
def test_it_does_not_cover_the_bare_domain_by_a_wildcard() -> None:
    policy = OriginPolicy("https://target.example/", ["https://*.shop.example"])

    assert policy.judge("https://shop.example/") is None
    assert policy.judge("https://www.shop.example/") is not None


@pytest.mark.req("ENG-208")
@pytest.mark.parametrize(
    "pattern",
    [
        "*", "https://*", "https://*.example", "https://www.*.example", "https://shop*.example", "https://*shop.example",
        "https://*.*.example", "ftp://shop.example", "shop.example", "https://shop.example/", "https://shop.example/x",
        "https://u:p@shop.example", "https://shop.example:0", "https://shop.example:65536", "https://", "https://a b.c",
        "https://shop.example?x", "https://*.[::1]", "https://*.10.0.0.1", "https://shop..example", "https://é.example",
        "https://shop.example\n", "",
    ],
)  # fmt: skip
def test_it_refuses_a_pattern_that_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match='"'):
        parse_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["https://shop.example", "HTTP://Shop.Example:81", "https://*.a.b", "http://localhost:3000", "http://[::1]"],
)
def test_it_takes_a_good_pattern(pattern: str) -> None:
    parse_pattern(pattern)


@pytest.mark.req("ENG-209")
@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://shop.example", "https://shop.example/"),
        ("HTTPS://Shop.Example:443/a?b=c#d", "https://shop.example/a?b=c#d"),
        ("https://shop.example?x=1", "https://shop.example/?x=1"),
        ("https://shop.example#x", "https://shop.example/#x"),
        ("https://shop.example/a b/é?q=ü ö#ß", "https://shop.example/a%20b/%C3%A9?q=%C3%BC%20%C3%B6#%C3%9F"),
        ("https://shop.example/%zz?a=%", "https://shop.example/%zz?a=%"),
        ('https://shop.example/"<x>', "https://shop.example/%22%3Cx%3E"),
        ("https://shop.example/?a\\b", "https://shop.example/?a%5Cb"),
        ("https://shop.example/@evil.example/", "https://shop.example/@evil.example/"),
        ("https://shop.example//evil.example", "https://shop.example//evil.example"),
        ("http://plain.example:8080/x", "http://plain.example:8080/x"),
    ],
)
def test_it_writes_a_return_url_from_its_judged_parts(url: str, sent: str) -> None:
    assert WILD.judge(url) == sent


@pytest.mark.parametrize(
    "url",
    [
        "", "/checkout", "checkout", "//shop.example/", "https:/shop.example/", "https:shop.example", "https:///shop.example",
        "javascript:alert(1)", "data:text/html,x", "ftp://shop.example/", "file:///etc/passwd", " https://shop.example/",
        "https://user@shop.example/", "https://user:pw@shop.example/", "https://shop.example@evil.example/",
        "https://evil.example/", "https://evilshop.example/", "https://shop.example.evil.example/",
        "https://evil.example\\@shop.example/", "https://shop.example\\.evil.example/", "https://shop.example\\/",
        "https://shop.example/a\\b", "https://shop.exam\tple/", "https://shop.example/\n", "https://shop.example/\x00",
        "https://shop.example/\x7f", "https://shop%2eexample/", "https://shop.example%00.evil.example/",
        "https://shop。example/", "https://ѕhop.example/", "https://shop.example:/", "https://shop.example:443a/",
        "https://shop.example:65536/", "https://shop.example:0/", "https://shop.example :443/",
        "https://sh op.example/",
        "https://", "https://?x", "https://#x", "https://.shop.example/", "https://a..shop.example/",
        "https://shop.example./", "https://shop_x.shop.example/", "https://[shop.example]/", "https://[::1/",
        "http:\\\\shop.example/", "https://shop.example/\ud800", "https://shop.example/" + "a" * 4096,
        "https://" + "a" * 64 + ".shop.example/",
    ],
)  # fmt: skip
@pytest.mark.req("ENG-209")
def test_it_refuses_what_is_not_covered_or_could_be_read_otherwise(url: str) -> None:
    assert WILD.judge(url) is None


@pytest.mark.req("ENG-209")
@pytest.mark.parametrize(
    ("host", "is_read"),
    [
        ("127.0.0.1", True), ("10.0.0.255", True), ("0.0.0.0", True), ("1.2.3.4.example", True), ("4.example", True),
        ("shop.1st", True), ("0x7f.example", True),
        ("127.1", False), ("127.0.0.1.", False), ("0x7f000001", False), ("0X7F.0.0.1", False), ("2130706433", False),
        ("192.168.000.5", False), ("017700000001", False), ("256.0.0.1", False), ("1.2.3.4.5", False),
        ("shop.1", False), ("shop.0x", False), ("shop.0xff.", False),
    ],
)  # fmt: skip
def test_it_reads_no_address_that_a_browser_would_spell_otherwise(host: str, is_read: bool) -> None:
    """A browser asks ``http://127.1`` of 127.0.0.1, and says that it comes from there."""
    assert (parse_web_url(f"http://{host}/") is not None) is is_read
    assert (parse_origin(f"http://{host}:8080") is not None) is is_read


@given(st.text(max_size=60))
def test_it_never_sends_anybody_to_an_origin_that_is_not_covered(tail: str) -> None:
    for start in ("https://shop.example", "https://", ""):
        sent = WILD.judge(start + tail)
        if sent is not None:
            again = parse_web_url(sent)
            assert again is not None
            assert WILD.covers(again.origin)
            assert sent.isascii()
            assert WILD.judge(sent) == sent


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://s.example/", "https://s.example/?qm_token=T"),
        ("https://s.example", "https://s.example?qm_token=T"),
        ("https://s.example/?", "https://s.example/?qm_token=T"),
        ("https://s.example/?a=1", "https://s.example/?a=1&qm_token=T"),
        ("https://s.example/?a=1#frag?x", "https://s.example/?a=1&qm_token=T#frag?x"),
        ("https://s.example/#f", "https://s.example/?qm_token=T#f"),
        ("https://s.example/?qm_token=old", "https://s.example/?qm_token=T"),
        ("https://s.example/?qm_token", "https://s.example/?qm_token=T"),
        ("https://s.example/?a=1&qm_token=old&b=2&qm_token=x", "https://s.example/?a=1&b=2&qm_token=T"),
        ("https://s.example/?qm%5Ftoken=planted&a=%25", "https://s.example/?a=%25&qm_token=T"),
        ("https://s.example/?xqm_token=1", "https://s.example/?xqm_token=1&qm_token=T"),
        ("https://s.example/?a=qm_token=1", "https://s.example/?a=qm_token=1&qm_token=T"),
    ],
)
def test_it_puts_the_token_in_place_of_any_other(url: str, expected: str) -> None:
    assert with_token(url, "T") == expected
