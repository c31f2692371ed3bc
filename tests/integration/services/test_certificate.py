"""What a certificate says of a shadow file, that it can be checked, and that a change is found out."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import wait_until
from prometheus_client import generate_latest

from ragtune.cli.main import main
from ragtune.core.statistics import mean_at_most
from ragtune.rerankers.function import FunctionReranker
from ragtune.services.payloads import RerankQuery
from ragtune.services.rerank import RerankServer
from ragtune.services.shadow import ShadowOptions, read_records

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def shadowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the shadow file of twenty requests, and the page of metrics at their end."""
    monkeypatch.setenv("RAGTUNE_CERTIFICATE_KEY", KEY)
    model = FunctionReranker(lambda query, texts: [len(text) % 7 / 7 for text in texts], usd_per_doc=0.001)
    file = tmp_path / "shadow.jsonl"
    with RerankServer(model, "counter", budget={"docs": 6}, batch_size=2, shadow=ShadowOptions(1.0, file)) as server:
        for number in range(20):
            server.rank(RerankQuery(query="tea", documents=["x" * (number + i * i) for i in range(1, 31)]))
            server.metrics.answered("/rerank", 200, 0.1)
        wait_until(lambda: len(file.read_bytes().splitlines()) == 20)
        for outcome, count in {"failed": 3, "late": 2}.items():
            server.metrics._hops.labels("counter", outcome).inc(count)
        server.metrics.timed(20.0, 10.0)
        (tmp_path / "metrics.txt").write_bytes(generate_latest(server.metrics.registry))
    return tmp_path


def certify(folder: Path, out: str) -> Path:
    words = [str(folder / "shadow.jsonl"), "--metrics", str(folder / "metrics.txt"), "--out", str(folder / out)]
    assert main(["certificate", *words]) == 0
    return folder / out / "certificate.json"


def test_a_certificate_reports_saving_and_a_bound_of_the_loss_and_is_the_same_again(shadowed: Path) -> None:
    file, again = certify(shadowed, "one"), certify(shadowed, "two")
    assert file.read_bytes() == again.read_bytes()
    body = json.loads(file.read_text())["certificate"]
    records, _ = read_records(shadowed / "shadow.jsonl")
    losses = [1.0 - one.quality for one in records]
    docs = body["saved_a_request"]["docs"]
    assert 10.0 < docs["low"] < docs["mean"] == 24.0 < docs["high"] <= 30.0
    assert body["saved_a_request"]["usd"]["mean"] == pytest.approx(0.024)
    assert body["loss"]["mean"] == pytest.approx(sum(losses) / 20)
    assert body["loss"]["at_most"] == pytest.approx(mean_at_most(losses), abs=1e-7)
    assert body["requests"] == {"compared": 20, "answered": 20, "not_compared": 0}
    assert (body["fallbacks"], body["deadline_misses"]) == (5, 1)
    page = file.with_suffix(".html").read_text()
    assert "24.0 of 30.0 documents" in page
    assert "http" not in page


NO_CERTIFICATE = "is no certificate of ragtune certificate"
UNFIT: dict[str, tuple[Callable[[str], str], str]] = {
    "changed": (
        lambda text: text.replace('"mean": 24.0', '"mean": 25.0'),
        "the signature does not match: the file was changed, or signed with another key",
    ),
    "no JSON": (lambda text: text.replace("{", "["), NO_CERTIFICATE),
    "deep": (lambda _: "[" * 100_000, NO_CERTIFICATE),
    "surrogate": (lambda _: '{"certificate": {"a": "\\ud800"}, "signature": {"value": "x"}}', NO_CERTIFICATE),
    "surrogate signature": (lambda _: '{"certificate": {}, "signature": {"value": "\\ud800"}}', NO_CERTIFICATE),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_is_not_signed_like_this_is_refused_in_one_line(
    shadowed: Path, capfd: pytest.CaptureFixture[str], what: str
) -> None:
    alter, why = UNFIT[what]
    file = certify(shadowed, "one")
    file.write_text(alter(file.read_text()))
    capfd.readouterr()
    assert main(["certificate", "--verify", str(file)]) == 2
    assert capfd.readouterr().err == f"error: {file}: {why}\n"


SUMS = "has numbers that are too large to be added up"
COUNTS = "ragtune_rerank_shadow_total is no number up to 10,000,000"
LARGE = [("shadow.jsonl", '"docs":', "1" + "0" * 400, SUMS), ("shadow.jsonl", '"usd":', "1e308", SUMS)]
LARGE += [("shadow.jsonl", '"documents":', "9" * 400, SUMS)]
LARGE += [("metrics.txt", "ragtune_rerank_shadow_total{.*} ", number, COUNTS) for number in ("1e999", "1e12", "1.2.3")]


@pytest.mark.parametrize(("name", "before", "number", "why"), LARGE)
def test_numbers_that_are_none_or_too_large_are_refused_in_one_line(
    shadowed: Path, capfd: pytest.CaptureFixture[str], name: str, before: str, number: str, why: str
) -> None:
    file = shadowed / name
    file.write_text(re.sub(rf"({before})[0-9.e+-]+", rf"\g<1>{number}", file.read_text()))
    words = [str(shadowed / "shadow.jsonl"), "--metrics", str(shadowed / "metrics.txt"), "--out", str(shadowed / "out")]
    assert main(["certificate", *words]) == 2
    assert capfd.readouterr().err == f"error: {file}: {why}\n"


def test_other_requests_do_not_give_the_same_certificate(shadowed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, shadow = certify(shadowed, "one"), shadowed / "shadow.jsonl"
    words = ["certificate", str(shadow), "--metrics", str(shadowed / "metrics.txt"), "--verify", str(file)]
    assert main(words) == 0
    shadow.write_text("".join(shadow.read_text().splitlines(keepends=True)[:-1]))
    assert main(words) == 2
    assert "other figures" in capfd.readouterr().err


@pytest.mark.parametrize(("key", "said"), [("short", "holds 5 bytes"), ("", "is not set")])
def test_a_short_key_is_refused(
    shadowed: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], key: str, said: str
) -> None:
    monkeypatch.setenv("RAGTUNE_CERTIFICATE_KEY", key)
    assert main(["certificate", str(shadowed / "shadow.jsonl")]) == 2
    assert f"$RAGTUNE_CERTIFICATE_KEY {said}; allowed is a key of at least 16" in capfd.readouterr().err
