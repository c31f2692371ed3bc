"""The text analysis that lexical retrieval, relevance feedback and TF-IDF share."""

from ragtune.data.text.analysis import (
    STOPWORDS,
    Stems,
    analyzer_id,
    marked_terms,
    plain_id,
    plain_terms,
    terms,
    words_and_terms,
)

__all__ = ["STOPWORDS", "Stems", "analyzer_id", "marked_terms", "plain_id", "plain_terms", "terms", "words_and_terms"]
