"""What documents carry along."""

from __future__ import annotations

import pytest

from ragtune.core.errors import ConfigError, InputError
from ragtune.core.types import ScoredDocument
from ragtune.signals.metadata import MetadataSignal
from ragtune.testing import make_context


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "2020", True, [1], 10**400])
def test_what_is_no_finite_number_is_refused_by_field_and_document(value: object) -> None:
    document = ScoredDocument(id="d7", metadata={"year": value})
    with pytest.raises(InputError, match=r"'year' of document 'd7' is .*: allowed is a finite number"):
        MetadataSignal("year").values(make_context(), [document])


def test_whether_high_numbers_are_good_is_yes_or_no() -> None:
    with pytest.raises(ConfigError, match="higher_is_better='maybe': allowed are true and false"):
        MetadataSignal("year", higher_is_better="maybe")  # type: ignore[arg-type]
