"""Downloads from a site that cuts, exceeds and lies; a worker that is killed; a disk that is full."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from shoal import Scraper, open_queue
from shoal.core.errors import StorageFailed
from shoal.fleet.status.rows.row import as_json
from shoal.fleet.status.rows.runs import FilesRow
from shoal.worker.files.store import Spool
from tests.integration.files.conftest import content_of

RETRY = {"delay": "10ms"}


def make_shop(step, **settings):
    shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1", retry=RETRY, **settings)
    shop.step(step)
    return shop


def stored(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def item_of(*calls):
    def product(page):
        yield {"name": "lamp", "files": [call(page) for call in calls]}

    return product


@pytest.mark.parametrize("engine", ["wreq", "aiohttp"])
async def test_an_item_has_the_records_of_its_files(site, tmp_path, engine):
    shop = make_shop(item_of(lambda page: page.download("/img/1.png"), lambda page: page.download("/gone")))
    queue = f"sqlite:///{tmp_path}/q.db"
    result = await shop.run([f"{site.url}/gallery/0"], files=tmp_path / "files", engine=engine, queue=queue)
    body = content_of("/img/1.png")
    checksum = sha256(body).hexdigest()
    (item,) = result.items
    record, gone = item["files"]
    assert record == {
        "url": f"{site.url}/img/1.png",
        "path": f"{checksum}.png",
        "sha256": checksum,
        "size": len(body),
        "type": "image/png",
        "status": 200,
    }
    assert gone["path"] is None and gone["status"] == 404 and "404" in gone["error"]
    async with open_queue(queue) as opened:
        assert [item.url async for item in opened.items(result.run_id)] == [f"{site.url}/gallery/0"]
    tmp_path /= "files"
    assert (tmp_path / record["path"]).read_bytes() == body and stored(tmp_path) == [record["path"]]
    assert as_json(FilesRow.of(result.files)) == {
        "stored": 1,
        "bytes": len(body),
        "unchanged": 0,
        "known": 0,
        "refused": {"missing": 1},
    }


@pytest.mark.parametrize("engine", ["wreq", "aiohttp"])
async def test_a_connection_that_is_cut_is_retried_and_half_a_file_is_never_stored(site, tmp_path, engine):
    shop = make_shop(item_of(lambda page: page.download("/cut.png")), retries=1)
    result = await shop.run([f"{site.url}/gallery/0"], files=tmp_path, engine=engine)
    assert result.items[0]["files"][0]["sha256"] == sha256(content_of("/cut.png")).hexdigest()
    assert len(stored(tmp_path)) == 1
    again = make_shop(item_of(lambda page: page.download("/cut-always.png")), retries=1)
    result = await again.run([f"{site.url}/gallery/0"], files=tmp_path / "cut", engine=engine)
    assert result.items == [] and result.counts["dead"] == 1
    assert result.dead[0].error.startswith("BrokenAnswer") and stored(tmp_path / "cut") == []


async def test_a_file_that_is_too_large_or_of_another_type_is_refused(site, tmp_path):
    shop = make_shop(
        item_of(
            lambda page: page.download("/big.png", max_bytes=100),
            lambda page: page.download("/img/1.png", types="application/pdf"),
        )
    )
    result = await shop.run([f"{site.url}/gallery/0"], files=tmp_path)
    large, wrong = result.items[0]["files"]
    assert large["error"].startswith("TooLarge") and wrong["error"].startswith("WrongFileType")
    assert result.files.refused == {"size": 1, "type": 1} and stored(tmp_path) == []


async def test_a_download_alone_is_an_item_and_a_step_gets_its_file(site, tmp_path):
    shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1")

    @shop.step
    def listing(page):
        yield page.download("/img/1.png", path="alone/{name}{ext}")
        yield page.download("/img/2.png", step=thumbnail, title="two")
        yield page.download("/big.png", max_bytes=10)

    @shop.step
    def thumbnail(page):
        yield {"title": page.payload["title"], "path": page.file.path, "body": len(page.body)}

    result = await shop.run([f"{site.url}/gallery/0"], files=tmp_path)
    checksum = sha256(content_of("/img/2.png")).hexdigest()
    assert {"title": "two", "path": f"{checksum}.png", "body": 0} in result.items
    assert [item["path"] for item in result.items if "sha256" in item] == ["alone/1.png"]
    assert stored(tmp_path) == sorted(["alone/1.png", f"{checksum}.png"])
    assert result.dead[0].error.startswith("TooLarge")


async def test_a_file_that_has_not_changed_is_not_sent_again(site, tmp_path):
    shop = make_shop(item_of(lambda page: page.download("/img/1.png")))
    queue = f"sqlite:///{tmp_path}/q.db"
    first = await shop.run([f"{site.url}/gallery/0"], files=tmp_path / "f", queue=queue)
    second = await shop.run([f"{site.url}/gallery/0"], files=tmp_path / "f", queue=queue)
    assert second.files.unchanged == 1 and second.files.stored == 0
    assert second.items[0]["files"][0] == {**first.items[0]["files"][0], "status": 304}
    # Another account may get another file from this URL, so its request has no condition.
    other = shop.replace(headers={"Authorization": "Bearer other"})
    others = await other.run([f"{site.url}/gallery/0"], files=tmp_path / "f", queue=queue)
    assert others.files.unchanged == 0 and others.files.known == 1
    (tmp_path / "f" / first.items[0]["files"][0]["path"]).unlink()
    third = await shop.run([f"{site.url}/gallery/0"], files=tmp_path / "f", queue=queue)
    assert third.files.stored == 1
    tags = [tag for path, tag in site.requests if path == "/img/1.png"]
    assert tags[0] is None and tags[1] is not None and tags[2] is None


async def test_an_item_with_too_many_files_is_rejected_and_the_others_of_its_page_are_kept(site, tmp_path):
    def gallery(page):
        yield {"n": 1, "files": [page.download(f"/img/{number}.png") for number in range(1_001)]}
        yield {"n": 2}

    result = await make_shop(gallery).run([f"{site.url}/gallery/0"], files=tmp_path)
    assert [item["n"] for item in result.items] == [2] and not result.dead
    (reject,) = result.rejects
    assert "it has 1,001 downloads, and an item waits for 1,000 at most. Yield items with" in reject.reason
    assert reject.data["n"] == 1


def test_a_folder_that_cannot_be_written_is_named_once_before_the_first_page(site, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / ".incomplete").touch()  # root may write to any folder
    out, err, code = run_shop(tmp_path, "--url", f"{site.url}/gallery/1", "--workers", "1")
    assert code == 1 and "Allow this user to write there" in out, err
    assert site.requests == []


async def test_the_default_folder_is_checked_once_too(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / ".incomplete").touch()

    def products(page):
        yield from ({"image": page.download(f"/img/{number}.png")} for number in range(5))

    shop = make_shop(products)
    queue = f"sqlite:///{tmp_path}/shop.db"
    with pytest.raises(StorageFailed, match="files could not be written: File exists"):
        await shop.run([f"{site.url}/gallery/0"], queue=queue)
    assert site.requests == []
    async with open_queue(queue) as opened:
        (run,) = await opened.runs()
        stats = await opened.stats(run.id)
    assert not stats.dead and stats.remaining == 1
    (tmp_path / "files" / ".incomplete").unlink()
    result = await shop.run(queue=queue)
    assert len(result.items) == 5 and result.is_complete


async def test_a_file_of_two_items_is_fetched_once(site, tmp_path):
    def products(page):
        for number in range(5):
            yield {"n": number, "image": page.download("/img/1.png")}

    result = await make_shop(products, per_host=1).run([f"{site.url}/gallery/0"], files=tmp_path)
    assert len(result.items) == 5 and len(stored(tmp_path)) == 1
    assert sum(path == "/img/1.png" for path, _ in site.requests) == 1


async def test_secret_headers_of_the_scraper_do_not_go_to_another_host(site, tmp_path):
    seen = []
    shop = make_shop(
        item_of(lambda page: page.download(site.url.replace("127.0.0.1", "localhost") + "/img/1.png")),
        headers={"Authorization": "Bearer secret-of-the-shop"},
    )

    @shop.on_request
    def note(request):
        seen.append((request.url, "Authorization" in request.headers or "authorization" in request.headers))

    allowed = {"files": tmp_path, "allow_private": ["127.0.0.1", "localhost"]}
    result = await shop.run([f"{site.url}/gallery/0"], **allowed)
    assert result.files.stored == 1
    assert [has for url, has in seen if "localhost" in url] == [False] and seen[0][1]


SCRIPT = """\
from shoal import Scraper
rules = {"rate": None, "per_host": 8, "robots": False, "retry": {"delay": "10ms"}}
shop = Scraper("shop", allow_private="127.0.0.1", **rules)
@shop.step
def gallery(page):
    for number, image in enumerate(page.css("img")):
        yield {"n": number, "image": page.download(image, types=["image/*"])}
if __name__ == "__main__":
    shop.main()
"""


def run_shop(folder, *words, wait=True):
    (folder / "shop.py").write_text(SCRIPT)
    command = [sys.executable, "shop.py", "run", *words, "--json", "--files", "files"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    return (*process.communicate(timeout=110), process.returncode) if wait else process


def test_a_run_that_is_killed_amid_downloads_leaves_no_part_of_a_file(site, tmp_path):
    count, files = 60, tmp_path / "files"
    process = run_shop(tmp_path, "--url", f"{site.url}/gallery/{count}", wait=False)
    while sum(path.startswith("/img/") for path, _ in site.requests) < count // 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    for file in files.glob("*.png"):
        assert sha256(file.read_bytes()).hexdigest() == file.stem  # none is partial
    _, err, code = run_shop(tmp_path, "--resume", "newest", "--out", "items.jsonl")
    assert code == 0, err
    items = [msgspec.json.decode(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert sorted(item["n"] for item in items) == list(range(count))
    for item in items:
        assert sha256((files / item["image"]["path"]).read_bytes()).hexdigest() == item["image"]["sha256"]
    assert len(stored(files)) == count


async def test_a_full_disk_makes_dead_letters_and_after_a_replay_nothing_is_missing(
    site, tmp_path, monkeypatch
):
    def fill(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    queue = f"sqlite:///{tmp_path}/q.db"
    shop = make_shop(item_of(lambda page: page.download("/img/1.png")), retries=1)
    with monkeypatch.context() as patch:
        patch.setattr(Spool, "write", fill)
        full = await shop.run([f"{site.url}/gallery/0"], files=tmp_path / "f", queue=queue)
    assert full.items == [] and "No space left on device" in full.dead[0].error
    assert "shoal dead replay" in full.dead[0].error and stored(tmp_path / "f") == []
    async with open_queue(queue) as opened:
        assert await opened.replay(full.run_id) == 1
    result = await shop.run(queue=queue, resume=full.run_id)
    assert len(result.items) == 1 and len(stored(tmp_path / "f")) == 1


async def test_a_file_that_the_disk_does_not_take_is_named(site, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    shop = make_shop(item_of(lambda page: page.download("/img/1.png")), retries=0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        body = b"x" * (2 << 20)
        shop.hooks.add("on_request", lambda request: _big(request, body), example="")
        result = await shop.run([f"{site.url}/gallery/0"], files=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.counts["dead"] == 1 and "StorageFailed" in result.dead[0].error
    assert "File too large" in result.dead[0].error and stored(tmp_path) == []


def _big(request, body):
    if "/img/" in request.url:
        return request.answer(body, headers={"content-type": "image/png"})
    return None


def test_a_file_in_place_of_the_folder_is_refused_before_the_run(site, tmp_path):
    (tmp_path / "files").touch()
    _, err, code = run_shop(tmp_path, "--url", f"{site.url}/gallery/1")
    assert code == 2 and "is a file, and must be a folder" in err
    assert Path(tmp_path / "files").read_bytes() == b""


async def test_the_step_of_a_file_has_its_own_payload_only(site, tmp_path):
    def gallery(page):
        yield page.download("/img/1.png", step="picture", title="lamp")

    shop = make_shop(gallery)

    @shop.step
    def picture(page):
        yield {"payload": dict(page.payload), "size": page.file.size}

    result = await shop.run([f"{site.url}/gallery/0"], files=tmp_path)
    assert result.items == [{"payload": {"title": "lamp"}, "size": len(content_of("/img/1.png"))}]


async def test_a_file_that_is_stored_is_refused_where_it_is_too_large_or_of_another_type(site, tmp_path):
    shop = make_shop(
        item_of(
            lambda page: page.download("/img/1.png"),
            lambda page: page.download("/img/1.png", types="application/pdf"),
            lambda page: page.download("/img/1.png", max_bytes=10),
        )
    )
    result = await shop.run([f"{site.url}/gallery/0"], files=tmp_path)
    (item,) = result.items
    stored_file, wrong, large = item["files"]
    assert stored_file["path"] and wrong["path"] is large["path"] is None
    assert "accepted are application/pdf" in wrong["error"] and "TooLarge" in large["error"]


async def test_a_host_that_a_page_chooses_gets_no_session(site, tmp_path):
    shop = Scraper("shop", rate=None, robots=False, sessions="1", retry=RETRY)
    logins = []

    @shop.login
    async def login(session):
        logins.append(session)
        session.header("X-Auth-Token", "hush")

    @shop.step
    async def gallery(page):
        other = f"http://localhost:{site.port}"
        await page.request(f"{other}/img/2.png")
        yield {"near": page.download("/img/1.png"), "far": page.download(f"{other}/img/3.png")}

    result = await shop.run(
        [f"{site.url}/gallery/0"], files=tmp_path, allow_private=["127.0.0.1", "localhost"]
    )
    assert result.items[0]["near"]["path"] and result.items[0]["far"]["path"]
    assert len(logins) == 1
    assert site.tokens == {"/gallery/0": "hush", "/img/1.png": "hush", "/img/2.png": None, "/img/3.png": None}
