"""Faults of plain data: several at once, and those of a key rather than of its value."""

from __future__ import annotations

from collections.abc import Iterable

from semgraph.errors import Fault, did_you_mean


class KeyFault(Fault):
    """A key that does not belong where it stands: the key is pointed at, not what it says."""

    def under(self, *prefix: str | int) -> KeyFault:
        """The same fault, seen from further out."""
        return KeyFault(self.what, *prefix, *self.path, there=self.there, hint=self.hint)


class Faults(Fault):
    """Several faults."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(part for fault in faults for part in each(fault))
        super().__init__("; ".join(fault.what for fault in self.faults))

    def under(self, *prefix: str | int) -> Faults:
        """The same faults, seen from further out."""
        return Faults(fault.under(*prefix) for fault in self.faults)


def each(fault: Fault) -> tuple[Fault, ...]:
    """The single faults of a fault."""
    return fault.faults if isinstance(fault, Faults) else (fault,)


def replaced(fault: Fault, *path: str | int) -> Fault:
    """A single fault at another path."""
    kind = KeyFault if isinstance(fault, KeyFault) else Fault
    return kind(fault.what, *path, there=fault.there, hint=fault.hint)


def unknown(name: str, known: Iterable[str], what: str, kind: str, *path: str | int, value: bool = False) -> Fault:
    """The fault of a name that is not among the known ones: of a key, or of a `value`.

    >>> fault = unknown("setps", ["steps", "writes"], "a plan has no", "keys")
    >>> fault.what, fault.there, fault.hint
    ('a plan has no "setps"', 'keys: steps, writes', 'did you mean "steps"?')
    """
    listed = list(dict.fromkeys(known))
    there = f"{kind}: " + (", ".join(listed) or "none")
    return (Fault if value else KeyFault)(f'{what} "{name}"', *path, there=there, hint=did_you_mean(name, listed))
