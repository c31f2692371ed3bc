"""Typed errors. Everything RAGtune raises on purpose derives from :class:`RagtuneError`."""

from __future__ import annotations


class RagtuneError(Exception):
    """Base of all errors raised by RAGtune."""


class InputError(RagtuneError, ValueError):
    """The caller gave something unusable; it ends a run, and the command line maps it to exit code 2."""


class ConfigError(InputError):
    """An option, a component's argument or a combination of them is not allowed."""


class DatasetError(InputError):
    """A collection's folder, file or line is missing or malformed."""


class ScoreTableError(InputError):
    """A score table is malformed, or lacks a (query, document) pair that a policy asked for."""


class ModelLoadError(InputError):
    """A model cannot be loaded; the message says how to get it without a network."""


class InconclusiveError(RagtuneError):
    """A batch failed, which says nothing of the reranker's health and does not count in later requests (rule F3)."""


class NotAskedError(InconclusiveError):
    """A batch was not put to the reranker: too many wait, or the request's time was up before its turn came."""


class RequestOverError(NotAskedError):
    """No further batch of the request is put to the reranker: nobody waits for the answer, or the server is closing."""


class MissingExtraError(InputError):
    """An optional dependency is not installed; the message says which extra brings it."""

    def __str__(self) -> str:
        feature, extra = self.args
        return f"{feature} needs the extra {extra!r}: pip install 'ragtune[{extra}]'"


class IllegalTransitionError(RagtuneError):
    """A pool item was asked to make a transition that the state machine forbids (rule P3)."""


class ControllerOnlyError(RagtuneError):
    """A component tried to move, score or pay for documents itself; only the controller does (rule P4)."""


class UnknownDocumentError(RagtuneError, KeyError):
    """Document ids that the pool does not hold."""

    def __str__(self) -> str:
        return f"the pool holds no document {', '.join(map(repr, self.args))}"


class InvalidScoreError(RagtuneError, ValueError):
    """A score that is no finite number, or outside the range that it must lie in; refused where it enters the pool."""


class RetrievalError(RagtuneError):
    """The original retrieval failed, so there is nothing to rank."""


class FailedRunError(RagtuneError):
    """So many batches of a run failed that its figures say nothing of the policy; they are kept all the same."""


class StoreError(RagtuneError):
    """The database of a canonical store failed or cannot be reached; nothing of the failed call was written."""


class StoreTimeoutError(StoreError):
    """The database cancelled a statement, as a rule because it took too long, and undid its transaction."""


class UnknownCollectionError(InputError):
    """A store was asked for a collection that it does not hold; the message names it and those that exist."""


class CollectionMismatchError(InputError):
    """An embedder's model or dims are not those that a collection was made with; the message names both."""


class LLMError(RagtuneError):
    """A language model's service failed, refused, or answered what cannot be used; nothing partial is returned."""


class CacheMissError(LLMError, InputError):
    """A replayed language model call that was never recorded; the message names the call."""


class StageError(InputError):
    """A stage of the prompt pipeline cannot run; the SuperPrompt is as it was, and the message says what to do."""
