"""Faults of plain data: those of a key rather than of its value, and of names that are not known."""

from __future__ import annotations

from collections.abc import Iterable

from semgraph.errors import Fault, Faults, did_you_mean, each

__all__ = ["Faults", "KeyFault", "each", "replaced", "unknown"]


class KeyFault(Fault):
    """A key that does not belong where it stands: the key is pointed at, not what it says."""

    def under(self, *prefix: str | int) -> KeyFault:
        """The same fault, seen from further out."""
        return KeyFault(self.what, *prefix, *self.path, there=self.there, hint=self.hint)


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
