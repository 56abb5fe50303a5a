"""Which pages a room covers. Every doubt has to end in the queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.room import UrlRule
from app.domain.url_rules import RuleSet, check_pattern, normal_path, page_of, pattern_origins

HOST = "https://shop.example"


def rules(*lines: str) -> RuleSet:
    """``"protect /x"`` …, ids r1, r2, …"""
    pairs = [line.split(" ", 1) for line in lines]
    return RuleSet([UrlRule(f"r{n}", action, pattern) for n, (action, pattern) in enumerate(pairs, 1)])


def covered(rule_set: RuleSet, url: str | None) -> bool:
    return rule_set.judge(page_of(url)).covered


@pytest.mark.req("ENG-199")
@pytest.mark.parametrize(
    ("lines", "path", "expected", "rule"),
    [
        ([], "/any", True, None),
        (["protect /checkout"], "/checkout", True, "r1"),
        (["protect /checkout"], "/other", False, None),
        (["skip /static/*"], "/static/a.css", False, "r1"),
        (["skip /static/*"], "/other", True, None),
        (["skip /shop/free", "protect /shop/*"], "/shop/free", False, "r1"),
        (["skip /shop/free", "protect /shop/*"], "/shop/x", True, "r2"),
        (["protect /shop/*", "skip /shop/free"], "/shop/free", True, "r1"),
        (["protect /shop/*", "skip /static/*"], "/other", False, None),
    ],
)
def test_it_lets_the_first_matching_rule_decide(lines: list[str], path: str, expected: bool, rule: str | None) -> None:
    verdict = rules(*lines).judge(page_of(HOST + path))

    assert verdict == (expected, rule)


@pytest.mark.req("ENG-198")
@pytest.mark.parametrize(
    ("pattern", "url", "expected"),
    [
        ("/a*", "/a", True), ("/a*", "/abc/d", True), ("/a*", "/b", False),
        ("/*/end", "/x/y/end", True), ("/*/end", "/end", False), ("/a*b*c", "/a1b2c", True), ("/a*b*c", "/acb", False),
        ("/ab*ba", "/aba", False), ("/*", "/", True), ("/a**b", "/ab", True), ("/a*b*b", "/ab", False),
        ("/x", "/x?any=query", True), ("/x?a=1", "/x?a=1", True), ("/x?a=1", "/x?a=2", False), ("/x?a=1", "/x", False),
        ("/x?*id=7*", "/x?a=1&id=7&b", True), ("/x?", "/x", True), ("/x?", "/x?a", False),
        ("/x", "/x#fragment", True), ("/x", "/x/", False), ("/", "", True),
    ],
)  # fmt: skip
def test_it_matches_path_and_query(pattern: str, url: str, expected: bool) -> None:
    assert covered(rules(f"protect {pattern}"), HOST + url) is expected


@pytest.mark.req("ENG-198")
@pytest.mark.parametrize(
    ("pattern", "url", "expected"),
    [
        ("https://shop.example/x", "https://SHOP.example:443/x", True),
        ("https://shop.example/x", "http://shop.example/x", False),
        ("https://shop.example/x", "https://www.shop.example/x", False),
        ("https://*.shop.example/x", "https://www.shop.example/x", True),
        ("https://*.shop.example/x", "https://shop.example/x", False),
        ("https://*.shop.example/x", "https://evilshop.example/x", False),
        ("http://shop.example:8080/*", "http://shop.example:8080/y", True),
        ("http://shop.example:8080/*", "http://shop.example/y", False),
        ("HTTPS://Shop.Example/x", "https://shop.example/x", True),
    ],
)
def test_it_matches_a_full_pattern_by_origin_too(pattern: str, url: str, expected: bool) -> None:
    assert covered(rules(f"protect {pattern}"), url) is expected


@pytest.mark.req("ENG-198")
def test_it_ignores_case_in_protect_and_heeds_it_in_skip() -> None:
    assert covered(rules("protect /checkout"), HOST + "/CHECKout")
    assert covered(rules("protect /CHECKOUT"), HOST + "/checkout")
    assert not covered(rules("skip /free"), HOST + "/free")
    assert covered(rules("skip /free"), HOST + "/FREE")


@pytest.mark.req("ENG-200")
@pytest.mark.parametrize(
    "path",
    [
        "/checkout", "/%63heckout", "/%2563heckout", "/%252563heckout", "//checkout", "/./checkout", "/x/../checkout",
        "/x/%2e%2e/checkout", "/checkout;jsessionid=1", "/checkout%3bx", "/;x/checkout", "/checkout.", "/checkout%20",
        "/checkout%00", "/check%09out", "/x/..;/checkout", "/x%5C..%5Ccheckout", "/a/b/../../checkout", "/%2Fcheckout",
        "/checkout%", "/%zz", "/%ff", "/..%2fcheckout", "/x/.. /checkout",
    ],
)  # fmt: skip
def test_it_covers_a_disguised_path(path: str) -> None:
    assert covered(rules("protect /checkout"), HOST + path)
    assert covered(rules("skip /free/*", "protect /checkout"), HOST + path)


@pytest.mark.req("ENG-200")
@pytest.mark.parametrize(
    "path", ["/free/../checkout", "/free/%2e%2e/checkout", "/free/..;/checkout", "/free/..%5Ccheckout"]
)
def test_it_does_not_skip_a_path_that_leaves_the_skipped_part(path: str) -> None:
    assert covered(rules("skip /free/*"), HOST + path)


@pytest.mark.req("ENG-198")
def test_it_matches_a_path_pattern_on_any_origin_and_takes_one_of_512_characters() -> None:
    for origin in (HOST, "http://other.example:81"):
        assert covered(rules("protect /checkout"), origin + "/checkout")
    check_pattern("/" + "x" * 511)
    assert covered(rules("protect /%C3%84"), HOST + "/%C3%84")
    assert not covered(rules("protect /ä"), HOST + "/%C3%84"), "the case of other letters than ASCII is heeded"


@pytest.mark.req("ENG-204")
def test_it_tells_in_a_trial_what_the_door_decides_and_which_rules_fit() -> None:
    some = rules("skip /shop/free", "protect /shop/*", "protect /checkout")

    for path, winner, fits in (
        ("/shop/free", 0, (True, True, False)),
        ("/shop/x", 1, (False, True, False)),
        ("/%63heckout", 2, (False, False, True)),
        ("/other", None, (False, False, False)),
        ("/%zz", None, (False, False, False)),
    ):
        page = page_of(HOST + path)
        assert page is not None
        assert some.trial(page) == (some.judge(page).covered, winner, fits)


def test_it_matches_patterns_that_are_percent_encoded() -> None:
    assert not covered(rules("skip /caf%C3%A9/*"), HOST + "/caf%C3%A9/x")
    assert covered(rules("protect /café"), HOST + "/caf%C3%A9")
    assert covered(rules("protect /caf%C3%A9"), HOST + "/café")


@pytest.mark.req("ENG-202", "VIS-121")
@pytest.mark.parametrize(
    "url",
    [None, "", "/checkout", "checkout", "nonsense", "ftp://shop.example/x", HOST + "/\x00", HOST + "/\ud800",
     HOST + "/" + "x" * 4096, "https://"],
)  # fmt: skip
def test_it_covers_a_check_without_a_usable_url(url: str | None) -> None:
    assert page_of(url) is None
    assert covered(rules("protect /checkout"), url)
    assert covered(rules("skip /*"), url)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"), ("/a/b", "/a/b"), ("/a/", "/a/"), ("//a//b", "/a/b"), ("/a/./b", "/a/b"), ("/a/b/..", "/a/"),
        ("/..", "/"), ("/../../a", "/a"), ("/a;x=1/b;y", "/a/b"), ("/a./b ./c", "/a/b/c"), ("/a\\b", "/a/b"),
        ("/%2525", "/%"), ("/100%25", "/100%"), ("/a%2Fb", "/a/b"), ("/a/...", "/a"), ("/%E2%82%AC", "/€"),
    ],
)  # fmt: skip
def test_it_brings_a_path_to_its_normal_form(path: str, normal: str) -> None:
    assert normal_path(path) == normal


@given(st.text(max_size=40))
def test_it_judges_any_text(path: str) -> None:
    verdict = rules("skip /free/*", "protect /checkout").judge(page_of(HOST + "/" + path))

    assert verdict.covered in {True, False}
    assert normal_path("/checkout" + "/." * len(path)) in {"/checkout", "/checkout/"}


@pytest.mark.req("ENG-198")
@pytest.mark.parametrize(
    "pattern",
    [
        "", "checkout", "x" * 513, "/" + "x" * 512, "https://shop.example", "ftp://x/y", "https://*.example/x",
        "/a#b", "/a\\b", "/a\nb", "https://u@shop.example/",
    ],
)  # fmt: skip
def test_it_refuses_a_pattern_that_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|origin|labels"):
        check_pattern(pattern)


def test_it_names_the_origins_of_full_patterns() -> None:
    listed = pattern_origins([UrlRule("r1", "skip", "/x"), UrlRule("r2", "protect", "https://*.shop.example/x")])

    assert [(rule, origin.is_wildcard, origin.origin.host) for rule, origin in listed] == [("r2", True, "shop.example")]


def test_it_matches_many_stars_in_time_that_grows_with_the_text_alone() -> None:
    hostile = rules("protect /" + "a*" * 250 + "b")

    assert not covered(hostile, HOST + "/" + "a" * 4000)
