"""Models that say yes or no, with errors of a known kind; a server for them that counts what it is paid."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import semgraph as sg
from semgraph.frontend.frame import Frame
from semgraph.tune.tuning import Tuning
from tests.llm.server import Answer, Fault, ModelServer

PRICES = {"gpt-4.1-mini": (2.0, 8.0), "gpt-4.1-nano": (0.1, 0.4)}
_RECORD = re.compile(r"(\d+)\. (\{.*\})")
_QUOTED = re.compile("“(.*?)”")
Errs = Callable[[Sequence[str], int, str], bool]  # texts of a call, the place of one, the model


def share(*words: object) -> float:
    """A number between 0 and 1 that only depends on the words."""
    digest = hashlib.sha256(" ".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def never(*_: object) -> bool:
    """Makes no errors."""
    return False


class Judge:
    """Says yes to texts with `leaks`, except where it `errs`."""

    def __init__(self, errs: Errs = never) -> None:
        self.errs = errs
        self.fault: Callable[[dict[str, Any], int], Fault | Answer | None] | None = None
        self.asked = 0

    async def __call__(self, body: dict[str, Any]) -> str | Answer | Fault:
        self.asked += 1
        if self.fault is not None and (fault := self.fault(body, self.asked)) is not None:
            return fault
        question = body["messages"][-1]["content"]
        if "response_format" not in body:  # one word, whose probability this server does not say
            return "no"
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        if "answers" in properties:
            records = [(int(n), json.loads(r)["text"]) for n, r in _RECORD.findall(question)]
            texts = [text for _, text in records]
            found = [
                {"id": number, "answer": self.said(texts, place, body["model"])}
                for place, (number, _) in enumerate(records)
            ]
            return json.dumps({"answers": found})
        return json.dumps({"answer": self.said(_QUOTED.findall(question)[-1:], 0, body["model"])})

    def said(self, texts: Sequence[str], place: int, model: str) -> str:
        """Yes or no."""
        return "yes" if ("leaks" in texts[place]) != self.errs(texts, place, model) else "no"


def notes(number: int, leaks: Callable[[int], bool] = lambda _: True) -> list[dict[str, Any]]:
    """Rows of which some leak."""
    return [
        {"id": n, "text": f"Pipe {n} {'leaks' if leaks(n) else 'holds'}."} for n in range(number)
    ]


def leaking(rows: Sequence[dict[str, Any]], rules: str = "", **options: Any) -> Frame:
    """The rows that leak, as the step `good`."""
    table = sg.table(list(rows), key="id")
    return table.sem_filter(f"{rules}Does “{{text}}” leak?", **options).step("good")


def truth_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": row["id"]} for row in rows if "leaks" in row["text"]]


def opened(server: ModelServer, folder: Path, more: str = "", **options: Any) -> sg.Session:
    """A session with a dear model, and a cheap one as the role `small`."""

    def model(name: str) -> str:
        sent, said = PRICES[name]
        return f"openai:{name}@{server.base_url}?price={sent:g}/{said:g}{more}"

    given = {
        "llm": model("gpt-4.1-mini"), "models": {"small": model("gpt-4.1-nano")}, "store": "memory",
        "folder": folder, "journal": False, "runs": "",
    }  # fmt: skip
    return sg.Session(**given | options)


async def tuned(session: sg.Session, plan: Any, **options: Any) -> Tuning:
    """Tune in silence."""
    return await session.atune(plan, **{"say": None, **options})


def verdicts(result: Tuning) -> dict[str, str]:
    return {each.name: each.verdict for each in result.tried}
