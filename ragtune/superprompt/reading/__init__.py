"""Reads texts: headers and formats of a prompt, sentences, stopwords, pieces of the query."""
