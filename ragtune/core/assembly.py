"""From ranked items to the context that the user gets, within the token budget whatever an assembler does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ragtune.core.errors import InputError
from ragtune.core.hits import Entries, sound
from ragtune.core.interfaces import BaseAssembler
from ragtune.core.plain import describe, words
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.ordering import RankingKeys, best_that_fit, documents_at
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument


def assemble(assembler: BaseAssembler, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
    """The assembler's documents as far as their tokens are paid for; if it fails, the items best first while they fit.

    What the assembler has not paid for itself is charged here, document by document; one that does not fit is left
    out. Documents that the pool does not hold, or that come twice, are left out too. All of that is traced.

    Raises:
        InputError: if the assembler raises one.
    """
    try:
        with context.tracker.read_only(), context.tracker.assembling():
            documents = list(assembler.assemble(items, context))
        return _paid(documents, items, context)
    except InputError:
        raise
    except Exception as error:
        context.trace.add("assembler", "assembly_failed", error=describe(error))
        context.tracker.restart_assembly()
        return best_that_fit(assembler.ordering, items, context)


def assembled(
    assembler: BaseAssembler, pool: CandidatePool, keys: RankingKeys, context: RAGtuneContext
) -> Sequence[ScoredDocument]:
    """The request's documents, given the pool as it ended and the keys of its last ranking; traced.

    Raises:
        InputError: if the assembler raises one.
    """
    documents: Sequence[ScoredDocument]
    if type(assembler).assemble is BaseAssembler.assemble:  # the same, without an object for each document
        documents = fitting = _what_fits(pool, keys, context)
        doc_ids = list(fitting.doc_ids)
    else:
        documents = assemble(assembler, list(pool.items_at(keys.positions)), context)
        doc_ids = [doc.id for doc in documents]
    context.trace.add("assembler", "assemble", documents=doc_ids)
    return documents


def _what_fits(pool: CandidatePool, keys: RankingKeys, context: RAGtuneContext) -> Entries[ScoredDocument]:
    """What :func:`best_that_fit` takes of all of them; no document is made."""
    order = np.argsort(-keys.score, kind="stable")
    positions, pay = keys.positions[order], context.tracker.try_consume_tokens
    tokens = pool.roster.token_counts[positions]
    if not pay(int(tokens.sum())):
        order = order[[pay(count) for count in tokens.tolist()]]
        positions = keys.positions[order]
    return documents_at(pool.roster, positions, keys.score[order], pool.scores[positions])


def _paid(documents: list[ScoredDocument], items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
    known = {item.doc_id: item for item in items}
    prepaid = context.tracker.assembled_tokens
    kept: list[ScoredDocument] = []
    for document in _sound_ones(documents, context):
        item = known.pop(document.id, None)
        if item is None:
            why = "not in the pool, or given twice"
            context.trace.add("assembler", "refuse_document", doc_id=document.id, why=why)
            continue
        tokens = _tokens(document, item)
        owed = max(0, tokens - prepaid)
        if owed and not context.tracker.try_consume_tokens(owed):
            context.trace.add("assembler", "refuse_document", doc_id=document.id, why="over the token budget")
            continue
        prepaid -= tokens - owed
        kept.append(document if document.token_count == tokens else document.model_copy(update={"token_count": tokens}))
    return kept


def _sound_ones(documents: list[ScoredDocument], context: RAGtuneContext) -> Iterator[ScoredDocument]:
    """The documents that can be handed out; of the others it is traced what is wrong with them."""
    for given in documents:
        try:
            yield sound(given)
        except ValueError as error:
            context.trace.add("assembler", "refuse_document", doc_id=words(given.id), why=str(error))


def _tokens(document: ScoredDocument, item: PoolItem) -> int:
    """Tokens of what is handed out: the item's own count for its own text, else those that the other text has."""
    if document.content in ("", item.content):
        return item.token_count
    return max(document.token_count, count_tokens(document.content))
