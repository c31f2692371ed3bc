"""What is reranked in full as well: never on a request's path, never with its text unless asked."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from patience import HANG_S, wait_until
from rerank_server import count_tea

from ragtune.canonical.permit import Permit
from ragtune.core.errors import InputError
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.payloads import RerankQuery
from ragtune.services.rerank import RerankServer
from ragtune.services.shadow import ShadowOptions, read_records

TEXTS = [f"{'tea ' * (i % 9)}cup {i}" for i in range(30)]


def make(options: ShadowOptions, function: Callable[..., list[float]] = count_tea, **more: object) -> RerankServer:
    reranker = FunctionReranker(function, usd_per_doc=0.001)
    return RerankServer(reranker, "counter", budget={"docs": 6}, batch_size=2, shadow=options, **more)  # type: ignore[arg-type]


def ask(server: RerankServer, **fields: object) -> list[int]:
    return [one.index for one in server.rank(RerankQuery(query="tea", documents=TEXTS, **fields))]


def outcomes(server: RerankServer) -> dict[str, float]:
    found = {}
    for family in server.metrics.registry.collect():
        for sample in family.samples:
            if sample.name == "ragtune_rerank_shadow_total":
                found[sample.labels["outcome"]] = sample.value
    return found


def figure(server: RerankServer, name: str, which: str) -> float | None:
    return server.metrics.registry.get_sample_value(f"ragtune_rerank_shadow_{name}", {"figure": which})


def test_an_answer_is_compared_with_the_ranking_of_everything(tmp_path: Path) -> None:
    file = tmp_path / "shadow.jsonl"
    with make(ShadowOptions(1.0, file), is_local=True) as server:
        order = ask(server)
        ask(server, budget={"docs": 10, "usd": 1.0})
        wait_until(lambda: outcomes(server)["measured"] == 2)
        assert figure(server, "saved_docs", "mean") == (24 + 20) / 2
        assert figure(server, "saved_usd", "mean") == pytest.approx(0.022)
        low, high = figure(server, "overlap", "low"), figure(server, "overlap", "high")
        assert 0 <= low <= high <= 1
        assert server.metrics.registry.get_sample_value("ragtune_rerank_shadow_usd_total") == pytest.approx(0.06)
        # What is asked of the model in the background is not what answers cost.
        assert server.metrics.registry.get_sample_value("ragtune_rerank_usd_total") == pytest.approx(0.016)
    (first, second), _ = read_records(file)
    best = sorted(range(30), key=lambda i: (-TEXTS[i].count("tea"), i))
    assert first.full_order == tuple(best[:10])
    assert first.served_order == tuple(order[:10])
    assert first.overlap == len({*best[:10]} & {*order[:10]}) / 10
    assert (first.documents, first.reranked, first.spent.docs, first.full.docs) == (30, 6, 6, 30)
    assert not any(text in file.read_text(encoding="utf-8") for text in TEXTS)
    assert (first.budget, second.budget) == ({"docs": 6}, {"docs": 10, "usd": 1.0})


def test_the_share_is_kept_and_what_has_no_budget_is_not_compared(tmp_path: Path) -> None:
    with make(ShadowOptions(0.25)) as server:
        for _ in range(200):
            ask(server)
            ask(server, budget={"docs": None})
            server.rank(RerankQuery(query="tea", documents=()))
        wait_until(lambda: sum(outcomes(server).values()) >= 30)
    assert 30 <= sum(outcomes(server).values()) <= 70


def test_an_answer_waits_for_no_comparison_and_too_many_are_dropped() -> None:
    goes_on = threading.Event()

    def slow(query: str, texts: Sequence[str]) -> list[float]:
        if threading.current_thread().name == "ragtune-shadow":
            assert goes_on.wait(HANG_S)
        return count_tea(query, texts)

    with make(ShadowOptions(1.0), slow) as server:
        for _ in range(50):
            ask(server)
        dropped = outcomes(server)["dropped"]
        assert dropped >= 50 - 33
        goes_on.set()
        wait_until(lambda: outcomes(server)["measured"] == 50 - dropped)


def test_an_answer_that_was_given_up_is_not_compared() -> None:
    """Its client was gone, or the server's time was over, or the server was being closed."""
    gone, late, asked = Permit(), Permit(), []
    late._since -= 61.0

    def hangs_up(query: str, texts: Sequence[str]) -> list[float]:
        asked.append(query)
        if query == "gone":
            gone.withdraw()
        if query == "closing":
            server.stop()
        return count_tea(query, texts)

    with make(ShadowOptions(1.0), hangs_up, time_s=60.0) as server:
        for permit, query in ((gone, "gone"), (late, "late")):
            with permit.used():
                server.rank(RerankQuery(query=query, documents=TEXTS))
        server.rank(RerankQuery(query="whole", documents=TEXTS))
        wait_until(lambda: outcomes(server)["measured"] + outcomes(server)["failed"])
        server.rank(RerankQuery(query="closing", documents=TEXTS))
        assert server._shadow._queue.empty()
    assert (asked.count("gone"), asked.count("late"), asked.count("closing")) == (1, 0, 1)
    assert outcomes(server) == {"measured": 1, "failed": 0, "dropped": 0}


def test_nothing_is_read_for_a_comparison_while_a_request_is_under_way() -> None:
    sizes: list[int] = []

    def counted(query: str, texts: Sequence[str]) -> list[float]:
        sizes.append(len(texts))
        return count_tea(query, texts)

    with make(ShadowOptions(1.0), counted, is_local=True) as server:
        with server._chain.expected():
            for _ in range(10):
                ask(server)
            assert sizes == [2] * 30
        wait_until(lambda: outcomes(server)["measured"] == 10)
    assert sum(sizes) == 10 * (6 + 30)


def test_a_comparison_that_fails_is_counted_and_the_next_one_is_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails_on_all(query: str, texts: Sequence[str]) -> list[float]:
        if len(texts) > 6 and query == "tea":
            raise ConnectionError("away")
        return count_tea(query, texts)

    file = tmp_path / "kept.jsonl"
    with make(ShadowOptions(1.0, file), fails_on_all) as server:
        ask(server)
        wait_until(lambda: outcomes(server)["failed"] == 1)
        file.unlink()
        file.mkdir()
        server.rank(RerankQuery(query="cups of tea", documents=TEXTS))
        wait_until(lambda: outcomes(server)["measured"] == 1)
    assert "was not written" in capfd.readouterr().err


def test_a_line_that_was_cut_short_is_left_out_and_a_file_without_records_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shadow.jsonl"
    with make(ShadowOptions(1.0, file)) as server:
        ask(server)
        wait_until(lambda: outcomes(server)["measured"] == 1)
    record = file.read_bytes()
    with_texts = record.replace(b"{", b'{"query": "tea", "texts": {"0": "a text"}, ', 1)  # as 1.0 could write it
    cut = '{"query": "gr\u00fc'.encode()[:-1]  # in a character
    file.write_bytes(record + with_texts + b'{"at": "now"}\n[1]\n' + cut)
    records, unread = read_records(file)
    assert (len(records), unread) == (2, 3)
    file.write_text("hello\n", encoding="utf-8")
    with pytest.raises(InputError, match="holds no record"):
        read_records(file)
