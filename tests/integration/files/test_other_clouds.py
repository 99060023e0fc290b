"""Exports and downloads to gs:// and az://, against a stub of Google's XML API and against Azurite."""

from collections.abc import Callable
from typing import NamedTuple

import obstore
import pytest

from shoal import Scraper
from shoal.core.errors import ExportFailed, InvalidSetting, StorageFailed
from shoal.export import objects
from shoal.export.objects import ObjectAddress
from shoal.export.open import open_writer
from shoal.worker.files.store import ObjectFiles
from tests.integration.files.conftest import content_of
from tests.integration.files.test_objects import items
from tests.servers.azurite import ACCOUNT, KEY, AzuriteServer
from tests.servers.google_storage import PRIVATE, READ_ONLY, google_storage
from tests.servers.process import ServerMissing


class Cloud(NamedTuple):
    """A provider with a bucket `shop`, how to see what it holds, and the variable that holds its secret."""

    scheme: str
    bucket_word: str
    names: Callable[[], list[str]]
    read: Callable[[str], bytes]
    secret: str

    @property
    def shop(self) -> str:
        return f"{self.scheme}://shop"


@pytest.fixture(scope="module")
def google():
    with google_storage() as server:
        yield server


@pytest.fixture(scope="module")
def azurite():
    try:
        server = AzuriteServer()
    except ServerMissing as error:  # in CI too: it is 300 MB of packages of npm
        pytest.skip(str(error))
    with server:
        server.create_container("shop")
        yield server


@pytest.fixture(params=["gs", pytest.param("az", marks=pytest.mark.long)])
def cloud(request, monkeypatch):
    monkeypatch.setattr(objects, "MAX_RETRIES", 0)
    if request.param == "gs":
        server = request.getfixturevalue("google")
        monkeypatch.setenv("GOOGLE_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", server.token)
        stored = server.buckets["shop"]
        yield Cloud("gs", "bucket", lambda: list(stored), lambda key: stored[key][0], "GOOGLE_BEARER_TOKEN")
        stored.clear()
        return
    server = request.getfixturevalue("azurite")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", server.url)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    store = ObjectAddress.read("az://shop/").open()

    def names():
        return [entry["path"] for batch in obstore.list(store) for entry in batch]

    def read(key):
        return bytes(obstore.get(store, key).bytes())

    yield Cloud("az", "container", names, read, "AZURE_STORAGE_ACCOUNT_KEY")
    for name in names():
        obstore.delete(store, name)


def shop_with(*paths):
    shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1", retries=0)

    @shop.step
    def product(page):
        yield {"images": [page.download(path) for path in paths]}

    return shop


def use_wrong_key(cloud, monkeypatch):
    monkeypatch.setenv(cloud.secret, "A" * 86 + "==")


def test_an_export_is_visible_when_it_is_complete(cloud):
    place = f"{cloud.shop}/a/items.jsonl"
    writer = open_writer(place, existing="refuse")
    writer.write(items(3))
    assert cloud.names() == []
    writer.close()
    assert cloud.names() == ["a/items.jsonl"]
    assert cloud.read("a/items.jsonl").count(b"\n") == 3
    with pytest.raises(InvalidSetting, match="already exists"):
        open_writer(place, existing="refuse")
    with open_writer(place) as again:
        again.write(items(1))
    assert cloud.read("a/items.jsonl").count(b"\n") == 1


def test_a_large_export_is_uploaded_in_parts(cloud):
    with open_writer(f"{cloud.shop}/items.jsonl") as writer:
        for _ in range(120):
            writer.write(items(1_000))
    assert cloud.names() == ["items.jsonl"]
    assert cloud.read("items.jsonl").count(b"\n") == 120_000


def test_a_missing_bucket_is_named_before_and_after(cloud):
    nothing = f"{cloud.scheme}://nothing/items.jsonl"
    reason = f"there is no {cloud.bucket_word} 'nothing'"
    with pytest.raises(InvalidSetting, match=reason):
        open_writer(nothing, existing="refuse")
    with pytest.raises(ExportFailed, match=reason):
        open_writer(nothing).close()


def test_wrong_credentials_are_named_with_the_variables_to_check(cloud, monkeypatch):
    use_wrong_key(cloud, monkeypatch)
    advice = "access is denied. Check " + (
        "GOOGLE_" if cloud.scheme == "gs" else "AZURE_STORAGE_ACCOUNT_NAME"
    )
    with pytest.raises(InvalidSetting, match=advice):
        open_writer(f"{cloud.shop}/items.jsonl", existing="refuse")
    with pytest.raises(ExportFailed, match=advice):
        open_writer(f"{cloud.shop}/items.jsonl").close()


async def test_downloads_go_to_a_bucket_and_the_same_content_is_stored_once(cloud, site):
    result = await shop_with("/img/1.png", "/img/2.png").run(
        [f"{site.url}/gallery/0"], files=f"{cloud.shop}/images"
    )
    for number, record in enumerate(result.items[0]["images"], 1):
        assert cloud.read(f"images/{record['path']}") == content_of(f"/img/{number}.png")
    assert result.files.stored == 2
    assert len([name for name in cloud.names() if name.endswith(".png")]) == 2
    again = await shop_with("/img/1.png").run([f"{site.url}/gallery/0"], files=f"{cloud.shop}/images")
    assert (again.files.stored, again.files.known) == (0, 1)


@pytest.mark.parametrize("problem", ["missing", "wrong key"])
async def test_a_bucket_that_cannot_be_used_is_named_once_before_the_first_page(
    cloud, site, monkeypatch, problem
):
    bucket, reason = "nothing", f"there is no {cloud.bucket_word} 'nothing'. Create it"
    if problem == "wrong key":
        bucket, reason = "shop", "access is denied"
        use_wrong_key(cloud, monkeypatch)
    await assert_named_once(cloud, site, bucket, reason)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)  # Azurite has one account, which may do everything
@pytest.mark.parametrize("bucket", [READ_ONLY, PRIVATE])
async def test_a_bucket_that_the_account_may_not_use_is_named_once_before_the_first_page(cloud, site, bucket):
    await assert_named_once(cloud, site, bucket, "access is denied")


async def assert_named_once(cloud, site, bucket, reason):
    """Check that a run into this bucket ends with the reason before it fetches a page."""
    with pytest.raises(StorageFailed, match=f"{bucket}/images could not be written: {reason}"):
        await shop_with("/img/1.png").run(
            [f"{site.url}/gallery/0"], files=f"{cloud.scheme}://{bucket}/images"
        )
    assert site.requests == []


def test_files_of_one_name_never_replace_one_another(cloud):
    store = ObjectFiles(f"{cloud.shop}/images")

    def keep(data):
        spool = store.open_spool()
        spool.write(data)
        try:
            return store.keep(spool, "pic.png", "image/png")
        finally:
            store.discard(spool)

    first, second = keep(b"one"), keep(b"two")
    assert first == ("pic.png", True) and second[1] and second[0] != "pic.png"
    assert keep(b"one") == ("pic.png", False)
    assert cloud.read("images/pic.png") == b"one" and cloud.read(f"images/{second[0]}") == b"two"
