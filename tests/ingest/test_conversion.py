"""Conversion in a process that ends within its limits, whatever the file is."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog

from app.ingest import worker
from app.ingest.conversion import ATTEMPTS, SLOW_ATTEMPTS, ConversionFailed, _judge, convert
from app.ingest.convert import FAILED, Refused, check_archive
from app.ingest.service import IngestService
from app.settings import IngestSettings
from app.store.control.queue import Item
from app.store.control.tenants import Tenants
from app.store.database import Database
from tests.identity import fresh_name
from tests.ingest.conftest import Agent, service_at

SETTINGS = IngestSettings(convert_seconds=60)


def archive(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries.items():
            made.writestr(name, content)
    return path


def png() -> bytes:
    from PIL import Image, PngImagePlugin

    said = PngImagePlugin.PngInfo()
    said.add_text("Title", "The engine in 1843")
    out = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(out, "PNG", pnginfo=said)
    return out.getvalue()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"../../evil.md": b"x"}, "outside"),
        ({"/etc/evil.md": b"x"}, "outside"),
        ({"a\\..\\b.md": b"x"}, "outside"),
        ({"C:/evil.md": b"x"}, "outside"),
        ({"bomb.txt": b"0" * 40 * 2**20}, "tighter"),
        ({"inner.txt": b"PK\x03\x04 nested"}, "another archive"),
        ({f"{number}.txt": b"" for number in range(5001)}, "entries"),
    ],
    ids=["parent", "absolute", "backslash", "drive", "bomb", "nested", "many"],
)
def test_bombs_and_path_tricks_are_refused_before_anything_is_unpacked(
    tmp_path: Path, entries: dict[str, bytes], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        check_archive(archive(tmp_path / "a.zip", entries), ".zip")


def test_what_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    """Otherwise an archive called .csv would be unpacked without a look at its table."""
    packed = archive(tmp_path / "a.csv", {"a.md": b"x"})
    plain = tmp_path / "b.docx"
    plain.write_bytes(b"no archive")
    for path, ending in ((packed, ".csv"), (plain, ".docx")):
        with pytest.raises(Refused, match="not what its name says"):
            check_archive(path, ending)
    broken = tmp_path / "c.docx"
    broken.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(Refused, match="damaged"):
        check_archive(broken, ".docx")


async def test_an_image_says_what_it_says_of_itself(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    text = (await convert(tmp_path / "a.png", "engine.png", tmp_path, SETTINGS)).read_text()
    assert "engine.png" in text
    assert "40 x 30" in text
    assert "The engine in 1843" in text


def docx() -> dict[str, bytes]:
    space = "http://schemas.openxmlformats.org"
    return {
        "[Content_Types].xml": (
            f'<Types xmlns="{space}/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.'
            'openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="'
            'application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
        ).encode(),
        "_rels/.rels": (
            f'<Relationships xmlns="{space}/package/2006/relationships"><Relationship Id="r1" Type="{space}/'
            'officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>'
        ).encode(),
        "word/document.xml": (
            f'<w:document xmlns:w="{space}/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>Ada in a docx'
            "</w:t></w:r></w:p></w:body></w:document>"
        ).encode(),
    }


def epub() -> dict[str, bytes]:
    return {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": b'<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        b'<rootfile full-path="b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "b.opf": b'<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        b'<dc:title>T</dc:title></metadata><manifest><item id="c" href="c.xhtml" media-type="application/xhtml+xml"/>'
        b'</manifest><spine><itemref idref="c"/></spine></package>',
        "c.xhtml": b'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Ada in an epub</p></body></html>',
    }


def pdf(words: bytes) -> bytes:
    drawn = b"BT /F1 24 Tf 72 700 Td (" + words + b") Tj ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    return (
        out
        + b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % start
    )


async def test_office_documents_books_and_pdfs_become_text(tmp_path: Path) -> None:
    """The converter's own function for each kind, in one process: starting it costs a second."""
    import openpyxl
    import pptx

    archive(
        tmp_path / "a.zip",
        {
            "page.html": b"<html><body><h1>Engine</h1><script>alert(1)</script><p>weaves</p></body></html>",
            "table.csv": b"name,year\nAda,1843\n",
            "data.xml": b"<a>numbers</a>",
        },
    )
    archive(tmp_path / "a.docx", docx())
    archive(tmp_path / "a.epub", epub())
    (tmp_path / "a.pdf").write_bytes(pdf(b"Ada in a pdf"))
    sheet = openpyxl.Workbook()
    sheet.active.append(["Ada in a sheet", 1843])
    sheet.save(tmp_path / "a.xlsx")
    slides = pptx.Presentation()
    slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = "Ada on a slide"
    slides.save(tmp_path / "a.pptx")
    code = (
        "import sys; from pathlib import Path\n"
        "from app.ingest.convert import _alone, _bounded, _converted, check_archive\n"
        "_bounded(2048, 120); sys.addaudithook(_alone)\n"
        "for path in sorted(Path(sys.argv[1]).glob('a.*')):\n"
        "    check_archive(path, path.suffix)\n"
        "    print(path.suffix, ' '.join(_converted(path, path.suffix, path.name).split()))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    lines = dict(line.split(" ", 1) for line in said.decode().splitlines())
    for ending, words in {
        ".docx": "Ada in a docx",
        ".epub": "Ada in an epub",
        ".pdf": "Ada in a pdf",
        ".pptx": "Ada on a slide",
        ".xlsx": "Ada in a sheet",
    }.items():
        assert words in lines[ending], ending
    for words in ("# Engine", "weaves", "Ada | 1843", "numbers"):
        assert words in lines[".zip"]
    assert "alert" not in lines[".zip"]


async def test_a_conversion_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>x</p>")
    began = time.monotonic()
    with pytest.raises(ConversionFailed, match="longer than") as failed:
        await convert(tmp_path / "a.html", "a.html", tmp_path, SETTINGS.model_copy(update={"convert_seconds": 0.2}))
    assert failed.value.attempts == SLOW_ATTEMPTS
    assert time.monotonic() - began < 5
    assert [each for each in psutil.Process().children() if "app.ingest.convert" in each.cmdline()] == []


async def test_what_takes_all_the_time_that_there_is_is_tried_once_more_only(
    service: IngestService, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's endless file held the one converter three times as long as any file may."""
    await agent.send("a.html", b"<p>x</p>")
    held = await _mine(service, agent.tenant)
    hurried = service.settings.model_copy(update={"convert_seconds": 0.05})
    monkeypatch.setattr(service.worker, "_settings", hurried)
    states = [(await service.worker._outcome(replace(held, attempts=each)))["state"] for each in (1, 2)]
    assert states == ["received", "failed"]


def test_a_converter_that_the_system_ended_for_its_time_was_slow_one_that_broke_may_do_better() -> None:
    for code, attempts in ((-signal.SIGXCPU, SLOW_ATTEMPTS), (-signal.SIGSEGV, ATTEMPTS), (FAILED, 1)):
        with pytest.raises(ConversionFailed) as failed:
            _judge(code, b"")
        assert failed.value.attempts == attempts


async def test_the_converter_has_no_network_no_programs_and_no_secrets(tmp_path: Path) -> None:
    code = (
        "import os, socket, subprocess, sys; from app.ingest.convert import _alone, _bounded, _first_to_go\n"
        "_first_to_go(); held = open('/proc/self/oom_score_adj').read() == '1000\\n'\n"
        "_bounded(1024, 10); sys.addaudithook(_alone)\n"
        "for attempt in (lambda: socket.create_connection(('127.0.0.1', 9)), lambda: subprocess.run(['true']),\n"
        "                lambda: socket.getaddrinfo('example.com', 80), lambda: os.system('true')):\n"
        "    try: attempt()\n"
        "    except PermissionError: held += 1\n"
        "try: bytes(2 << 30)\n"
        "except MemoryError: held += 1\n"
        "print(held)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert said.strip() == b"6"


async def test_memory_is_given_up_before_a_strangers_bytes_are_parsed(tmp_path: Path) -> None:
    """An archive that names 900 MB as its table: whoever opens it reads that whole."""
    size = 900 * 2**20
    with (tmp_path / "a.zip").open("wb") as file:
        file.write(b"PK\x03\x04")
        file.seek(4 + size)
        file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 4, 0))
    with pytest.raises(ConversionFailed, match="more memory"):
        await convert(tmp_path / "a.zip", "a.zip", tmp_path, SETTINGS.model_copy(update={"convert_megabytes": 512}))


async def test_subtitles_are_read_within_the_converters_limits_too(tmp_path: Path) -> None:
    (tmp_path / "talk.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i> Ada\n")
    assert (await convert(tmp_path / "talk.srt", "talk.srt", tmp_path, SETTINGS)).read_text() == "Hello Ada\n"
    with (tmp_path / "many.vtt").open("w") as file:
        file.writelines(f"w{number}\n\n" for number in range(2_000_000))
    hurried = SETTINGS.model_copy(update={"convert_seconds": 2.0})
    with pytest.raises(ConversionFailed, match="took longer than 2 s"):
        await convert(tmp_path / "many.vtt", "many.vtt", tmp_path, hurried)


@pytest.mark.shows("graph_ingest", 7, 10)
async def test_what_arrives_is_converted_beside_the_calls_and_then_waits_for_a_run(
    service: IngestService, agent: Agent
) -> None:
    """Fault 18: what cannot be converted says why and keeps its file."""
    subtitles = await agent.send("talk.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello Ada\n")
    broken = await agent.send("broken.docx", b"PK\x03\x04 nothing")
    assert subtitles["state"] == broken["state"] == "received"
    assert (await agent.ask("claim"))["items"] == []
    ready = asyncio.Event()
    ready.set()
    working = asyncio.create_task(service.worker.run(ready))
    try:
        async with asyncio.timeout(60):
            while any(item["state"] != "pending" for item in (await agent.ask("status"))["pending"]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        working.cancel()
    assert (await agent.ask("read", id=subtitles["id"]))["text"] == "Hello Ada\n"
    status = await agent.ask("status")
    assert [(item["file"], item["state"]) for item in status["pending"]] == [("talk.vtt", "pending")]
    assert (status["failed"][0]["file"], status["failed"][0]["reason"]) == ("broken.docx", "the archive is damaged")
    assert service.files.original(agent.tenant, broken["id"]).read_bytes() == b"PK\x03\x04 nothing"


async def test_a_document_that_ends_every_converter_is_put_aside(
    database: Database, tmp_path: Path, tenant: str
) -> None:
    """A poisoned file must not come back for ever: leases that ran out count as attempts."""
    service = service_at(database, tmp_path)
    agent = Agent(service, tenant)
    await agent.send("a.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nx\n")
    held = await _mine(service, tenant)
    assert await service.store.finish(held, {"attempts": 3, "due": 0.0})
    while not (failed := (await agent.ask("status"))["failed"]):
        assert await service.worker.step()
    assert "begun 3 times" in failed[0]["reason"]


async def test_the_text_of_a_document_counts_for_the_quota_of_files(database: Database, tmp_path: Path) -> None:
    """Of two converted at once too, each of which alone would have room."""
    tenant = (await Tenants(database.control).create(fresh_name("tenant"))).data
    agent = Agent(service_at(database, tmp_path, quota_file_bytes=5000), tenant)
    said = "".join(f"00:{n:02d}.000 --> 00:{n:02d}.500\n{chr(65 + n) * 60}\n\n" for n in range(20))
    for name in ("a.vtt", "b.vtt"):
        await agent.send(name, f"WEBVTT\n\n{said}".encode())
    spent = (await agent.service.store.usage(tenant)).size
    held = [await _mine(agent.service, tenant) for _ in range(2)]
    ended = await asyncio.gather(*(agent.service.worker._finish(item) for item in held))
    assert sorted(ended) == ["failed", "pending"]
    assert (await agent.service.store.usage(tenant)).size == spent + 20 * 61
    status = await agent.ask("status")
    assert len(status["pending"]) == 1
    assert "GRAPHKEEP_QUOTA_FILE_BYTES" in status["failed"][0]["reason"]
    assert sorted(path.rpartition("/")[2] for path in agent.files()) == ["original", "original", "text"]


async def test_a_converter_turns_to_another_tenant_after_each_item(
    database: Database, tmp_path: Path, tenant: str
) -> None:
    """However many one has sent: tests/store/control/test_queue.py has the choice itself."""
    service = service_at(database, tmp_path)
    many, other = Agent(service, tenant), Agent(service, f"{tenant}x")
    for number in range(4):
        await many.send(f"{number}.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nx\n")
    service.worker._served = f"{tenant}w"  # whoever else left something here was served before
    await other.send("late.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nx\n")
    assert await service.worker.step()
    assert [item["state"] for item in (await other.ask("status"))["pending"]] == ["pending"]
    assert service.worker._served == other.tenant


async def test_what_the_machine_cannot_do_now_is_tried_again_later(service: IngestService, agent: Agent) -> None:
    """A full disk ended the conversion of everything until the next start."""
    await agent.send("a.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nx\n")
    held = await _mine(service, agent.tenant)
    parts = service.files.parts(agent.tenant)
    parts.rmdir()
    parts.write_bytes(b"no folder can be made here")
    outcome = await service.worker._outcome(held)
    assert (outcome["state"], outcome["due"] > time.time() + 5) == ("received", True)
    assert outcome["reason"] == "the gateway's own machine could not do its part (EEXIST)"
    assert (await service.worker._outcome(replace(held, attempts=3)))["state"] == "failed"
    parts.unlink()
    assert (await service.worker._outcome(held))["state"] == "pending"


async def test_an_error_that_nobody_thought_of_does_not_end_the_worker_and_names_the_tenant(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, tenant = service_at(database, tmp_path), await Tenants(database.control).create(fresh_name("tenant"))
    await Agent(service, tenant.data).send("a.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nx\n")
    monkeypatch.setattr(worker, "AWAY_SECONDS", 0.0)
    again = asyncio.Event()

    class Stumbling(worker.Worker):
        stumbled = False

        async def step(self) -> bool:
            if self.stumbled:
                worker.log.warning("between two items")
                again.set()
                await asyncio.Event().wait()
            return await super().step()

        async def _outcome(self, item: Item) -> Mapping[str, Any]:
            if item.tenant != tenant.data:  # what other tests left in the shared queue
                return {"state": "failed", "reason": "left"}
            self.stumbled = True
            raise ValueError("what Ada said")

    ready = asyncio.Event()
    ready.set()
    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as logged:
        running = asyncio.create_task(Stumbling(service.files, service.store, service.settings).run(ready))
        try:
            async with asyncio.timeout(5):
                await again.wait()
        finally:
            running.cancel()
    (line,) = [found for found in logged if found["event"] == "worker_failed"]
    assert (line["error"], line["tenant"]) == ("ValueError", tenant.id)
    assert [found.get("tenant") for found in logged if found["event"] == "between two items"] == [None]
    assert "what Ada said" not in repr(logged)


async def _mine(service: IngestService, tenant: str) -> Item:
    """The lease on this test's item; what other tests left in the shared queue is held too."""
    while (item := await service.store.claim_conversion(now=time.time(), until=time.time() + 3600)) is not None:
        if item.tenant == tenant:
            return item
    raise AssertionError("there is no such item")


async def test_what_is_cancelled_while_it_is_converted_leaves_nothing(service: IngestService, agent: Agent) -> None:
    sent = await agent.send("a.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nx\n")
    held = await _mine(service, agent.tenant)
    await agent.ask("cancel", id=sent["id"])
    assert not await service.store.finish(held, {"state": "pending"})
    await service.worker._forget(held)
    assert agent.files() == []


async def test_what_was_never_queued_is_swept_and_what_was_is_not(service: IngestService, agent: Agent) -> None:
    queued = await agent.queue("a.md", "x")
    staged = service.files.stage(agent.tenant)
    await staged.finish()
    service.files.keep(staged.path, agent.tenant, "in-lost")
    old = time.time() - 30 * 24 * 3600
    for path in (service.files.original(agent.tenant, "in-lost").parent, staged.path):
        os.utime(path, (old, old))
    os.utime(service.files.original(agent.tenant, queued["id"]).parent, (old, old))
    await service.worker.sweep()
    assert agent.files() == [f"items/{queued['id']}/original"]
