"""A world: its truth, the messages that tell of it, and the graph that those who read them should
have.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from benchmarks.world.dates import iso
from benchmarks.world.difficulty import LEVELS, Difficulty
from benchmarks.world.gold import Episode, Gold, told
from benchmarks.world.life import Thing, Truth, live
from benchmarks.world.telling import Calling, Statement, tell, worded

_NAMESPACE = uuid.UUID("6f1d6d0e-3f5a-5b0e-9a53-0d8f6f6a2c11")
_SMALL_TALK = (
    "How are you?", "The weather is fine today.", "It was a long week.", "Thanks for the cake.", "What a day.",
    "So much to do.", "Have a good evening.",
)  # fmt: skip
_NEAR = 4  # days within which statements may share a message


@dataclass(frozen=True)
class World:
    """A world, the same for the same arguments; made by `make`.

    Args:
        seed: Of its random draws.
        difficulty: Its features; see `Difficulty`, and `LEVELS` there.
        group: The group_id of all messages.
        truth: Its truth.
        episodes: The messages, in order of time.
    """

    seed: int
    difficulty: Difficulty
    group: str
    truth: Truth
    episodes: tuple[Episode, ...]

    @classmethod
    def make(
        cls,
        seed: int,
        people: int = 8,
        difficulty: int | str = 1,
        group: str = "world",
    ) -> Self:
        """Draw a world with so many people; about nine messages for each. Raises ValueError."""
        if str(difficulty) not in LEVELS:
            raise ValueError(f'a world has no difficulty "{difficulty}": {", ".join(LEVELS)}')
        hard = LEVELS[str(difficulty)]
        if not 2 <= people <= 2000:
            raise ValueError(f"a world has 2 to 2,000 people, not {people}")
        draw = random.Random(f"world/{seed}/{people}/{hard.level}")
        truth = live(draw, people, hard)
        statements = tell(draw, truth, hard)
        messages = _Messages(draw, truth, hard, group)
        return cls(seed, hard, group, truth, tuple(messages.of(statements)))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The messages as rows for add_episode: uuid, group_id, name, source, content, valid_at."""
        return [
            {
                "uuid": e.uuid, "group_id": self.group, "name": f"message {e.number}", "source": "message",
                "content": e.content, "valid_at": iso(e.at),
            }
            for e in self.episodes
        ]  # fmt: skip

    def gold(self, after: int | None = None, at: datetime | None = None) -> Gold:
        """The graph that the first `after` messages tell, and of its facts those that hold at a
        time; None: all.
        """
        return told(self.episodes[:after], at)


class _Messages:
    """Puts statements into messages."""

    def __init__(self, draw: random.Random, truth: Truth, hard: Difficulty, group: str) -> None:
        self._draw, self._hard, self._group = draw, hard, group
        self._speakers = [person for person in truth.of("person") if not person.role]

    def of(self, statements: Sequence[Statement]) -> Iterator[Episode]:
        """The messages, in order."""
        number, rest = 0, list(statements)
        while rest:
            said = [rest.pop(0)]
            while rest and len(said) < 3 and self._joins(said, rest[0]):
                said.append(rest.pop(0))
            number += 1
            yield self._message(number, said)
            if self._hard.talk and self._draw.random() < self._hard.talk and rest:
                number += 1
                between = said[-1].at + (rest[0].at - said[-1].at) / 2
                speaker, text = self._draw.choice(self._speakers), self._draw.choice(_SMALL_TALK)
                yield self._made(number, between, speaker, text)

    def _joins(self, said: Sequence[Statement], more: Statement) -> bool:
        """Whether a statement joins earlier ones in a message, by chance if they are still valid
        then, and differ.
        """
        if self._hard.level == 0 or (more.at - said[0].at).days >= _NEAR:
            return False
        spans = [s.span for s in said if s.span]
        holds = all(span.old or span.until is None or span.until > more.at for span in spans)
        fits = holds and more.span not in spans and all(s.when != "yesterday" for s in said)
        return fits and self._draw.random() < 0.4

    def _message(self, number: int, said: Sequence[Statement]) -> Episode:
        speaker = self._speaker(said)
        sentences: list[str] = []
        named: list[tuple[Thing, str]] = []
        call = Calling(self._draw, self._hard)
        for before, one in zip([None, *said], said, strict=False):
            alike = before is not None and before.source == one.source
            again = alike and one.source != speaker and not one.source.role
            pronoun = again and one.kind != "denied" and self._draw.random() < 0.5
            sentence, found = worded(one, call, speaker=speaker, pronoun=pronoun)
            sentences.append(sentence)
            named += found
        if self._hard.talk and self._draw.random() < 4 * self._hard.talk:
            sentences.insert(self._draw.choice((0, len(sentences))), self._draw.choice(_SMALL_TALK))
        return self._made(number, said[-1].at, speaker, " ".join(sentences), said, named)

    def _speaker(self, said: Sequence[Statement]) -> Thing:
        """A person who speaks of himself, or of others."""
        subjects = {s.source for s in said}
        alone = next(iter(subjects))
        if (
            len(subjects) > 1
            or alone not in self._speakers
            or any(s.kind == "denied" for s in said)
        ):
            return self._another(said)
        return alone if self._draw.random() < 0.5 else self._another(said)

    def _another(self, said: Sequence[Statement]) -> Thing:
        subjects = {s.source for s in said}
        named = subjects | {s.target for s in said}
        others = [person for person in self._speakers if person not in named]
        return self._draw.choice(others or self._speakers)

    def _made(
        self, number: int, at: datetime, speaker: Thing, text: str, said: Sequence[Statement] = (),
        named: Sequence[tuple[Thing, str]] = (),
    ) -> Episode:  # fmt: skip
        content = f"{speaker.name}(user): {text}"
        key = str(uuid.uuid5(_NAMESPACE, f"{self._group}/{number}/{content}/{iso(at)}"))
        mentions = tuple(dict.fromkeys([(speaker, speaker.name), *named]))
        return Episode(number, key, at, content, tuple(said), mentions)
