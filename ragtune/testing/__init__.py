"""What every component promises, as test classes: derive one, say how to make your component, run pytest.

    import ragtune.testing

    class TestMyEstimator(ragtune.testing.EstimatorContract):
        def make(self):
            return MyEstimator(self.world.corpus)

RAGtune's own components are held to the same classes (``tests/contracts``). Needs pytest (extra ``testing``).
"""

from ragtune.core.errors import MissingExtraError

try:
    import pytest
except ImportError as error:
    raise MissingExtraError("ragtune.testing", "testing") from error

# Before they are imported, so that a failed assertion shows the values on both sides as in a test file.
pytest.register_assert_rewrite(
    *(f"{__name__}.{name}" for name in ("component", "policies", "retrieval", "scoring", "worlds"))
)

from ragtune.testing.component import TEXTS, make_context, small_corpus, small_pool_items  # noqa: E402
from ragtune.testing.policies import EstimatorContract, SchedulerContract  # noqa: E402
from ragtune.testing.retrieval import (  # noqa: E402
    EmbedderContract,
    ExpanderContract,
    FusionContract,
    ReformulatorContract,
    RetrieverContract,
    SignalContract,
    UnorderedFusionContract,
)
from ragtune.testing.scoring import (  # noqa: E402
    AcquisitionContract,
    AssemblerContract,
    ComparingRerankerContract,
    KnownBelief,
    RerankerContract,
)
from ragtune.testing.worlds import WORLDS, World, WorldReranker  # noqa: E402

__all__ = [
    "TEXTS",
    "WORLDS",
    "AcquisitionContract",
    "AssemblerContract",
    "ComparingRerankerContract",
    "EmbedderContract",
    "EstimatorContract",
    "ExpanderContract",
    "FusionContract",
    "KnownBelief",
    "ReformulatorContract",
    "RerankerContract",
    "RetrieverContract",
    "SchedulerContract",
    "SignalContract",
    "UnorderedFusionContract",
    "World",
    "WorldReranker",
    "make_context",
    "small_corpus",
    "small_pool_items",
]
