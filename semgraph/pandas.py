"""Semantic operators as methods of pandas data frames: importing this module registers `df.sem`.

```python
import semgraph.pandas

leaking = tickets.sem.filter("Does {body} complain about a leak?")
```

Each call runs a plan of one operator at once, with the session of `session()`, and returns a data
frame: rows keep their index, and columns keep their types. `df.sem()` is still the standard error
of the mean. To run several operators in one plan, which is optimized as a whole, use
`semgraph.table(df)`.
"""

from __future__ import annotations

import atexit
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, ParamSpec, TypeVar, cast

import pyarrow as pa

from semgraph.errors import InputError, PlanError, Problem, RowError, did_you_mean
from semgraph.execution.result import Result
from semgraph.extras import install
from semgraph.formats import plural
from semgraph.frontend.document import checks_arguments
from semgraph.frontend.frame import Frame, table
from semgraph.frontend.rows import is_pandas, set_aside
from semgraph.logical.node import walk
from semgraph.meter import StepMetrics
from semgraph.session import Session

try:
    import pandas as pd
except ModuleNotFoundError as _error:
    _what = f"semgraph.pandas needs pandas: {install('pandas')}"
    raise ModuleNotFoundError(_what, name="pandas") from _error

__all__ = ["Semantics", "session", "usage", "use"]

P = ParamSpec("P")
R = TypeVar("R")
_ROW = "_semgraph_row"  # the position of a row in its data frame
_OTHER = "_semgraph_other_row"  # the position of the other row of a pair
_STEP = "answers"
_session: Session | None = None


def session() -> Session:
    """The session of `df.sem`: the one set by `use`, else one with the settings of the environment
    and `semgraph.toml`, created on first use.
    """
    global _session  # noqa: PLW0603 - one for the process, as the options of pandas are
    if _session is None:
        _session = Session()
    return _session


def use(session: Session) -> None:
    """Set the session of `df.sem`: its models, limits and journal. The previous one stays open.

    >>> use(Session(llm="recorded", store="memory"))
    >>> usage().calls_issued
    0
    """
    global _session  # noqa: PLW0603
    if not isinstance(session, Session):
        hint = 'write use(semgraph.Session(llm="openai:gpt-4.1-mini"))'
        raise PlanError(f"{type(session).__name__} is no session", hint=hint)
    _session = session


def usage() -> StepMetrics:
    """The counters of all ended runs of the session: calls, tokens, dollars."""
    return session().usage


def _checks(operator: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse arguments that neither the method nor the operator of `Frame` has. Raises TypeError."""
    of_frame = inspect.signature(getattr(Frame, operator)).parameters
    beside = [name for name in of_frame if name not in {"self", "step"}]
    return lambda method: checks_arguments(method, operator, beside)


def _of_frame(operator: str) -> Callable[..., pd.DataFrame]:
    """The method of data frames that runs a method of `Frame` on their rows; `use` is beside it."""
    method = getattr(Frame, operator)
    signature = inspect.signature(method)

    def run(self: Semantics, *args: Any, use: str | None = None, **options: Any) -> pd.DataFrame:
        try:
            asked = signature.bind(self, *args, **options).arguments
        except TypeError as error:
            raise TypeError(f"{operator}: {error}") from None
        del asked["self"]
        if "other" not in asked:
            return _Question(_Rows(self._frame), operator, asked, use).rows()
        right = _Rows(_data_frame(asked["other"], operator), "other_rows")
        question = _Question(_Rows(self._frame), operator, {**asked, "other": right.frame}, use)
        return question.pairs(right, asked.get("alias", "other"))

    own = [each for name, each in signature.parameters.items() if name != "step"]
    kind = inspect.Parameter.KEYWORD_ONLY
    own.append(inspect.Parameter("use", kind, default=None, annotation="str | None"))
    run.__signature__ = inspect.Signature(own, return_annotation="pd.DataFrame")  # type: ignore[attr-defined]
    run.__doc__ = method.__doc__
    return _checks(operator)(run)


class Semantics:
    """The semantic operators of a data frame, `df.sem`.

    A prompt names columns, `"Is {body} a complaint?"`. `options` are the other arguments of the
    same operator of `Frame`. `use` is one of its implementations, `"packed(rows=10)"`. Results have
    the run's id, calls, tokens, dollars and failed rows in `attrs["semgraph"]`.

    Raises:
        PlanError: An argument is wrong, or a prompt names no column; nothing was spent.
        BudgetReached: The session's limit is reached; answers so far are in the journal.
        RowError: The model gave no answer for a row, unless `on_error="null"`.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @_checks("sem_join")
    def join(
        self,
        other: pd.DataFrame,
        prompt: str | Mapping[str, str],
        *,
        alias: str = "other",
        using: Mapping[str, str] | Sequence[str] | str | None = None,
        how: Literal["inner", "left", "semi", "anti"] = "inner",
        use: str | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """The pairs of rows for which the model says yes. A prompt names columns of this frame,
        `{body}`, and of the other, `{other.name}`.

        The index is this frame's. The other frame's columns follow; one that both have is called
        `NAME_other`. `using` allows only pairs with equal columns; the model is called only for
        these.
        """
        right = _Rows(_data_frame(other, "join"), "other_rows")
        asked = {"other": right.frame, "prompt": prompt, "alias": alias, "using": using, "how": how}
        question = _Question(_Rows(self._frame), "sem_join", {**asked, **options}, use)
        return question.rows() if how in {"semi", "anti"} else question.pairs(right, alias)

    @_checks("sem_agg")
    def agg(
        self,
        prompt: str | Mapping[str, str],
        returns: Any = None,
        by: str | Sequence[str] | None = None,
        *,
        add: Mapping[str, str] | None = None,
        use: str | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """One row per group of equal `by`, with the model's answers from its rows, and the
        aggregates `add`: `{"n": "count(*)"}`. Without `by`, all rows are one group.

        The columns of `by` come first and the index is new, as with `groupby(by, as_index=False)`.
        """
        own = {**(add or {}), _ROW: f"min({_ROW})"}
        asked = {"prompt": prompt, "returns": returns, "by": by, "add": own, **options}
        return _Question(_Rows(self._frame), "sem_agg", asked, use).groups()

    filter = _of_frame("sem_filter")
    map = _of_frame("sem_map")
    topk = _of_frame("sem_topk")
    search = _of_frame("sem_search")
    dedup = _of_frame("sem_dedup")
    cluster_by = _of_frame("sem_cluster_by")
    classify = _of_frame("sem_classify")
    extract = _of_frame("sem_extract")
    sim_join = _of_frame("sem_sim_join")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The standard error of the mean, as `df.sem()` without this module."""
        return _standard_error(self._frame, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Refuse an unknown name, with the nearest known one."""
        known = [word for word in vars(Semantics) if not word.startswith("_")]
        word = name.removeprefix("sem_")
        hint = f'did you mean "{word}"?' if word in known else did_you_mean(word, known)
        there = "it has: " + ", ".join(known)
        more = "all operators: semgraph.table(df)"
        problem = Problem(f'df.sem has no "{name}"', there=there, hint=hint or more)
        raise AttributeError(str(problem))


@dataclass(frozen=True)
class _WithoutOperators:
    """`sem` of series and groups: the standard error of the mean, and no operators."""

    owner: Any
    what: str
    standard_error: Callable[..., Any]
    hint: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The standard error of the mean."""
        return self.standard_error(self.owner, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Refuse an operator with what replaces it."""
        there, hint = "semantic operators are those of data frames", self.hint.format(name)
        problem = Problem(f'{self.what}.sem has no "{name}"', there=there, hint=hint)
        raise AttributeError(str(problem))


def _of_series(series: pd.Series) -> _WithoutOperators:
    hint = 'write df.sem.{0}(...), or series.to_frame("text").sem.{0}(...)'
    return _WithoutOperators(series, "series", _standard_error_of_column, hint)


class _OfGroups:
    """The attribute `sem` of groups; on their class, the original method."""

    def __get__(self, groups: pd.api.typing.DataFrameGroupBy | None, owner: type) -> Any:
        if groups is None:
            return _standard_error_of_groups
        hint = 'groups are an argument: df.sem.agg(..., by="COLUMN"), df.sem.topk(..., by="COLUMN")'
        return _WithoutOperators(groups, "groupby(...)", _standard_error_of_groups, hint)


class _Rows:
    """A data frame as a relation of the columns that a plan can have, and the positions of its
    rows. Raises InputError if its columns have several levels.
    """

    def __init__(self, source: pd.DataFrame, name: str = "rows") -> None:
        if source.columns.nlevels > 1:
            what = f"the columns of the frame have {source.columns.nlevels} levels"
            hint = 'make one of them: df.columns = ["_".join(map(str, c)) for c in df.columns]'
            raise InputError(what, hint=hint)
        self.source = source
        self.left_out: dict[str, Problem] = {}
        columns: dict[str, Any] = {}
        folded = [str(column).casefold() for column in dict.fromkeys(source.columns)]
        for column in dict.fromkeys(source.columns):
            try:
                alone = folded.count(str(column).casefold()) == 1
                columns[column] = _column(source.loc[:, source.columns == column], alone=alone)
            except PlanError as error:  # drop proposed types, which `sem` does not take
                self.left_out[str(column)] = replace(error.problems[0], there=None)
        places = pa.array(range(len(source)), pa.int64())
        self.frame = table(pa.table({**columns, _ROW: places}), key=_ROW, name=name)


def _data_frame(other: Any, method: str) -> pd.DataFrame:
    if not is_pandas(other):
        what = f"{method}: other is {type(other).__name__}, not a data frame of pandas"
        column = isinstance(other, pd.Series)
        hint = 'give other.to_frame("name")' if column else "give pd.DataFrame(rows)"
        raise InputError(what, hint=hint)
    return cast("pd.DataFrame", other)


def _column(frame: pd.DataFrame, *, alone: bool) -> Any:
    """The only column of a frame as an array. Raises PlanError if no plan can have it."""
    if not alone:
        what = f'the frame has column "{frame.columns[0]}" twice, but for case'
        raise InputError(what, hint="rename one of them")
    rows: Any = table(frame, name="df").made.table
    for error, _ in set_aside(rows):
        raise InputError(error)
    return rows.column(0)


class _Question:
    """One operator over the rows of a data frame, checked but not yet run."""

    def __init__(
        self, rows: _Rows, operator: str, arguments: Mapping[str, Any], use: str | None
    ) -> None:
        _refuse_arguments(arguments, use)
        self.source, self.own = rows.source, rows.frame.columns
        self.use = {} if use is None else {_STEP: use}
        try:
            self.frame: Frame = getattr(rows.frame, operator)(**arguments, step=_STEP)
        except PlanError as error:
            raise PlanError(*_problems(error, rows, arguments)) from None
        if use is not None and not any(node.swappable for node in walk(self.frame.node)):
            what, hint = f"{operator} has no implementations for use to choose", "leave use out"
            raise PlanError(what, hint=hint)

    def rows(self) -> pd.DataFrame:
        """The rows that the operator returns, with its answers."""
        new = [name for name in self.frame.columns if name not in self.own]
        self._refuse_columns(new)
        result = self._run(self.frame.project([_ROW, *new]))
        answers = result.to_arrow()
        taken = self.source.iloc[answers.column(_ROW).to_numpy()]
        return _made([taken, *_series(answers.select(new), taken.index)], self.source, result)

    def pairs(self, right: _Rows, alias: str) -> pd.DataFrame:
        """The pairs that a join returns, with its answers."""
        new = [name for name in self.frame.columns if name not in {*self.own, alias}]
        columns = {**dict.fromkeys([_ROW, *new]), _OTHER: f'"{alias}".{_ROW}'}
        theirs = {
            name: f"{name}_{alias}" if name in self.source.columns else name
            for name in right.source.columns
        }
        self._refuse_columns([*new, *theirs.values()])
        result = self._run(self.frame.project(columns))
        answers = result.to_arrow()
        taken = self.source.iloc[answers.column(_ROW).to_numpy()]
        others = _taken(right.source, answers.column(_OTHER)).rename(columns=theirs)
        others.index = taken.index
        return _made(
            [taken, others, *_series(answers.select(new), taken.index)], self.source, result
        )

    def groups(self) -> pd.DataFrame:
        """The groups that an aggregation returns: the columns of `by` unchanged, then the answers."""
        result = self._run(self.frame)
        answers = result.to_arrow()
        by = [name for name in answers.column_names if name in self.own and name != _ROW]
        keys = _taken(self.source[by], answers.column(_ROW)).reset_index(drop=True)
        new = answers.drop_columns([*by, _ROW])
        return _made([keys, *_series(new, pd.RangeIndex(answers.num_rows))], self.source, result)

    def _refuse_columns(self, new: Sequence[str]) -> None:
        for i, name in enumerate(new):
            if name in self.source.columns or name in new[:i]:
                what = f'the frame has a column "{name}" already'
                raise PlanError(what, hint="name the new one otherwise")

    def _run(self, frame: Frame) -> Result:
        """The result. Notes, which the command line prints, become warnings. Raises BudgetReached, or
        RowError if rows have no answer and would be missing.
        """
        plan = session().prepare(frame, use=self.use)
        early = [str(warning) for warning in plan.warnings]
        _warn(early)
        try:
            result = session().run(plan, inputs=frame.tables)
        except RowError as error:
            result = error.result
        _warn(note for note in result.notes if note not in early)
        if result.failed:
            first, count = result.failed[0], len(result.failed)
            rows = f"{plural(count, 'row')} of {len(self.source):,}"
            what = f"{rows} without an answer: {first.error}"
            hint = 'keep such rows with on_error="null"; paid answers are in the journal'
            raise RowError("set aside", str(Problem(what, hint=hint)))
        return result


def _warn(notes: Iterable[str]) -> None:
    for note in notes:
        warnings.warn(_columns_of_users(note).removeprefix(f"step {_STEP}: "), stacklevel=6)


def _refuse_arguments(arguments: Mapping[str, Any], use: object) -> None:
    """Refuse pandas values in arguments that take words. Raises PlanError."""
    if not isinstance(use, str | None):
        hint = 'it is that of this operator: use="packed(rows=10)"'
        raise PlanError(f"use is {type(use).__name__}, not an implementation", hint=hint)
    for name, value in arguments.items():
        if isinstance(value, pd.Series):
            sql = f'write SQL over columns, {name}="stars < 3"'
            hint = f"{sql}, or choose rows before: df[mask].sem"
            raise PlanError(f"{name} is a Series of pandas", hint=hint)


def _problems(error: PlanError, rows: _Rows, arguments: Mapping[str, Any]) -> list[Problem]:
    """The problems of a question; for a column that no plan can have, the reason."""
    texts = repr([value for value in arguments.values() if not isinstance(value, Frame)])
    texts += "".join(problem.what for problem in error.problems)
    named = {
        name: problem
        for name, problem in rows.left_out.items()
        if re.search(rf"""["{{]{re.escape(name)}(?!\w)""", texts)
    }
    found = [
        replace(problem, there=_columns_of_users(problem.there or "") or None)
        for problem in error.problems
        if not any(f'no column "{name}"' in problem.what for name in named)
    ]
    return [*found, *named.values()]


def _columns_of_users(text: str) -> str:
    """A message without the column of row positions."""
    return text.replace(f", {_ROW}", "").replace(f": {_ROW}", ": none")


def _taken(source: pd.DataFrame, places: pa.ChunkedArray[Any]) -> pd.DataFrame:
    """Rows by position; NULL gives an empty row, with the types that pandas has for it."""
    if not places.null_count:
        return source.iloc[places.to_numpy()].copy()
    numbers = places.fill_null(pa.scalar(-1, pa.int64())).to_numpy()
    return source.reset_index(drop=True).reindex(numbers)


_NULLABLE = {pa.int64(): "Int64", pa.bool_(): "boolean"}


def _series(answers: pa.Table, index: pd.Index) -> list[pd.Series]:
    """Answers as columns, in the nullable types of pandas where NULL would change the type."""
    made = []
    for name, values in zip(answers.column_names, answers.columns, strict=True):
        if pa.types.is_nested(values.type):
            made.append(pd.Series(values.to_pylist(), index, dtype=object, name=name))
        elif values.null_count and values.type in _NULLABLE:
            made.append(pd.Series(values.to_pylist(), index, _NULLABLE[values.type], name))
        else:
            made.append(values.to_pandas().set_axis(index).rename(name))
    return made


def _made(parts: Sequence[Any], source: pd.DataFrame, result: Result) -> pd.DataFrame:
    """Columns joined side by side, with the cost of the run in `attrs`."""
    first, *others = parts
    made = first.copy()
    for part in others:
        columns = [(part.name, part)] if isinstance(part, pd.Series) else list(part.items())
        for name, values in columns:
            made[name] = values.array
    total = result.meter.total()
    made.attrs = {
        **source.attrs,
        "semgraph": {
            "run": result.run,
            "calls": total.calls_issued,
            "cached": total.calls_journal + total.calls_coalesced,
            "tokens_in": total.tokens_in,
            "tokens_out": total.tokens_out,
            "dollars": total.dollars,
            "failed": total.rows_failed,
        },
    }
    return made


_standard_error = pd.DataFrame.sem
_standard_error_of_column = pd.Series.sem
_standard_error_of_groups = pd.api.typing.DataFrameGroupBy.sem
pd.api.typing.DataFrameGroupBy.sem = _OfGroups()
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # about the method that `Semantics.__call__` keeps
    pd.api.extensions.register_dataframe_accessor("sem")(Semantics)
    pd.api.extensions.register_series_accessor("sem")(_of_series)


@atexit.register
def _at_exit() -> None:
    """Remove `sem`: pandas outlives the interpreter's modules and would keep DuckDB's objects, and
    DuckDB's library then reports a leak on stderr.
    """
    pd.DataFrame.sem = _standard_error
    pd.Series.sem = _standard_error_of_column
    pd.api.typing.DataFrameGroupBy.sem = _standard_error_of_groups
