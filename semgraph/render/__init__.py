"""What people look at: tables, pictures, pages."""

from __future__ import annotations
