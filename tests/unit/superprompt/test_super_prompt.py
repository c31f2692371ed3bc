from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from ragtune.superprompt import SuperPrompt, Turn

Reach = Callable[..., SuperPrompt]


def broken(sp: SuperPrompt, **changes: Any) -> str:
    data = sp.model_dump(by_alias=True) | changes
    with pytest.raises(ValidationError) as caught:
        SuperPrompt.model_validate(data)
    return str(caught.value)


def test_the_json_form_has_the_names_of_the_spec() -> None:
    names = {"recentConversation", "System_MD", "Prompt_MD", "S_CTX_MD", "Attachments_MD", "prompt_ready"}
    names |= {"body", "extras", "stage", "history_of_stages", "base_context_chunks", "views_by_stage"}
    assert names | {"final_selection_ids", "user_text"} == set(SuperPrompt().model_dump(by_alias=True))


@pytest.mark.parametrize("view", ["retrieval", "a4"])
def test_a_view_with_an_unknown_or_repeated_id_is_refused(reach: Reach, view: str) -> None:
    sp = reach("a4")
    ids = sp.views_by_stage[view]
    broken(sp, views_by_stage={**sp.views_by_stage, view: [*ids[:-1], "nobody#0"]})
    broken(sp, views_by_stage={**sp.views_by_stage, view: [*ids, ids[0]]})


def test_a_view_of_a_stage_that_has_not_run_is_refused(reach: Reach) -> None:
    sp = reach("retrieval")
    assert "views_by_stage has" in broken(sp, views_by_stage={**sp.views_by_stage, "reranked": []})
    assert "views_by_stage has" in broken(reach("reranked"), views_by_stage=sp.views_by_stage)
    chunk = sp.base_context_chunks[0]
    assert "twice: ids are unique" in broken(sp, base_context_chunks=[*sp.base_context_chunks, chunk])
    with pytest.raises(ValidationError):
        chunk.content = "other"


def test_the_final_selection_is_the_latest_of_a3_and_a4(reach: Reach) -> None:
    assert "final_selection_ids" in broken(reach("a4"), final_selection_ids=[])
    assert "final_selection_ids" in broken(reach("reranked"), final_selection_ids=["bread.md#0"])


def test_a_history_out_of_order_is_refused() -> None:
    for history, stage in ((["a2"], "a2"), (["preprocessed", "a2", "a2"], "a2"), ([], "preprocessed")):
        assert "history_of_stages" in broken(SuperPrompt(), history_of_stages=history, stage=stage)


def test_half_a_surrogate_pair_is_replaced_where_it_enters() -> None:
    sp = SuperPrompt.raw("a\ud800b", [Turn(role="user", content="\udfff")])
    assert sp.user_text == "a?b"
    assert sp.recent_conversation[0].content == "?"
    assert sp.with_user_text("c\ud800").user_text == "c?"
