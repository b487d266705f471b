"""Which dates of a fact its wording changes: the start of what is announced, and an end that is
only its deadline.

graphiti-core 0.31.2 gives the same for each fact of `SHAPES`, and for those of `CLOSER` as said
there.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tests.plans.conftest import Memory, at
from tests.plans.test_add_triplet import triplet

SAID = datetime(2025, 1, 12, 9, tzinfo=UTC)


def day(text: str | None) -> datetime | None:
    """A day of 2025 as `month-day`, or of another year with the year before it; `said` is when it
    was said.
    """
    if text is None or text == "said":
        return SAID if text else None
    return datetime.fromisoformat(text if text.count("-") == 2 else f"2025-{text}").replace(
        tzinfo=UTC
    )


# The fact, the dates that the model read, and the dates that it keeps.
SHAPES = [
    # an end in the past is never dropped
    ("The office was closed due to flooding.", "01-03", "01-10", "01-03", "01-10"),
    ("Ann Weber was due in Rome by Friday.", "01-03", "01-10", "01-03", "01-10"),
    ("Ann Weber planned to finish the report by 10 January.", "01-03", "01-10", "01-03", "01-10"),
    ("Ann Weber was expected to lead Kite before the merger.", "01-03", "01-10", "01-03", "01-10"),
    ("Ann Weber will have led Kite by 10 January.", "01-03", "01-10", "01-03", "01-10"),
    (
        "The contract with Luma was scheduled to end by 10 January.",
        "2024-02-01",
        "01-10",
        "2024-02-01",
        "01-10",
    ),
    # an end in the future of what holds now is kept, whatever else the words say
    ("Ann Weber works at Luma until the end of March.", "01-03", "03-31", "01-03", "03-31"),
    ("The office is closed due to flooding.", "01-03", "03-01", "01-03", "03-01"),
    ("Ann Weber leads Kite before Bob Ray takes over.", "01-03", "03-01", "01-03", "03-01"),
    ("The deadline of Kite is March 1.", "01-12", "03-01", "01-12", "03-01"),
    ("Ann Weber no longer works at Luma by March.", "01-03", "03-01", "01-03", "03-01"),
    ("The lease was signed by Ann Weber and ends on March 1.", "01-03", "03-01", "01-03", "03-01"),
    # what is announced starts when it is said; an end that is no deadline is kept
    ("Ann Weber will live in Rome until June.", "02-01", "06-01", "said", "06-01"),
    ("Ann Weber will work at Luma from February to June.", "02-01", "06-01", "said", "06-01"),
    ("Ann Weber plans to work at Luma through June.", "02-01", "06-01", "said", "06-01"),
    (
        "Ann Weber is going to leave Luma, and no longer lead Kite by June.",
        "02-01",
        "06-01",
        "said",
        "06-01",
    ),
    ("The project will be stopped by June.", "02-01", "06-01", "said", "06-01"),
    (
        "Ann Weber is expected to stay at Luma, a job that ended before.",
        "02-01",
        "06-01",
        "said",
        "06-01",
    ),
    ("Ann Weber will join Luma.", "02-01", None, "said", None),
    ("Ann Weber intends to move to Rome.", None, None, "said", None),
    (
        "Kite will be led by the deputy of Ann Weber from February to June.",
        "02-01",
        "06-01",
        "said",
        "06-01",
    ),
    (
        "The course will be taught by visiting staff from February to June.",
        "02-01",
        "06-01",
        "said",
        "06-01",
    ),
    (
        "Ann Weber is going to commute by train from February to June.",
        "02-01",
        "06-01",
        "said",
        "06-01",
    ),
    ("The lease of Ann Weber will end by March.", "01-03", "03-01", "01-03", "03-01"),
    # a deadline does not end it
    ("Ann Weber plans to finish the report by the end of March.", "01-12", "03-31", "01-12", None),
    ("Ann Weber will finish the report by mid-March.", "01-12", "03-15", "01-12", None),
    ("Ann Weber intends to leave Luma by next Friday.", "01-12", "01-24", "01-12", None),
    ("Ann Weber will finish the report by year's end.", "01-12", "12-31", "01-12", None),
    ("Ann Weber will finish the report by March.", "01-12", "03-01", "01-12", None),
    ("Ann Weber'll finish the report before Easter.", None, "03-01", "said", None),
    ("Ann Weber plans to move to Rome by 1 March 2025.", "02-01", "03-01", "said", None),
    ("Ann Weber planned to move to Rome by the summer.", "01-03", "06-01", "01-03", None),
    ("Kite is scheduled to be released no later than May.", "05-01", "05-01", "said", None),
    ("Ann Weber is expected to join Luma by May 2025.", None, "05-01", "said", None),
    ("Ann Weber intends to leave Luma before June.", "01-12", "06-01", "01-12", None),
    ("Bob Ray promised to call Ann Weber by Monday.", "01-12", "01-20", "01-12", None),
    ("Bob Ray aims to run a marathon before 2026.", "01-12", "2026-01-01", "01-12", None),
    # nothing is announced
    (
        "Ann Weber worked at Luma from 2018 to 2020.",
        "2018-01-01",
        "2020-01-01",
        "2018-01-01",
        "2020-01-01",
    ),
    ("Ann Weber worked at Deadline Press.", "02-01", "06-01", "02-01", "06-01"),
    ("Ann Weber joins Luma on 1 February.", "02-01", None, "02-01", None),
    ("Ann Weber lives in Rome.", "01-12", None, "01-12", None),
]
CLOSER = [
    # there a name counts as the verb, and anything after "by" as a time
    ("Will Smith leads Kite, sponsored by Luma.", "02-01", "03-01", "02-01", "03-01"),
    ("Will Smith works at Luma before his studies.", "01-03", "03-01", "01-03", "03-01"),
    ("Kite will be led by Ann Weber from February to June.", "02-01", "06-01", "said", "06-01"),
    ("Kite will be led by May Chen from February to June.", "02-01", "06-01", "said", "06-01"),
    # there it is left to the prompt that what is due is a deadline
    ("The report of Ann Weber is due by March 1.", "03-01", "03-01", "said", None),
    ("The report of Ann Weber is due on March 1.", "01-12", "03-01", "01-12", None),
    ("Kite was cancelled; it will not return before June.", "01-12", "06-01", "01-12", "06-01"),
]


async def test_wording_moves_the_start_of_what_is_announced_and_drops_a_deadline(
    memory: Memory,
) -> None:
    """All facts in one run; each pair of dates beside those expected."""
    row = {"group_id": "g", "episode": "e", "turn": 1, "said_at": SAID, "name": "N"}
    facts, expected = [], {}
    for number, (fact, valid, invalid, starts, ends) in enumerate([*SHAPES, *CLOSER], 1):
        ends_of = {
            "uuid": f"f{number}",
            "nth": number,
            "source": f"a{number}",
            "target": f"b{number}",
        }
        facts.append(
            row | ends_of | {"fact": fact, "valid_at": day(valid), "invalid_at": day(invalid)}
        )
        expected[fact] = (day(starts), day(ends), ends is not None)
    dates = [
        {"uuid": fact["uuid"], "since": None, "until": None} for fact in facts
    ]  # asked elsewhere, unanswered
    result = await memory.run("settle_facts", facts=facts, dates=dates)
    kept = {
        row["fact"]: (row["valid_at"], row["invalid_at"], row["expired_at"] is not None)
        for row in result.tables["fresh"].to_pylist()
    }
    assert {fact: dates for fact, dates in kept.items() if dates != expected[fact]} == {}
    assert kept.keys() == expected.keys()


async def test_a_name_in_a_message_does_not_drop_an_end(memory: Memory) -> None:
    await memory.hear("Will Due(user): I worked at Deadline Press from 2018-01-01 to 2020-01-01.")
    fact = (await memory.graph()).fact("Will Due worked at Deadline Press")
    assert (fact["valid_at"].year, fact["invalid_at"].year) == (2018, 2020)


async def test_dates_that_a_caller_states_are_kept_whatever_the_wording(
    memory: Memory,
) -> None:
    stated = {"said_at": at(0), "valid_at": at(0, month=2), "invalid_at": at(0, month=3)}
    await memory.run(
        "add_triplet",
        triplets=[
            triplet("Ann", "WORKS_AT", "Kite", fact="Ann will write Kite by March.", **stated)
        ],
    )
    (fact,) = (await memory.graph()).facts
    assert (fact["valid_at"], fact["invalid_at"]) == (stated["valid_at"], stated["invalid_at"])
