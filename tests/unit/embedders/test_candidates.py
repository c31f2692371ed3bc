"""Term vectors of candidates."""

from __future__ import annotations

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from ragtune.core.pool.items import PoolItem
from ragtune.data.text import terms
from ragtune.embedders.candidates import CandidateVectors

TEXTS = (
    "Green teas are brewed, a tea at 80\u2013100 degrees",
    "",
    "the",
    "na\u00efve caf\u00e9 \u03b2-carotene",
    "\u7dd1\u8336\u306e\u5165\u308c\u65b9 tea",
)


def test_columns_and_weights_are_those_of_scikit_learn() -> None:
    hashing = HashingVectorizer(analyzer=terms, n_features=2**20, norm=None, alternate_sign=False)
    expected = hashing.transform(TEXTS)
    expected.data = 1.0 + np.log(expected.data)
    expected = normalize(expected)
    found = CandidateVectors().of([PoolItem(str(i), text) for i, text in enumerate(TEXTS)])
    for part in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found, part), getattr(expected, part))
