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

_SUITES = (
    "acquisitions",
    "assemblers",
    "budgets",
    "embedders",
    "estimators",
    "expanders",
    "files",
    "fusion",
    "reformulators",
    "rerankers",
    "retrievers",
    "schedulers",
    "signals",
)
# Before they are imported, so that a failed assertion shows the values on both sides as in a test file.
pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in _SUITES))

from ragtune.testing.acquisitions import AcquisitionContract, KnownBelief  # noqa: E402
from ragtune.testing.assemblers import AssemblerContract  # noqa: E402
from ragtune.testing.collection import TEXTS, make_context, small_corpus, small_pool_items  # noqa: E402
from ragtune.testing.embedders import EmbedderContract  # noqa: E402
from ragtune.testing.estimators import EstimatorContract  # noqa: E402
from ragtune.testing.expanders import ExpanderContract  # noqa: E402
from ragtune.testing.fusion import FusionContract, UnorderedFusionContract  # noqa: E402
from ragtune.testing.reformulators import ReformulatorContract  # noqa: E402
from ragtune.testing.rerankers import ComparingRerankerContract, RerankerContract  # noqa: E402
from ragtune.testing.retrievers import RetrieverContract  # noqa: E402
from ragtune.testing.schedulers import SchedulerContract  # noqa: E402
from ragtune.testing.signals import SignalContract  # noqa: E402
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
