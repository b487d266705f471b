"""Parameters as whole values: `k: $candidates`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semgraph.errors import Fault
from semgraph.frontend.document import Trail
from semgraph.frontend.faults import Faults
from semgraph.frontend.settings import unknown_parameter, whole_parameter


class Expansion:
    """Puts parameters in place of texts that are one as a whole, and keeps where each part of a plan stands in it."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params
        self._places: dict[int, Trail] = {}
        self._kept: list[Any] = []  # so that no two parts ever have one id

    def expand(self, value: Any, path: Trail) -> Any:
        """Plain data that stands at `path`, with parameters in place. Raises Faults, with paths below it."""
        faults: list[Fault] = []
        found = self._expanded(value, path, len(path), faults)
        if faults:
            raise Faults(faults)
        self._kept.append(found)
        return found

    def place(self, value: Any) -> Trail:
        """Where a mapping or list of expanded data stands."""
        return self._places.get(id(value), ())

    def _expanded(self, value: Any, path: Trail, base: int, faults: list[Fault]) -> Any:
        name = whole_parameter(value)
        if name:
            if name not in self.params:
                faults.append(unknown_parameter(name, self.params, *path[base:], value=True))
                return None
            value = self.params[name]
        if isinstance(value, Mapping):
            found: Any = {k: self._expanded(v, path if name else (*path, k), base, faults) for k, v in value.items()}
        elif isinstance(value, (list, tuple)):
            found = [self._expanded(v, path if name else (*path, i), base, faults) for i, v in enumerate(value)]
        else:
            return value
        self._places[id(found)] = path
        return found
