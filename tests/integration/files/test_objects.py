"""Exports and downloads to S3, against moto's server."""

import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from io import BytesIO

import boto3
import msgspec
import pytest
from moto.server import ThreadedMotoServer

from shoal import Scraper
from shoal.core.errors import ExportFailed, ExportUnavailable, InvalidSetting, StorageFailed
from shoal.core.model import StoredItem
from shoal.export import objects
from shoal.export.open import open_writer
from shoal.worker.files.store import ObjectFiles
from tests.integration.files.conftest import content_of


@pytest.fixture(scope="module")
def server():
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    yield f"http://127.0.0.1:{moto.get_host_and_port()[1]}"
    moto.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    values = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}
    for name, value in values.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="shop")
    yield client
    for entry in client.list_objects_v2(Bucket="shop").get("Contents", []):
        client.delete_object(Bucket="shop", Key=entry["Key"])


def items(count):
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    return [
        StoredItem(id=n, task_id="t", url=None, step="s", data={"n": n, "text": "x" * 100}, stored_at=now)
        for n in range(count)
    ]


def names(bucket):
    return [entry["Key"] for entry in bucket.list_objects_v2(Bucket="shop").get("Contents", [])]


@pytest.mark.parametrize("suffix", ["jsonl.gz", "parquet"])
def test_an_export_is_visible_when_it_is_complete(bucket, suffix):
    writer = open_writer(f"s3://shop/a/items.{suffix}", existing="refuse")
    writer.survey(items(3))
    writer.write(items(3))
    assert names(bucket) == []
    writer.close()
    assert names(bucket) == [f"a/items.{suffix}"]
    with pytest.raises(InvalidSetting, match="already exists"):
        open_writer(f"s3://shop/a/items.{suffix}", existing="refuse")


def test_a_discarded_export_leaves_nothing(bucket):
    with pytest.raises(ZeroDivisionError), open_writer("s3://shop/items.jsonl") as writer:
        writer.write(items(1))
        raise ZeroDivisionError
    assert names(bucket) == []


@pytest.mark.parametrize("option", [{"live": True}, {"existing": "append"}])
def test_an_object_is_neither_followed_nor_appended_to(bucket, option):
    with pytest.raises(InvalidSetting, match="Export when the run has ended: shoal export RUN"):
        open_writer("s3://shop/items.jsonl", **option)


def test_a_missing_bucket_is_named_before_and_after(bucket):
    with pytest.raises(InvalidSetting, match="there is no bucket 'nothing'"):
        open_writer("s3://nothing/items.jsonl", existing="refuse")
    with pytest.raises(ExportFailed, match="there is no bucket 'nothing'"):
        open_writer("s3://nothing/items.jsonl").close()


def test_a_server_that_is_not_there_is_named(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(InvalidSetting, match=r"its server \(http://127.0.0.1:9\) cannot be reached"):
        open_writer("s3://shop/items.jsonl", existing="refuse")


@pytest.fixture
def silent_server(bucket, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it accepts connections, and never replies
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield address


def test_a_server_that_never_replies_is_named(silent_server, monkeypatch):
    for name in ("REPLY_TIMEOUT", "RETRY_TIMEOUT"):
        monkeypatch.setattr(objects, name, timedelta(seconds=0.5))
    with pytest.raises(InvalidSetting) as refused:
        open_writer("s3://shop/items.jsonl", existing="refuse")
    assert f"its server ({silent_server}) does not reply. Check the network and" in str(refused.value)
    address = objects.ObjectAddress.read("s3://shop/items.jsonl")
    with pytest.raises(ExportUnavailable, match="does not reply"), objects.translate_object_errors(address):
        objects.create_object(address.open(), "small", BytesIO(b"x"), {})


def test_a_large_upload_gets_more_time_than_a_small_request(bucket):
    clients = objects.ObjectAddress.read("s3://shop/items.jsonl").open()
    assert clients.of_size(0) is clients.requests and clients.of_size(objects.MAX_PUT) is clients.uploads


async def test_downloads_go_to_a_bucket(bucket, site):
    shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1")

    @shop.step
    def product(page):
        yield {"image": page.download("/img/1.png")}

    result = await shop.run([f"{site.url}/gallery/0"], files="s3://shop/images")
    record = result.items[0]["image"]
    body = bucket.get_object(Bucket="shop", Key=f"images/{record['path']}")["Body"].read()
    assert body == content_of("/img/1.png") and result.files.stored == 1


def deny(bucket, name, *actions):
    rule = {"Effect": "Deny", "Principal": "*", "Action": actions, "Resource": f"arn:aws:s3:::{name}/*"}
    bucket.create_bucket(Bucket=name)
    policy = msgspec.json.encode({"Version": "2012-10-17", "Statement": [rule]}).decode()
    bucket.put_bucket_policy(Bucket=name, Policy=policy)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "there is no bucket 'nothing'. Create it"),
        ("shut", "access is denied. Check AWS_ACCESS_KEY_ID"),
        ("no-writing", "access is denied. Check AWS_ACCESS_KEY_ID"),
    ],
)
async def test_a_bucket_that_cannot_be_used_is_named_once_before_the_first_page(bucket, site, name, reason):
    if name != "nothing":
        deny(bucket, name, "s3:*" if name == "shut" else "s3:PutObject")
    shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1", retries=0)

    @shop.step
    def product(page):
        yield {"image": page.download("/img/1.png")}

    with pytest.raises(StorageFailed, match=f"s3://{name}/images could not be written: {reason}"):
        await shop.run([f"{site.url}/gallery/0"], files=f"s3://{name}/images")
    assert site.requests == []


def test_a_bucket_without_permission_is_named(bucket, server):
    deny(bucket, "closed", "s3:*")
    with pytest.raises(InvalidSetting, match="access is denied"):
        open_writer("s3://closed/items.jsonl", existing="refuse")
    with pytest.raises(ExportFailed, match="access is denied"):
        open_writer("s3://closed/items.jsonl").close()


def test_files_of_one_name_never_replace_one_another(bucket):
    store = ObjectFiles("s3://shop/images")

    def keep(number):
        spool = store.open_spool()
        spool.write(b"%d" % number * 100)
        try:
            return store.keep(spool, "pic.png", "image/png")[0]
        finally:
            store.discard(spool)

    with ThreadPoolExecutor(8) as threads:
        names = list(threads.map(keep, range(12)))
    assert len(set(names)) == 12
    for number, name in enumerate(names):
        body = bucket.get_object(Bucket="shop", Key=f"images/{name}")["Body"].read()
        assert body == b"%d" % number * 100


def test_the_name_of_an_object_does_not_say_what_it_holds(bucket):
    store = ObjectFiles("s3://shop/images")

    def keep(body, path):
        spool = store.open_spool()
        spool.write(body)
        return store.keep(spool, path, "image/png")

    good = b"good" * 100
    path = f"{sha256(good).hexdigest()}.png"
    assert keep(b"evil" * 100, path) == (path, True)  # as path="{name}{ext}" of another site
    name, is_new = keep(good, path)
    assert is_new and name != path
    assert bucket.get_object(Bucket="shop", Key=f"images/{name}")["Body"].read() == good
    assert keep(good, path) == (name, False)
