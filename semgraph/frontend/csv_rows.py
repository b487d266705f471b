"""Rows of a CSV file, and what is wrong with one."""

from __future__ import annotations

import csv as texts
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from semgraph.errors import InputError, Problem


def read_csv(path: Path, delimiter: str = ",") -> pa.Table:
    """All columns as text: what a number or a time is, the plan says. An empty cell is NULL, `""` an empty text.

    Raises InputError.
    """
    from pyarrow import csv

    with path.open(encoding="utf-8-sig", newline="") as file:
        names = next(texts.reader(file, delimiter=delimiter), [])
    _refuse_other_separator(path, names, delimiter)
    _refuse_open_quote(path, delimiter)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    try:
        return csv.read_csv(path, csv.ReadOptions(use_threads=False), parse, convert)  # threads lose the row's number
    except pa.ArrowInvalid as error:
        hint = "each row needs as many cells as the first line; a cell with a comma stands in double quotes"
        raise InputError(Problem(f"{path}: {plainly(error)}", hint=hint)) from None


def _refuse_other_separator(path: Path, names: Sequence[str], delimiter: str) -> None:
    """A file whose one column has a name that is several names."""
    known = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
    for other in known if len(names) == 1 else ():
        if len(parts := names[0].split(other)) > 1 and all(re.fullmatch(r"\s*[A-Za-z_]\w*\s*", part) for part in parts):
            hint = "save it with commas as .csv, or with tabs as .tsv"
            what = f"its cells stand between {known[other]}, and those of a {path.suffix} between {known[delimiter]}"
            raise InputError(Problem(f"{path}: {what}", hint=hint))


def _refuse_open_quote(path: Path, delimiter: str) -> None:
    """A file of which a cell goes on to the end because nothing closes its quote: its other rows would be lost."""
    if path.read_bytes().count(b'"') % 2 == 0:
        return
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader, begin = texts.reader(file, delimiter=delimiter, strict=True), 1
        try:
            for _ in reader:
                begin = reader.line_num + 1
        except texts.Error as error:
            if "unexpected end" in str(error):
                hint = "close it; a quote inside a quoted cell is written twice"
                what = "a double quote is opened in this row and never closed"
                raise InputError(Problem(f"{path}:{begin}: {what}", hint=hint)) from None


def plainly(error: Exception) -> str:
    """What Arrow says, in a line."""
    text = str(error).splitlines()[0]
    return text.removeprefix("CSV parse error: ") or type(error).__name__
