"""The closed form beside the authors' figures, and beside the operations that a model really does."""

import pytest

from ragtune.core.errors import ConfigError
from ragtune.rerankers.models.architecture import Architecture

QWEN_7B = {"kind": "decoder", "layers": 28, "hidden": 3584, "feed_forward": 18944, "heads_per_key": 7}


def test_a_decoder_takes_what_the_authors_calculator_says() -> None:
    # github.com/zhiyuanpeng/EER-FLOPs, README: flops_decoder(200, 1, 28, 3584, 18944, 7).
    size = Architecture(**QWEN_7B, output_tokens=1, max_length=None)
    weights = 2 * 3584 * 28 * (8 / 7 * 3584 + 18944)
    read = 2 * weights * 200 + 4 * 28 * 200**2 / 7 * 3584
    assert size.flops(200) == round(read + 2 * weights + 2 * 28 / 7 * 3584 * 400)


@pytest.mark.parametrize("length", [20, 150])
def test_an_encoder_takes_what_a_forward_pass_counts(tiny_cross_encoder: str, length: int) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoModel

    # Eager attention: the counter does not see into the CPU's fused one.
    model = AutoModel.from_pretrained(tiny_cross_encoder, attn_implementation="eager", add_pooling_layer=False).eval()
    ids = torch.ones((1, length), dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    size = Architecture.of_model(model.config, None)
    assert size.flops(length - size.extra_tokens) == counter.get_total_flops()


def test_an_encoder_with_a_decoder_takes_what_a_forward_pass_counts() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": 64, "d_ff": 256, "num_layers": 3, "num_heads": 4, "d_kv": 16, "vocab_size": 100}
    config = T5Config(**sizes, decoder_start_token_id=0, attn_implementation="eager")
    model = T5ForConditionalGeneration(config).eval()
    first = torch.zeros((1, 1), dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.ones((1, 90), dtype=torch.long), decoder_input_ids=first, use_cache=False)
    size = Architecture(kind="encoder_decoder", layers=3, hidden=64, feed_forward=256, output_tokens=1)
    output_layer, own_attention = 2 * 64 * 100, 4 * 3 * 64
    # The closed form takes the word that is written to attend to those before it, of which there are none.
    assert size.flops(90) == counter.get_total_flops() - output_layer - own_attention


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("t5-bass", "architecture='t5-bass': allowed are minilm-l6.*did you mean t5-base"),
        ({"layers": 6, "hidden": 0, "feed_forward": 4}, "architecture.hidden=0: Input should be greater"),
        ({"layers": 6}, "architecture.hidden=.*Field required"),
        ({**QWEN_7B, "heads": 2}, "architecture.heads=2: Extra inputs"),
        (7, "architecture=7: allowed is minilm-l6.*, or kind, layers"),
    ],
)
def test_what_names_no_size_is_refused(given: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Architecture.parse(given)
