"""Where plans are found: by path or by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from semgraph.errors import Fault, PlanError, Problem, did_you_mean
from semgraph.frontend.document import notice
from semgraph.shipped import plans_folder

_HINT = "a plan names files in its own folder and shipped plans only: copy the file there"


def inside(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path, with symbolic links followed, is in one of the folders or in that of the
    shipped plans.
    """
    try:
        real = path.resolve()
        return any(real.is_relative_to(folder.resolve()) for folder in (*folders, plans_folder()))
    except (OSError, ValueError, RuntimeError):  # a ring of links, or no path at all
        return False


def require_inside(path: Path, folders: Iterable[Path], what: str, *key: str) -> None:
    """Refuse a file that a plan must not name, before anything of it is read. Raises Fault."""
    if not inside(path, folders):
        raise Fault(f"{what} is outside the folder of the plan", *key, hint=_HINT)


def find_plan(ref: str | Path, folders: Sequence[Path] = ()) -> tuple[Path, bool]:
    """The file of a plan, and whether it is one of those that come with semgraph.

    Args:
        ref: A path or a name: looked for in the working directory, in its `plans/`, then among the
            shipped plans.
        folders: Looked in first.

    Raises:
        PlanError: There is none.
    """
    text = str(ref).replace("\0", "�")  # no path has a NUL in it
    name = text if text.endswith((".yaml", ".yml")) else f"{text}.yaml"
    shipped = plans_folder()
    places = [*(folder / name for folder in folders), Path(text), Path(name), Path("plans", name)]
    for place in places:
        notice(place)
        if place.is_file():
            return place, place.resolve().is_relative_to(shipped.resolve())
    inside = shipped / name.removeprefix("plans/")
    if inside.is_file():
        return inside, True
    if Path(text).exists():
        return Path(text), False
    raise PlanError(_nowhere(text, (*folders, Path())))


def find_named(name: str, folders: Sequence[Path], *, confined: bool) -> Path:
    """The file of a plan that another plan names.

    Args:
        name: As `find_plan` takes it.
        folders: Looked in first: the folder of the plan that names it among them.
        confined: Whether it must be in one of these, in the working directory's `plans/`, shipped,
            or, by its bare name, in the working directory.

    Raises:
        Fault: There is none, or it is outside.
    """
    places = (*folders, Path("plans"))
    what = f'the plan "{name}"'
    path = Path(name.replace("\0", "\ufffd"))
    by_name = path.parent == Path()
    if (
        confined
        and not by_name
        and not any(inside(place / path, places) for place in (*folders, Path()))
    ):
        require_inside(path, places, what)
    try:
        found = find_plan(name, folders)[0]
    except PlanError as error:
        problem = error.problems[0]
        raise Fault(problem.what, there=problem.there, hint=problem.hint) from None
    if confined:
        require_inside(found, (*places, Path()) if by_name else places, what)
    return found


def _nowhere(text: str, folders: Sequence[Path]) -> Problem:
    """What to say of a plan that is not there: of a path what files are beside it, of a name what
    plans there are.
    """
    known = sorted(
        {p.stem for folder in (Path("plans"), plans_folder()) for p in folder.glob("*.yaml")}
        - {"graph"}
    )
    near = did_you_mean(Path(text).stem, known)
    if "/" in text or text.endswith((".yaml", ".yml")):
        asked = Path(text)
        beside = [
            str(asked.parent / p.name)
            for folder in folders
            for p in (folder / asked.parent).glob("*.y*ml")
        ]
        hint = did_you_mean(text, sorted(beside)) or near or "see semgraph plans list"
        return Problem(f"{text}: there is no such file", hint=hint)
    return Problem(f'no plan "{text}"', there="plans: " + (", ".join(known) or "none"), hint=near)
