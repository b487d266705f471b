"""Scalars that would give another result each time, and `$now`, which does not within a window."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from semgraph.errors import Fault
from semgraph.expr.duckdb import Prepared, connection, type_of
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


def test_every_function_that_the_database_calls_inconsistent_is_refused() -> None:
    sql = "SELECT DISTINCT function_name, stability FROM duckdb_functions() WHERE function_type = 'scalar'"
    names = {
        name
        for name, stability in connection().cursor().sql(sql).fetchall()
        if stability not in REPEATS
    }
    for name in names - {"error"}:
        with pytest.raises(Fault, match="another result each time"):
            type_of(parse_scalar(f"{name}()"), SCHEMA)


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
    assert Prepared(plain, {"rows": table}).run({"rows": table}, now).to_pylist() == [
        {"$now": "a $now"}
    ]
    both = "SELECT concat(name, ' $now''s ', year($now)) AS x FROM rows"
    assert Prepared(both, {"rows": table}).run({"rows": table}, now).to_pylist() == [
        {"x": "a $now's 2025"}
    ]


def test_only_the_parameter_depends_on_the_time() -> None:
    assert parse_scalar("at < $now").asks_now
    assert not parse_scalar("name = '$now'").asks_now
