"""Answers, inputs and results by classes of Pydantic."""

from __future__ import annotations

import dataclasses
import enum
import json
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path, PurePath
from typing import Annotated, Any, cast
from uuid import UUID

import pyarrow as pa
import pydantic.dataclasses
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    PydanticDeprecatedSince20,
    StringConstraints,
    create_model,
    field_validator,
    model_validator,
    validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import DataError, InputError, PlanError, RowError
from semgraph.execution.result import Result
from tests.execution.test_check import Learner, reasons

ROWS = [{"id": "a", "text": "apples"}]


def run(
    model: Any,
    good: dict[str, Any],
    bad: Callable[[int], dict[str, Any]],
    rows: list[dict[str, Any]] = ROWS,
    **options: Any,
) -> tuple[Result, Learner]:
    """The result of a question about rows whose answers have a class. `bad` gives changes of the
    right answer, from how often it was refused.
    """
    learner = Learner(Mind(answer=lambda _: good), lambda told, times: {**told, **bad(times)})
    frame = sg.table(rows, name="notes").sem_map("About {text}", returns=model, step="asked")
    use = {"asked": options.pop("use", "per_row")}
    session = {"journal": False, "store": "memory", "runs": "", **options}
    with sg.Session(llm=learner, **session) as opened:
        try:
            return opened.run(frame.to_plan(use=use), notes=rows), learner
        except RowError as every:
            return cast("Result", every.result), learner


class Person(BaseModel):
    """A human being."""

    name: str = Field(description="as written", min_length=1, max_length=5)
    age: int | None = Field(None, ge=0, le=150)
    tags: list[Annotated[str, Field(max_length=3)]] = Field(default_factory=list, max_length=2)
    tone: str = "calm"


ANN = {"name": "Ann", "age": 3, "tags": ["a"], "tone": "cross"}


def test_descriptions_and_limits_are_words_of_the_request_and_no_keywords() -> None:
    _, model = run(Person, ANN, lambda _: {})
    (request,) = model.requests
    schema = json.loads(request.schema)
    assert schema["description"] == "A human being."
    described = {name: part.get("description") for name, part in schema["properties"].items()}
    assert described == {
        "name": "as written (from 1 to 5 characters)",
        "age": "from 0 to 150",
        "tags": "at most 2 entries, default: []",
        "tone": 'default: "calm"',
    }
    items = schema["properties"]["tags"]["anyOf"][0]["items"]
    assert items == {"type": "string", "description": "at most 3 characters"}
    assert not {"minimum", "maxLength", "maxItems", "default"} & set(json.dumps(schema).split('"'))
    assert "age: from 0 to 150" in request.messages[0].content


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"age": 200}, "age must be from 0 to 150"),
        ({"name": ""}, "name must be from 1 to 5 characters"),
        ({"name": "Annabel"}, "name must be from 1 to 5 characters"),
        ({"tags": ["a", "b", "c"]}, "tags must be at most 2 entries"),
    ],
)
def test_an_answer_beyond_a_limit_is_requested_again_with_the_limit(
    wrong: dict[str, Any], said: str
) -> None:
    result, model = run(Person, ANN, lambda times: {} if times else wrong)
    assert result.rows()[0] == {**ROWS[0], **ANN}
    assert reasons(model.requests[1]) == [said]
    result, _ = run(Person, ANN, lambda _: wrong)
    assert [failure.error for failure in result.failed] == [f"invalid: {said}"]


def test_entries_of_a_list_beyond_their_limit_are_left_out_with_a_note() -> None:
    result, model = run(Person, ANN, lambda _: {"tags": ["abcd", "b"]})
    assert result.rows()[0]["tags"] == ["b"]
    assert len(model.requests) == 1
    assert any("tags[0] must be at most 3 characters" in note for note in result.notes)


def test_null_becomes_the_default() -> None:
    nothing = {"age": None, "tags": None, "tone": None}
    result, _ = run(Person, ANN, lambda _: nothing)
    assert result.rows()[0] == {**ROWS[0], "name": "Ann", "age": None, "tags": [], "tone": "calm"}


class Home(BaseModel):
    city: str
    zip: str | None = None

    @field_validator("zip")
    @classmethod
    def check_zip(cls, value: str) -> str:
        if len(value) != 4:
            raise ValueError("a zip has four digits.")
        return value


class Checked(BaseModel):
    name: str
    age: int | None = None
    homes: list[Home] = []
    code: Annotated[str, AfterValidator(str.upper)] = "x"
    key: UUID | None = None

    @field_validator("age")
    @classmethod
    def check_age(cls, value: int) -> int:
        if not 0 <= value <= 150:
            raise ValueError("Age must be between 0 and 150")
        return value

    @field_validator("name")
    @classmethod
    def stripped(cls, value: str) -> str:
        if value == "nobody":
            raise AssertionError("somebody has a name")
        if value == "N/A":
            raise PydanticCustomError("empty", "not {text} please", {"text": value})
        return value.strip()

    @model_validator(mode="after")
    def together(self) -> Checked:
        if self.name == "Baby" and (self.age or 0) > 3:
            raise ValueError("a baby is at most 3")
        return self


BEN: dict[str, Any] = {"name": "Ben", "age": 30, "homes": [], "code": "A", "key": None}
UUID_TEXT = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize("use", ["per_row", "packed(rows=3)", "reflexion"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"age": 200}, "age: Age must be between 0 and 150"),
        ({"name": "nobody"}, "name: somebody has a name"),
        ({"name": "N/A"}, "name: not N/A please"),
        ({"name": "Baby", "age": 5}, "a baby is at most 3"),
        ({"homes": [{"city": "Riga", "zip": "1"}]}, "homes[0].zip: a zip has four digits"),
        ({"key": "7"}, "key: Input should be a valid UUID"),
    ],
)
def test_what_a_validator_says_is_told_to_the_model(
    use: str, wrong: dict[str, Any], said: str
) -> None:
    rows = [*ROWS, {"id": "b", "text": "bread"}]
    result, model = run(Checked, BEN, lambda times: {} if times else wrong, rows, use=use)
    assert [row["name"] for row in result.rows()] == ["Ben", "Ben"]
    again = [reason for request in model.requests for reason in reasons(request)]
    assert again
    assert all(reason.startswith(said) for reason in again)
    assert result.meter.steps["asked"].refused == 2


def test_after_two_further_requests_it_is_an_error_of_its_row() -> None:
    result, model = run(Checked, BEN, lambda _: {"age": -1})
    assert [f.error for f in result.failed] == ["check: age: Age must be between 0 and 150"]
    assert len(model.requests) == 3


def test_values_that_validators_change_are_kept() -> None:
    changed = {"name": " Ben ", "code": "abc", "key": UUID_TEXT, "age": None}
    home = {"city": "Riga", "zip": None}
    result, model = run(Checked, BEN, lambda _: {**changed, "homes": [home]})
    row = {**ROWS[0], "name": "Ben", "age": None, "homes": [home], "code": "ABC", "key": UUID_TEXT}
    assert result.rows() == [row]
    assert len(model.requests) == 1


def test_validators_of_version_1_work() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticDeprecatedSince20)

        class Old(BaseModel):
            age: int | None = Field(None, description="Age in years")

            @validator("age")
            def validate_age(cls, v: int) -> int:
                if v is not None and (v < 0 or v > 150):
                    raise ValueError("Age must be between 0 and 150")
                return v

    _, model = run(Old, {"age": 30}, lambda times: {} if times else {"age": 151})
    assert reasons(model.requests[1]) == ["age: Age must be between 0 and 150"]


def test_aliases_strictness_and_further_keys_of_a_class_do_not_stand_in_the_way() -> None:
    class Tone(enum.Enum):
        CALM = "calm"

    class Strict(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")

        topic: str = Field(alias="Topic")
        tone: Tone
        hidden: str = Field(exclude=True)

        @field_validator("topic")
        @classmethod
        def check(cls, value: str) -> str:
            return value + "!"

    result, _ = run(Strict, {"topic": "kettle", "tone": "calm", "hidden": "x"}, lambda _: {})
    assert result.rows() == [{**ROWS[0], "topic": "kettle!", "tone": "calm", "hidden": "x"}]


def test_another_error_of_a_validator_ends_the_run_and_names_class_validator_and_row() -> None:
    class Broken(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def stumbles(cls, value: str) -> str:
            return str(1 / (len(value) - len(value)))

    with pytest.raises(PlanError) as caught:
        run(Broken, {"name": "Ann"}, lambda _: {})
    said = str(caught.value)
    assert "Broken: stumbles in " in said
    assert "raised ZeroDivisionError: " in said
    assert "apples" in said


class Calm(BaseModel):
    tone: str = "calm"
    extra: dict[str, Any] = {}

    @field_validator("tone")
    @classmethod
    def check(cls, value: str) -> str:
        if value == "calm":
            raise ValueError("nothing is calm")
        return value


def test_an_answer_that_equals_the_default_is_validated() -> None:
    good = {"tone": "cross", "extra": {"a": [1]}}
    result, model = run(Calm, good, lambda times: {} if times else {"tone": "calm"})
    assert result.rows()[0]["tone"] == "cross"
    assert reasons(model.requests[1]) == ["tone: nothing is calm"]
    result, _ = run(Calm, good, lambda _: {"tone": None})
    assert result.rows()[0]["tone"] == "calm"


def test_what_a_class_makes_of_an_answer_is_not_limited_and_it_may_mend_it() -> None:
    class Code(BaseModel):
        code: Annotated[str, StringConstraints(strip_whitespace=True, max_length=3)]
        more: Annotated[str, AfterValidator(lambda value: value + "!")] = Field(max_length=3)

    result, _ = run(Code, {"code": " abc ", "more": "abc"}, lambda _: {})
    assert result.rows() == [{**ROWS[0], "code": "abc", "more": "abc!"}]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (3, "name must be string"),
        (None, "name must not be null"),
        (object(), "Unable to serialize unknown type: <class 'object'>"),
    ],
)
def test_a_validator_that_returns_another_type_ends_the_run(returned: Any, said: str) -> None:
    class Wrong(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, value: str) -> Any:
            return returned

    with pytest.raises(PlanError, match=f"Wrong has other values than its types: {said}"):
        run(Wrong, {"name": "Ann"}, lambda _: {})


def test_entries_of_another_type_that_a_validator_returns_are_not_left_out() -> None:
    class Wrong(BaseModel):
        names: Annotated[list[str], AfterValidator(lambda names: [len(name) for name in names])]

    with pytest.raises(PlanError, match=r"Wrong has other values .*: names\[0\] must be string"):
        run(Wrong, {"names": ["Ann"]}, lambda _: {})


def test_a_model_validator_that_forgets_to_return_ends_the_run() -> None:
    class Wrong(BaseModel):
        name: str

        @model_validator(mode="after")
        def check(self) -> Any:
            return None

    with pytest.raises(PlanError, match="Wrong has other values than its types"):
        run(Wrong, {"name": "Ann"}, lambda _: {})


@pydantic.dataclasses.dataclass
class Made:
    name: str
    tags: list[str] = Field(default_factory=list, max_length=1)

    @field_validator("name")
    @classmethod
    def check(cls, value: str) -> str:
        if value == "nobody":
            raise ValueError("somebody has a name")
        return value.upper()


def _not_empty(value: list[Home]) -> list[Home]:
    if not value:
        raise ValueError("name one home")
    return value


class Coded(TypedDict):
    home: Home
    code: Annotated[str, AfterValidator(str.upper)]


@pytest.mark.parametrize(
    ("returns", "good", "bad", "said", "kept"),
    [
        (Made, {"name": "Ann", "tags": None}, {"name": "nobody"}, "name: somebody has a name", {"name": "ANN", "tags": []}),
        (
            {"made": list[Made]},
            {"made": [{"name": "Ann", "tags": None}]},
            {"made": [{"name": "Ann", "tags": ["a", "b"]}]},
            "[0].tags: List should have at most 1 item after validation, not 2",
            {"made": [{"name": "ANN", "tags": []}]},
        ),
        (
            {"homes": Annotated[list[Home], AfterValidator(_not_empty)]},
            {"homes": [{"city": "Riga", "zip": None}]},
            {"homes": []},
            "name one home",
            {"homes": [{"city": "Riga", "zip": None}]},
        ),
        (
            Coded,
            {"home": {"city": "Riga", "zip": None}, "code": "a"},
            {"home": {"city": "Riga", "zip": "1"}},
            "home.zip: a zip has four digits",
            {"home": {"city": "Riga", "zip": None}, "code": "A"},
        ),
    ],
)  # fmt: skip
def test_dataclasses_typed_dicts_and_annotated_types_are_called_too(
    returns: Any, good: dict[str, Any], bad: dict[str, Any], said: str, kept: dict[str, Any]
) -> None:
    result, model = run(returns, good, lambda times: {} if times else bad)
    assert result.rows() == [{**ROWS[0], **kept}]
    assert reasons(model.requests[1])[0] == said


def test_two_classes_of_one_name_are_two() -> None:
    def named(end: str) -> Any:
        class Named(BaseModel):
            name: str

            @field_validator("name")
            @classmethod
            def add(cls, value: str) -> str:
                return value + end

        return Named

    notes = sg.table(ROWS, name="notes")
    one = notes.sem_map("About {text}", returns=named("1"), step="one")
    other = notes.sem_map("About {text}", returns=named("2"), step="other")
    both = one.join(other.project({"id": "id", "other": "name"}), using="id", alias="o")
    with sg.Session(
        llm=Oracle(Mind(answer=lambda _: {"name": "Ann"})), store="memory", runs=""
    ) as s:
        (row,) = s.run(both).rows()
    assert (row["name"], row["o"]["other"]) == ("Ann1", "Ann2")


def test_explain_counts_the_further_requests() -> None:
    frame = sg.table(ROWS, name="notes").sem_map("About {text}", returns=Checked)
    with sg.Session(llm=Oracle(Mind()), store="memory", runs="") as session:
        assert "≤ 3 calls" in str(session.explain(frame))


def test_classes_inside_of_types_are_called_for_their_part() -> None:
    good = {"homes": [{"city": "Riga", "zip": "1050"}], "n": 1}
    bad = {"homes": [{"city": "Riga", "zip": "1"}]}
    returns = {"homes": list[Home], "n": int}
    result, model = run(returns, good, lambda times: {} if times else bad)
    assert result.rows()[0]["homes"] == good["homes"]
    assert reasons(model.requests[1]) == ["[0].zip: a zip has four digits"]


class Short(BaseModel):
    why: str

    @field_validator("why")
    @classmethod
    def check(cls, value: str) -> str:
        if len(value) > 3:
            raise ValueError("say it shorter")
        return value.upper()


@pytest.mark.parametrize(
    "made",
    [
        lambda t: t.sem_filter("Is {text} good?", returns=Short, step="asked"),
        lambda t: t.sem_join(t, "o", "Are {text} and {o.text} alike?", returns=Short, step="asked"),
        lambda t: t.sem_agg("{text}", by="id", returns=Short, step="asked"),
    ],
)
def test_other_operators_call_the_class_too(made: Any) -> None:
    learner = Learner(
        Mind(
            answer=lambda _: {"why": "ok", "answer": "yes"},
            match=lambda *_: {"why": "ok"},
            combine=lambda *_: {"why": "ok"},
        ),
        lambda told, times: told if times else {**told, "why": "much too long"},
    )
    with sg.Session(llm=learner, store="memory", journal=False, runs="") as session:
        result = session.run(made(sg.table(ROWS, name="notes")))
    assert result.rows()[0]["why"] == "OK"
    assert {reason for r in learner.requests for reason in reasons(r)} == {"why: say it shorter"}


def test_a_check_and_a_class_judge_the_same_answer() -> None:
    learner = Learner(
        Mind(answer=lambda _: {"why": "ok"}),
        lambda told, times: [{"why": "much too long"}, {"why": "no"}, told][min(times, 2)],
    )
    check = {"where": "why <> 'NO'", "message": "'not no'"}
    frame = sg.table(ROWS).sem_map("About {text}", returns=Short, check=check)
    with sg.Session(llm=learner, store="memory", journal=False, runs="") as session:
        assert session.run(frame).rows()[0]["why"] == "OK"
    assert reasons(learner.requests[-1]) == ["why: say it shorter", "not no"]


def test_no_file_holds_a_class_with_validators(tmp_path: Path) -> None:
    frame = sg.table(ROWS, name="notes").sem_map("About {text}", returns=Checked)
    for written in (frame.to_yaml, lambda: frame.save(tmp_path / "asked.yaml")):
        with pytest.raises(PlanError, match="Checked has validators, or fields that only it can"):
            written()
    assert not list(tmp_path.iterdir())


def test_the_record_of_a_run_names_the_class(tmp_path: Path) -> None:
    result, _ = run(Checked, BEN, lambda _: {}, runs=tmp_path)
    assert result.record is not None
    assert "tests.execution.test_pydantic:Checked" in (result.record / "plan.yaml").read_text()


# -- rows


class Note(BaseModel):
    id: str
    text: str
    at: list[int] = []


@dataclasses.dataclass
class Plain:
    id: str
    text: str


def test_rows_may_be_objects_of_models_and_dataclasses() -> None:
    notes = [Note(id="a", text="x", at=[1]), Note(id="b", text="y")]
    assert sg.table(notes).columns == ["id", "text", "at"]
    assert sg.table([Plain("a", "x")]).columns == ["id", "text"]
    assert sg.table([{"id": "a", "text": "x"}, Plain("b", "y")]).tables["table"].num_rows == 2


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (UUID, UUID(UUID_TEXT), UUID_TEXT),
        (PurePath, PurePath("a/b"), "a/b"),
        (HttpUrl, HttpUrl("https://a.b/"), "https://a.b/"),
        (time, time(12), "12:00:00"),
        (timedelta, timedelta(hours=1), "PT1H"),
        (list[Plain], [Plain("a", "x")], [{"id": "a", "text": "x"}]),
    ],
)
def test_values_of_objects_that_are_no_types_of_columns_are_texts(
    kind: Any, value: Any, read: Any
) -> None:
    made = create_model("Made", a=(kind, ...))(a=value)
    fields = [("a", kind), ("home", Home)]
    whole = dataclasses.make_dataclass("Whole", fields)(value, Home(city="Riga"))
    assert sg.table([made]).tables["table"].to_pylist() == [{"a": read}]
    home = {"city": "Riga", "zip": None}
    assert sg.table([whole]).tables["table"].to_pylist() == [{"a": read, "home": home}]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([Note], "input table row 1 is the class Note, not a mapping of columns"),
        (Note(id="a", text="x"), "input table cannot be read from Note"),
        (Plain("a", "x"), "input table cannot be read from Plain"),
    ],
)
def test_a_class_or_a_single_object_is_no_list_of_rows(rows: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        sg.table(rows)
    assert str(caught.value).startswith(said)


KINDS = """
plan: kinds
inputs:
  kinds: {name: string, description: string, fields: json null}
  ties: {source: string, target: string, name: string}
optional: [kinds, ties]
steps:
  asked:
    - from: kinds
    - sem_map: {prompt: fill, schema: fields}
returns: [asked, ties]
"""
FILL = "---\nreturns: {attributes: json}\n---\n# item\nFill {name}\n"


def kinds(folder: Path, model: Any, **inputs: Any) -> Result:
    """A run of a plan whose rows have an answer schema each."""
    (folder / "prompts").mkdir(exist_ok=True)
    (folder / "kinds.yaml").write_text(KINDS)
    (folder / "prompts" / "fill.md").write_text(FILL)
    with sg.Session(llm=model, store="memory", journal=False, runs="", folder=folder) as session:
        return session.run(folder / "kinds.yaml", inputs=inputs)


def test_an_input_of_names_descriptions_and_fields_takes_classes(tmp_path: Path) -> None:
    class Empty(BaseModel):
        """A type alone."""

    learner = Learner(
        Mind(answer=lambda _: {"attributes": BEN}),
        lambda told, times: told if times else {"attributes": {**BEN, "age": 200}},
    )
    result = kinds(tmp_path, learner, kinds={"Human": Checked, "Alone": Empty})
    rows = result.rows("asked")
    assert [row["description"] for row in rows] == ["", "A type alone."]
    assert json.loads(rows[0]["attributes"])["age"] == 30
    assert (rows[1]["fields"], rows[1]["attributes"]) == (None, None)
    assert reasons(learner.requests[1]) == ["age: Age must be between 0 and 150"]
    fields = json.loads(rows[0]["fields"])
    assert [path for path in fields if "." not in path] == [
        "",
        "name",
        "age",
        "homes",
        "code",
        "key",
    ]


def test_a_class_among_the_values_of_rows_is_its_schema(tmp_path: Path) -> None:
    learner = Oracle(Mind(answer=lambda _: {"attributes": ANN}))
    rows = [{"name": "Human", "description": "a human", "fields": Person}]
    (row,) = kinds(tmp_path, learner, kinds=rows).rows("asked")
    assert json.loads(row["fields"])["age"] == {"type": "int64 null", "minimum": 0, "maximum": 150}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"Human": "Person"}, 'input kinds "Human" is str, not a class'),
        ({"Human": create_model("Odd", a=(set[int], ...))}, "input kinds, row 1, column fields: Odd.a: set[int]"),
        ({"Human": dict}, "input kinds, row 1, column fields: dict is no Pydantic model"),
        ([Person], "input kinds row 1 is the class Person"),
    ],
)  # fmt: skip
def test_what_is_no_class_of_answers_is_refused(tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        kinds(tmp_path, Oracle(Mind()), kinds=given)
    assert str(caught.value).startswith(said)


def test_a_mapping_of_tuples_to_lists_fits_an_input_with_one_column_more(tmp_path: Path) -> None:
    ties = {("Person", "City"): ["HOME", "WORK"], ("City", "City"): []}
    result = kinds(tmp_path, Oracle(Mind()), kinds={}, ties=ties)
    assert result.rows("ties") == [
        {"source": "Person", "target": "City", "name": "HOME"},
        {"source": "Person", "target": "City", "name": "WORK"},
    ]


@pytest.mark.parametrize("made", [list, pa.Table.from_pylist])
def test_rows_that_name_a_class_import_nothing(tmp_path: Path, made: Any) -> None:
    fields = json.dumps({"a": "string", "": {"class": "antigravity:fly"}})
    rows = [{"name": "Human", "description": "", "fields": fields}]
    with pytest.raises(InputError, match="was not given the class antigravity:fly"):
        kinds(tmp_path, Oracle(Mind()), kinds=made(rows))
    assert "antigravity" not in sys.modules


def test_rows_that_name_a_class_have_its_fields(tmp_path: Path) -> None:
    key = f"{Checked.__module__}:Checked"
    rows = [{"name": "Human", "description": "", "fields": {"a": "string", "": {"class": key}}}]
    with pytest.raises(InputError, match="the class .*Checked has other fields now"):
        kinds(tmp_path, Oracle(Mind()), kinds=rows)


def test_json_in_an_answer_of_a_class_is_json(tmp_path: Path) -> None:
    told = {"tone": "cross", "extra": {"a": [1]}}
    model = Oracle(Mind(answer=lambda _: {"attributes": told}))
    for given in (Calm, create_model("Loose", tone=(str, ...), extra=(dict[str, Any], ...))):
        (row,) = kinds(tmp_path, model, kinds={"Human": given}).rows("asked")
        assert json.loads(row["attributes"]) == told


# -- other processes

OF_MODULE = """
from pydantic import BaseModel, field_validator

class Pet(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def shout(cls, value):
        return value.upper()
"""
SCRIPT = """
import sys
import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
model = Oracle(Mind(answer=lambda _: {{"attributes": {{"name": "rex"}}}}))
with sg.Session(llm=model, store="memory", folder=".") as session:
    result = {run}
    print(result.run, result.rows("asked")[0]["attributes"])
"""


def script(folder: Path, run: str) -> subprocess.CompletedProcess[str]:
    """A process of its own that runs the plan."""
    code = textwrap.dedent(SCRIPT).format(run=run)
    (folder / "script.py").write_text(code)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_resumed_run_takes_the_classes_that_its_process_has(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "kinds.yaml").write_text(KINDS)
    (tmp_path / "prompts" / "fill.md").write_text(FILL)
    (tmp_path / "pets.py").write_text(OF_MODULE)
    first = script(tmp_path, 'session.run("kinds.yaml", kinds={"Pet": __import__("pets").Pet})')
    assert first.stdout.split(maxsplit=1)[1:] == ['{"name":"REX"}\n'], first.stderr
    again = script(tmp_path, '__import__("pets") and session.run("kinds.yaml", resume="last")')
    assert again.stdout.split(maxsplit=1)[1:] == ['{"name":"REX"}\n'], again.stderr
    lost = script(tmp_path, 'session.run("kinds.yaml", resume="last")')
    assert "this process was not given the class pets:Pet" in lost.stderr
    assert "Import its module in Python before the run" in lost.stderr


# -- results


class Fact(BaseModel):
    id: str
    text: str = Field(alias="Text")
    extra: dict[str, Any] = {}


def test_rows_of_a_result_as_objects_of_a_class() -> None:
    rows = [{"id": "a", "text": "x", "extra": '{"n": 1}', "more": 2, "none": None}]
    with sg.Session(llm=Oracle(Mind()), store="memory", runs="", journal=False) as session:
        result = session.run(sg.table(rows).filter("id = 'a'"))
    (fact,) = result.rows(as_=Fact)
    assert fact == Fact(id="a", Text="x", extra={"n": 1})
    assert result.rows(as_=Plain) == [Plain("a", "x")]
    assert result.rows(as_=create_model("Later", id=(str, ...), none=(int, 3)))[0].none == 3
    with pytest.raises(DataError, match="row 1, column more: Input should be a valid array"):
        result.rows(as_=create_model("Odd", more=(list[int], ...)))
    with pytest.raises(DataError, match="row 1, column none: Input should be a valid integer"):
        result.rows(as_=create_model("Odd", none=(int, ...)))


class Tone(enum.Enum):
    CALM = "calm"


class Home2(BaseModel):
    city: str


@dataclasses.dataclass
class Later:
    id: str
    none: int = 3


class Loose(TypedDict, total=False):
    id: str
    none: int


def test_strict_classes_and_those_that_forbid_further_columns_take_rows_too() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")

        tone: Tone
        key: UUID
        at: datetime
        home: Home2

    rows = [{
        "id": "a", "tone": "calm", "key": UUID_TEXT, "at": datetime(2025, 1, 1, tzinfo=UTC), "home": {"city": "Riga"},
        "none": None,
    }]  # fmt: skip
    with sg.Session(llm=Oracle(Mind()), store="memory", runs="", journal=False) as session:
        result = session.run(sg.table(rows).filter("id = 'a'"))
    (row,) = result.rows(as_=Strict)
    assert (row.tone, str(row.key), row.at, row.home) == (
        Tone.CALM, UUID_TEXT, rows[0]["at"], Home2(city="Riga"),
    )  # fmt: skip
    assert result.rows(as_=Later) == [Later("a", 3)]
    assert result.rows(as_=Loose) == [{"id": "a"}]
    with pytest.raises(DataError, match="Unready cannot be read: name 'Missing' is not defined"):
        result.rows(as_=Unready)


class Unready(BaseModel):
    later: Missing  # type: ignore[name-defined]  # noqa: F821
