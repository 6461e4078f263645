"""Files of this room as typed models: every field has a type and a range, and an unknown one is refused."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from common.errors import UserError

__all__ = ["Count", "Format", "Hash", "Positive", "Text"]

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
"""A SHA-256 in hexadecimal."""
Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A whole number from 0."""
Positive = Annotated[int, Field(ge=1, lt=2**63)]
"""A whole number from 1."""
Text = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*\z")]
"""A line of printable text."""


class Format(BaseModel):
    """What a file may hold: fields of their types, nothing converted, nothing else."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def of(cls, content: object, where: object, remedy: str) -> Self:
        """Return the content of a file, checked.

        Raises:
            UserError: a field is missing, unknown, of another type or out of range; the sentence names `where` and the
                field, and ends with `remedy`.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first: Any = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part)[:40] for part in first["loc"]) or "the whole"
            raise UserError(f"{where}: {place!r}: {first['msg'].lower()}; {remedy}") from None
