"""Expressions are in UTC, whatever the time zone of the machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
from datetime import UTC, datetime, timedelta
import semgraph as sg

first = datetime(2025, 1, 31, 23, tzinfo=UTC)
rows = [{"id": n, "at": first + timedelta(days=n)} for n in range(20)]
table = sg.table(rows, key="id")
with sg.Session(llm="recorded", store="memory", runs="", journal=False) as session:
    for row in session.run(table.add({"a_text": "CAST(at AS VARCHAR)", "a_month": "month(at)"}).limit(1)).rows():
        print(row["a_text"], row["a_month"])
    print(sorted(row["id"] for row in session.run(table.sample(5)).rows()))
"""


@pytest.fixture(scope="module")
def in_utc() -> str:
    return printed("UTC")


def printed(zone: str) -> str:
    run = [sys.executable, "-c", SCRIPT]
    return subprocess.check_output(run, env={**os.environ, "TZ": zone}, text=True)


def test_a_time_is_written_in_utc(in_utc: str) -> None:
    assert in_utc.startswith("2025-01-31 23:00:00+00 1\n")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_texts_months_and_samples_are_the_same_everywhere(in_utc: str, zone: str) -> None:
    assert printed(zone) == in_utc
