"""`python -m benchmarks.memories` with a pair of plans of one's own: options, wrong answers, breaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memories.__main__ import main

GRAPH = """graph: notes
key: id
partition: conversation
nodes:
  Note:
    properties: {text: string, at: timestamp, facts: "list<string>"}
    fulltext: {note_texts: [text]}
"""
WRITE = """plan: write
graph: graph.yaml
inputs: {turns: {conversation: string, id: string, at: timestamp, speaker: string, text: string}}
steps:
  notes:
    - from: turns
    - sem_map: {prompt: list}
    - add: {text: "concat(speaker, ': ', text)"}
writes: [{merge: {from: notes, node: Note}}]
returns: [notes]
"""
PROMPT = """---
returns: {facts: list<string>}
---
# rules
List what each turn says.
# item
LAYOUT
"""
READ = """plan: read
graph: graph.yaml
inputs: {questions: {conversation: string, id: string, question: string, at: timestamp null}}
params: {k: 10}
presets: {few: {params: {k: 1}}}
steps:
  shown:
    - from: questions
    - search: {over: Note, alias: note, k: $k, methods: {fulltext: text, to: question}}
    - project: {question: id, rank: "row_number() OVER (PARTITION BY id ORDER BY note.at, note.id)", text: note.text, at: note.at, turns: "[SOURCE]"}
  answered: [{call: {plan: memories/answer, inputs: [questions, shown]}}]
  answers: [{from: answered.answers}COLUMNS]
returns: RETURNS
"""


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Runs the command over a pair of plans; what it printed, and its warnings or error."""

    def run(
        *options: str,
        layout="{speaker}: {text}",
        turn="note.id",
        columns="",
        returns="[answers, shown]",
        prompt=PROMPT,
        write=WRITE,
    ):
        (tmp_path / "graph.yaml").write_text(GRAPH)
        (tmp_path / "write.yaml").write_text(write)
        (tmp_path / "prompts").mkdir(exist_ok=True)
        (tmp_path / "prompts" / "list.md").write_text(prompt.replace("LAYOUT", layout))
        text = READ.replace("SOURCE", turn).replace("COLUMNS", columns).replace("RETURNS", returns)
        (tmp_path / "read.yaml").write_text(text)
        pair = f"{tmp_path}/write.yaml,{tmp_path}/read.yaml"
        try:
            main([pair, "--people", "3", "--count", "12", *options])
        except SystemExit as ended:
            return "", str(ended)
        return capsys.readouterr()

    return run


def test_a_pair_that_keeps_the_interface_is_not_warned_about(run):
    out, err = run()
    assert err == ""
    assert len(out.splitlines()) == 2


def test_options_are_for_the_plan_that_they_name(run):
    def tokens(*options):
        out, _ = run(*options)
        return int(out.splitlines()[1].split()[6])

    usual = tokens()
    assert tokens("--set", "read.k=2") < usual
    assert tokens("--preset", "read.few") < tokens("--set", "read.k=2")
    _, err = run("--set", "k=2")
    assert err == "--set k=2 does not say for which plan. Write --set write.k=2 or --set read.k=2"
    _, err = run("--use", "write.notse=packed")
    assert "notse" in err


def test_a_wrong_answer_is_shown_with_its_records_and_what_the_model_reads_in_them(run):
    out, _ = run("--show", "--set", "read.k=1")
    assert "1 records shown" in out
    assert "reads: " in out


def test_a_prompt_in_which_nothing_is_read_is_reported(run):
    _, err = run(layout="{speaker} said that {text}")
    assert "answers to the question for `facts` are empty" in err
    assert "begins with its speaker" in err


def test_evidence_that_is_no_turn_is_reported(run):
    _, err = run(turn="'note ' || note.id")
    assert 'are no ids of turns, such as "note ' in err


def test_missing_parts_of_the_interface_are_reported(run):
    _, err = run(returns="[answers]")
    assert "returns no `shown`" in err
    _, err = run(columns=", {project: {conversation: conversation, id: id, answer: answer}}")
    assert "`answers` has no column evidence, so `cited` is 0" in err


def test_a_read_plan_without_answers_is_refused(run):
    _, err = run(returns="[shown]")
    assert "returns no `answers`. It returns shown. Returns: {answers: STEP}" in err
    _, err = run(columns=", {project: {id: id, text: answer}}")
    assert "`answers` has no column answer. It has id, text" in err


def test_the_reasons_of_failed_rows_are_reported(run):
    failing = WRITE.replace(
        "- add: {text:", "- require: {where: nth <> 2, says: \"'odd'\"}\n    - add: {text:"
    )
    failing = failing.replace(
        "- sem_map", '- add: {nth: "row_number() OVER (ORDER BY at, id)"}\n    - sem_map'
    )
    out, err = run(write=failing)
    assert out.splitlines()[1].endswith("  1 row failed")
    assert "a row failed at notes: " in err
    assert "odd" in err


SUMMARY = """---
returns: {summary: string}
---
# rules
Keep what is known, and add what the new turn says.
# item
Known so far:
{old}
New turn:
{speaker}: {text}
"""


def test_a_summary_is_the_sentences_of_the_text_without_the_words_around_them(run):
    summed = WRITE.replace(
        "- sem_map: {prompt: list}",
        """- add: {old: "'Ada Costa lives in Oslo.'"}
    - sem_map: {prompt: list}
    - project: {conversation, id, at, speaker, text, facts: "[summary]"}
    - require: {where: "facts[1] = ''", says: "facts[1]"}""",
    )
    _, err = run(write=summed, prompt=SUMMARY)
    assert "Ada Costa lives in Oslo. " in err
    assert "Known so far" not in err
    assert "New turn" not in err


def test_a_choice_among_numbered_records_is_refused_and_not_guessed(run):
    choosing = WRITE.replace(
        "- sem_map: {prompt: list}",
        """- sem_map:
        prompt: "Which of {others} says the same as “{text}”?"
        returns: {same: ref<others> null}
        refs: {others: {of: turns, using: speaker, order: id, shows: [text]}}""",
    )
    _, err = run(write=choosing.replace("- add: {text", "- add: {facts: '[]::VARCHAR[]', text"))
    assert "every row failed" in err
    assert '"same" is a number, and the question shows numbered records' in err
