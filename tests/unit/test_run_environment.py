"""What a test run refuses in its environment, and how it reads a command line."""

from __future__ import annotations

import pytest

from tests.run_environment import Refused, read, words

URLS = {"TEST_VALKEY_URL": "redis://127.0.0.1:6379/9", "TEST_DATABASE_URL": "postgres://qm@127.0.0.1/qm_test"}
NO_ZERO, NO_OTHER = "TEST_VALKEY_URL means database 0", "TEST_DATABASE_URL names a database that does not end in _test"


@pytest.mark.req("CFG-087", "TST-033")
@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379", "redis://127.0.0.1:6379/", "rediss://:pass@valkey/00",
        "unix:///run/valkey.sock", "unix:///run/9", "unix:///run/valkey.sock?db=0", "redis://127.0.0.1/9?db=0",
        "redis://127.0.0.1/nine",
    ],
)  # fmt: skip
def test_it_refuses_a_valkey_database_that_is_not_for_tests(url: str) -> None:
    with pytest.raises(Refused, match=NO_ZERO) as caught:
        read({**URLS, "TEST_VALKEY_URL": url})
    assert "pass" not in str(caught.value)


@pytest.mark.req("CFG-088", "TST-033")
@pytest.mark.parametrize(
    "url",
    [
        "postgres://qm:pass@127.0.0.1/qm", "postgresql://qm@127.0.0.1", "postgresql://qm@127.0.0.1/qm_tests",
        "postgresql://qm@/qm?host=/run/x_test", "postgresql://qm@/qm_test?dbname=qm", "postgresql:///?database=qm",
    ],
)  # fmt: skip
def test_it_refuses_a_postgres_database_that_is_not_for_tests(url: str) -> None:
    with pytest.raises(Refused, match=NO_OTHER) as caught:
        read({**URLS, "TEST_DATABASE_URL": url})
    assert "pass" not in str(caught.value)


@pytest.mark.req("CFG-087", "CFG-088")
def test_it_takes_stores_that_are_for_tests() -> None:
    for valkey in ("auto", "redis://127.0.0.1:6379/9", "valkeys://u:p@valkey/15", "unix:///run/valkey.sock?db=9"):
        for database in ("auto", "postgres://127.0.0.1/qm_test", "postgresql://qm@/qm_test?host=/run/pg"):
            run = read({"TEST_VALKEY_URL": valkey, "TEST_DATABASE_URL": database})
            assert (run.valkey_url, run.database_url, run.has_stores) == (valkey, database, True)


@pytest.mark.req("CFG-089", "TST-009", "TST-035")
def test_it_knows_what_a_run_stores_in() -> None:
    alone = read({"VALKEY_URL": "redis://127.0.0.1/9", "DATABASE_URL": "postgres://127.0.0.1/qm_test"})

    assert (alone.store, alone.valkey_url, alone.database_url, alone.has_stores) == ("memory", None, None, False)
    assert (alone.must_have_stores, alone.command) == (False, None)
    assert [read({"QM_REQUIRE_VALKEY": text}).must_have_stores for text in ("1", "0", "")] == [True, False, False]
    assert read({**URLS, "STORE": "valkey"}).store == "valkey"
    for left in URLS:
        assert not read({left: URLS[left]}).has_stores
        with pytest.raises(Refused, match="STORE=valkey needs TEST_VALKEY_URL and TEST_DATABASE_URL"):
            read({left: URLS[left], "STORE": "valkey"})
    with pytest.raises(Refused, match="STORE is none of memory, embedded, valkey"):
        read({"STORE": "redis"})


@pytest.mark.req("TST-022", "TST-023", "CFG-090")
def test_it_splits_a_command_at_blanks_and_groups_by_quotes_alone() -> None:
    for text, said in {
        '"./other build/queue-manager" --quiet': ["./other build/queue-manager", "--quiet"],
        "  one\ttwo   three ": ["one", "two", "three"],
        'a"b c"d "" e': ["ab cd", "", "e"],
        "a $HOME * | b && c;d ~": ["a", "$HOME", "*", "|", "b", "&&", "c;d", "~"],
        r"it\'s a\ 'b c' \"d e\"": [r"it\'s", "a\\", "'b", "c'", "\\d e\\"],
    }.items():
        assert words(text) == said, text
        assert read({"QM_SERVER_CMD": text}).command == tuple(said)
    for empty in ("", "   ", '""'):
        with pytest.raises(Refused, match="QM_SERVER_CMD is empty"):
            read({"QM_SERVER_CMD": empty})
    with pytest.raises(Refused, match="not closed"):
        read({"QM_SERVER_CMD": 'run "me'})
