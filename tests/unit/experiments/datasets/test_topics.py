"""TREC topics as queries: what the catalogue's own parsers read, and what they do not."""

import io
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ir_datasets.formats import TrecQueries, TrecXmlQueries

from experiments.datasets.beir import BeirDataset, read_topics
from ragtune.core.errors import DatasetError

OLD = """
<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate in international criminal
activity, the activity, and, if possible, collaborating organizations.

<narr> Narrative:
A relevant document must as a minimum identify the organization & the
type of illegal activity (< 5 years).

</top>

<top>
<num> Number: 302
<title> Poliomyelitis: a topic

<desc> Description:
Is the disease of Poliomyelitis (polio) under control?
<narr> Narrative:
Relevant documents.
</top>
"""

COVID = """<?xml version="1.0" encoding="UTF-8"?>
<topics task="COVIDSearch Round 1">
  <topic number="1"><title>coronavirus origin</title>
    <description>what is the origin of COVID-19 &amp; why</description><narrative>seeking range</narrative>
  </topic>
  <topic number="2"><title>coronavirus response</title>
    <description>how does it respond</description><narrative>changes</narrative>
  </topic>
</topics>
"""


def peer(kind: Any, content: str) -> list[tuple[str, ...]]:
    """What a parser of ir_datasets makes of it, with single spaces."""

    @contextmanager
    def stream() -> Any:
        yield io.BytesIO(content.encode())

    topics = kind(SimpleNamespace(stream=stream)).queries_iter()
    return [tuple(" ".join(value.split()) for value in topic) for topic in topics]


@pytest.mark.parametrize(("kind", "content"), [(TrecQueries, OLD), (TrecXmlQueries, COVID)])
def test_topics_are_read_as_ir_datasets_reads_them(tmp_path: Path, kind: Any, content: str) -> None:
    (tmp_path / "topics").write_text(content)
    ours = [(number, *fields.values()) for _, number, fields in read_topics(tmp_path / "topics")]
    assert ours == peer(kind, content)
    assert [*next(read_topics(tmp_path / "topics"))[2]] == ["title", "description", "narrative"]


CLEF = """<topics><topic lang="en"><identifier>10.2452/451-AH</identifier><title>Roman &amp; Military</title>
<description>Find it.</description></topic></topics>"""
WEB = """<webtrack2009><topic number="1" type="faceted"><query>obama family tree</query>
<description>Find information.</description><subtopic number="1" type="nav">Find Time</subtopic>
<subtopic number="2" type="inf">Where</subtopic></topic></webtrack2009>"""
MARKED = """<top>
<num> 8
<desc> foo <b>bold</b> text H<sub>2</sub>O<p>a<br/>b</p>
<narr> no
</top>"""
CLOSED = "<top><num>7</num><title>one line</title><desc>more</desc></top>"


@pytest.mark.parametrize(
    ("content", "fields", "query"),
    [
        (OLD, "description", ("302", "Is the disease of Poliomyelitis (polio) under control?")),
        (CLEF, None, ("10.2452/451-AH", "Roman & Military")),
        (MARKED, "description", ("8", "foo bold text H2O a b")),
        (WEB, ["query", "subtopic"], ("1", "obama family tree Find Time")),
        (CLOSED, ["title", "description"], ("7", "one line more")),
        ("﻿" + CLOSED, None, ("7", "one line")),
        ("12\tan unclosed <title> & more\n", None, ("12", "an unclosed <title> & more")),
        ("qid,query,narrative\n5,short,long\n", ["query", "narrative"], ("5", "short long")),
    ],
)
def test_the_chosen_fields_are_the_query(
    collection: Path, tmp_path: Path, content: str, fields: Any, query: tuple[str, str]
) -> None:
    topics = tmp_path / "topics"
    topics.write_text(content)
    dataset = BeirDataset(str(collection), None, queries=str(topics), query_fields=fields).load()
    assert [*dataset.queries.items()][-1] == query


@pytest.mark.parametrize(
    ("content", "fields", "said"),
    [
        ("<", None, "topics: no topics: expected <top> with <num>"),
        ("<topics></topics>", None, "topics: no topics: expected <top> with <num>"),
        ("<top>\n<num> 1\n<title> a\n", None, "topics:1: this topic is not ended by </top> or </topic>"),
        ("<top>\n<num> 1\n<top>\n", None, "topics:1: this topic is not ended by </top> or </topic>"),
        ("<top>\n<title> a\n</top>\n", None, "topics:1: no id: expected"),
        (OLD, "question", "topics:2: topic 301 has no field 'question': it has title, description, narrative"),
        (CLOSED + CLOSED, None, "topics:1: duplicate query id '7'"),
        ("<top><num> a b<title>t</top>", None, "topics:1: id 'a b': an id holds no whitespace"),
        ("qid,query\n5,short\n", "title", "topics:1: no column for 'title': it has 'qid, query'"),
    ],
)
def test_what_is_no_topic_is_refused_with_its_line(
    collection: Path, tmp_path: Path, content: str, fields: str | None, said: str
) -> None:
    topics = tmp_path / "topics"
    topics.write_text(content)
    with pytest.raises(DatasetError) as refused:
        BeirDataset(str(collection), None, queries=str(topics), query_fields=fields).load()
    assert str(refused.value).removeprefix(f"{tmp_path}/").startswith(said)
