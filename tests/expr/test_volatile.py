"""Scalars that would give another result each time, and `$now`, which does not within a window."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from semgraph.errors import Fault
from semgraph.expr.duckdb import connection, prepared, type_of
from semgraph.expr.scalar import parse_scalar

SCHEMA = pa.schema(
    [("at", pa.timestamp("us", tz="UTC")), ("name", pa.string()), ("user", pa.string())]
)
REPEATS = {"CONSISTENT", None}


@pytest.mark.parametrize(
    "text",
    ["random()", "rand()", "RANDOM ()", "uuid()", "gen_random_uuid()", "now()", "today()", "current_timestamp", "current_date",
     "current_localtime()::VARCHAR", "current_localtimestamp()::VARCHAR", "version()", "session_user", "current_query()",
     "current_catalog()", "ago(INTERVAL 1 DAY)", "pg_postmaster_start_time()::VARCHAR", "nextval('x')", "write_log('x')",
     "list_transform([1], x -> x + random())", "coalesce(name, version())"],
)  # fmt: skip
def test_a_function_whose_result_is_another_one_each_time_is_refused(text: str) -> None:
    with pytest.raises(Fault, match="another result each time"):
        type_of(parse_scalar(text), SCHEMA)


def test_every_function_without_an_overload_that_repeats_is_refused() -> None:
    sql = "SELECT function_name, stability FROM duckdb_functions() WHERE function_type = 'scalar'"
    overloads = connection().cursor().sql(sql).fetchall()
    repeats = {name for name, stability in overloads if stability in REPEATS}
    names = {name for name, _ in overloads} - repeats
    assert {"random", "uuid", "now", "nextval"} < names
    for name in names - {"error"}:
        with pytest.raises(Fault, match="another result each time"):
            type_of(parse_scalar(f"{name}()"), SCHEMA)


@pytest.mark.parametrize(
    "text",
    ["range(5)", "range(1, length(name) + 1)", "range(0, 9, 3)", "generate_series(1, 3)", "[n * 2 FOR n IN range(length(name))]",
     "range(at, at + INTERVAL 3 DAY, INTERVAL 1 DAY)", "generate_series(at, at, INTERVAL 1 DAY)", "year(at)", "month($now)",
     "date_trunc('day', at)", "date_part('hour', at)", "date_diff('day', at, $now)", "strftime(at, '%Y')", "dayname(at)",
     "last_day(at)", "time_bucket(INTERVAL 1 WEEK, at)", "at - INTERVAL 1 DAY", "($now - at)::VARCHAR", "at AT TIME ZONE 'Europe/Rome'",
     "timezone('Europe/Rome', at)", "extract(year FROM at)", "make_timestamptz(2025, 1, 2, 3, 4, 5.0)"],
)  # fmt: skip
def test_an_overload_that_depends_on_the_fixed_time_zone_alone_is_accepted(text: str) -> None:
    type_of(parse_scalar(text), SCHEMA)


def test_what_to_use_instead_is_said() -> None:
    for text, hint in (
        ("now()", "$now"),
        ("uuid()", "id(columns)"),
        ("age(at)", "age($now, time)"),
    ):
        with pytest.raises(Fault) as caught:
            type_of(parse_scalar(text), SCHEMA)
        assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "age($now, at)::VARCHAR",
        "user",
        "'random()'",
        "hash(name)::VARCHAR",
        "CAST(uuid5(name) AS UUID)::VARCHAR",
        "id(name)",
    ],
)
def test_what_depends_on_its_arguments_alone_is_not(text: str) -> None:
    assert type_of(parse_scalar(text), SCHEMA) == pa.string()


def test_a_text_may_say_now() -> None:
    assert type_of(parse_scalar("concat(name, ' $now')"), SCHEMA) == pa.string()
    assert type_of(parse_scalar("concat(name, $q)", {"q": "$now"}), SCHEMA) == pa.string()
    table = pa.table({"name": ["a"]})
    now = datetime(2025, 1, 2, tzinfo=UTC)
    plain = "SELECT concat(name, ' $now') AS \"$now\" FROM rows"
    assert prepared(plain, {"rows": table}).run({"rows": table}, now).to_pylist() == [
        {"$now": "a $now"}
    ]
    both = "SELECT concat(name, ' $now''s ', year($now)) AS x FROM rows"
    assert prepared(both, {"rows": table}).run({"rows": table}, now).to_pylist() == [
        {"x": "a $now's 2025"}
    ]


def test_only_the_parameter_depends_on_the_time() -> None:
    assert parse_scalar("at < $now").asks_now
    assert not parse_scalar("name = '$now'").asks_now
