"""Twenty secrets, in every place where one can be given; each part fails in turn, and none is written down.

What may be written: the URL of a task with its query, in the queue, in the results and where a person looks
at tasks, for it is what they asked to be fetched. Not in logs, metrics or traces.
"""

import asyncio
import gzip
import json
import signal
from base64 import b64encode
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.integration.engine.origin import Answer, Origin
from tests.integration.secrets.canaries import files, spellings
from tests.integration.secrets.scene import DEBUG, Scene, listens, until
from tests.servers.process import free_port
from tests.servers.redis import RedisServer

PATIENCE = {"SHOAL_PATIENCE": "3s"}  # for a queue that is away: it is said, and after a while it is an error
LOOKS = [
    ["runs"],
    ["status"],
    ["workers"],
    ["hosts"],
    ["proxies"],
    ["tokens"],
    ["partitions"],
    ["stale"],
    ["check", "shop.py"],
]


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


@pytest.fixture
async def site(scene):
    async with Origin(scene.site) as origin:
        yield origin


@pytest.fixture
async def strict(scene):
    """The same site at another address, which is another host."""
    async with Origin(scene.site, address="127.0.0.2") as origin:
        yield origin


@pytest.fixture
async def gruff():
    """The port of a server that speaks plain HTTP to everybody, and lets nobody in."""

    async def refuse(reader, writer):
        await reader.read(4096)
        writer.write(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def urls_of(site, *paths):
    return [f"--url={site.url}{path}" for path in paths]


async def at_once(*doing):
    """Do things side by side, a few at a time."""
    few = asyncio.Semaphore(4)

    async def one(doing):
        async with few:
            return await doing

    return await asyncio.gather(*map(one, doing))


async def look(scene, run_id, queue, *commands):
    """Look at a run in every way there is; return its dead letters."""
    listed = await scene.type("dead", "list", run_id, "--json", "--queue", queue)
    shown = [["dead", "show", run_id, letter["id"]] for letter in listed.rows[:2]]
    words = [*(commands or LOOKS), *shown, ["dead", "list", run_id]]
    looks = [[*one, run_id] if one[0] in ("status", "partitions") else one for one in words]
    await at_once(
        scene.type("metrics", "--queue", queue),
        *(scene.type(*one, "--json", "--queue", queue) for one in looks),
    )
    return listed.rows


async def scraped(scene, port):
    """Read the metrics of a run again and again while it lasts."""
    while True:
        await asyncio.sleep(0.05)
        try:
            page = await asyncio.to_thread(lambda: urlopen(f"http://127.0.0.1:{port}/metrics").read())
        except OSError:
            continue
        scene.hear("metrics", page)


@pytest.mark.long
async def test_targets_and_steps_that_fail_and_workers_that_die(scene, site, strict, gruff):
    queue, port, secret = "sqlite:///shoal.db", free_port(), scene.canaries["query"]
    paths = ["/ok", "/500", "/raise", "/die", f"/raise?key={secret}"]
    # A host that says 403 is left alone for a while, so that it is not the one with the other pages.
    away = [
        f"--url=http://127.0.0.1:{free_port()}/",
        f"--url=https://127.0.0.1:{gruff}/no-tls",
        f"--url={strict.url}/403",
    ]
    logs = ["--log-dir", "logs", "--log-format", "json", *DEBUG]
    reading = asyncio.create_task(scraped(scene, port))
    done = await scene.type(
        *("run", "shop.py", "--json", "--trace", "--metrics", f"127.0.0.1:{port}", "--out", "items.jsonl"),
        *("--queue", queue, "--workers", 2, *logs, *urls_of(site, *paths), *away),
    )
    reading.cancel()
    run_id = json.loads(done.out.splitlines()[-1])["run_id"]
    letters = await look(scene, run_id, queue)
    await scene.type("export", run_id, "--to", "items.csv", "--envelope", "--queue", queue)
    assert {"ValueError", "HttpStatus", "Blocked", "WorkerDied", "ConnectFailed", "TlsFailed"} == {
        letter["error"].partition(":")[0] for letter in letters
    }
    assert scene.hits("query") == []
    # The URL that was asked for is in the queue and where tasks are looked at, and nowhere else.
    places = {hit.removeprefix("query in ").lstrip("0123456789 ").partition("-")[0] for hit in scene.hits()}
    assert "shoal.db" in places, "the control: a secret that is written is found"
    assert places <= {"shoal.db", "shoal dead", "items.csv"}
    assert scene.written["metrics"]


LATE = """
import logging
from shoal import Page, Scraper

late = Scraper("late", rate=None, robots=False, retries=0, sessions=1, allow_private="127.0.0.0/8")
log = logging.getLogger("mine")
TASK = {{"X-Api-Key": "{of_task}", "Authorization": "Basic {basic}"}}

@late.login
async def login(session):
    session.header("X-Account", "not secret by its name")
    session.header("X-Session-Key", "{of_session}")

@late.step
async def page(page: Page):
    yield page.post("/fail", body=b"x", headers=TASK, step="fail")
    yield page.post("/warn", body=b"x", headers=TASK, step="warn")

def told(page):
    cookies = [line.partition("=")[2].partition(";")[0] for line in page.headers.all("set-cookie")]
    return f"said {of_task} {of_session} {of_basic} {{cookies}} " + "x" * 1_950 + " {of_task}"

@late.step
async def fail(page: Page):
    raise ValueError(told(page))
    yield

@late.step
def warn(page: Page):  # in a thread
    log.warning("heard %s", told(page))
    yield {{"title": page.text("title")}}
"""


async def test_secrets_that_are_known_only_once_they_are_sent(scene, site):
    """Headers of a task and of a session, and cookies of hosts: known to nobody when the run begins."""
    words = {word: scene.canaries[word] for word in ("of_task", "of_session", "of_basic")}
    basic = b64encode(f"me:{words['of_basic']}".encode()).decode()
    scene.give("late.py", LATE.format(**words, basic=basic))
    queue = "sqlite:///shoal.db"
    await scene.type(
        *("run", "late.py", "--json", "--queue", queue, "--run", "r", "--out", "items.jsonl"),
        *("--log-dir", "logs", *DEBUG, *urls_of(site, "/ok")),
    )
    letters = await look(scene, "r", queue, ["status"])
    assert [letter["error"].partition(" ")[0] for letter in letters] == ["ValueError:"]
    assert b"heard said" in files(scene.folder / "logs")["worker-1.log"]
    assert "x-session-key" in site.posts[0][2].lower(), "the control: it was sent"
    # What a task sends is in the queue, for it has yet to be sent; a host's cookie is nowhere at all.
    assert scene.hits("of_task", "of_basic") == []
    assert {hit.partition(" in ")[2].partition("-")[0] for hit in scene.hits()} == {"shoal.db"}


@pytest.mark.long
async def test_proxies_that_fail(scene, site, gruff):
    lines = [
        f"{scheme}://{scene.canaries[f'{scheme}_user_{kind}']}:{scene.canaries[f'{scheme}_password_{kind}']}@127.0.0.1:{port}"
        for kind, port in (("dead", free_port()), ("refusing", gruff))
        for scheme in ("http", "https", "socks5")
    ]
    scene.give("proxies.txt", "\n".join(lines))
    queue = "sqlite:///shoal.db"
    done = await scene.type(
        *("run", "shop.py", "--json", "--queue", queue, "--proxies", "proxies.txt timeout=1s", "--run", "r"),
        *("--set", "ttl=4s", "--log-dir", "logs", *DEBUG, *urls_of(site, "/ok", "/two")),
    )
    assert done.code != 0 or '"expired"' in done.out
    await look(scene, "r", queue, ["proxies", "r"], ["status"], ["workers"])
    await scene.type("check", "shop.py", "--queue", queue, SHOAL_PROXIES="proxies.txt")
    assert scene.hits() == []


@pytest.mark.long
async def test_tokens_that_are_refused(scene, site):
    scene.give("tokens.txt", scene.canaries["token_of_file"])
    queue = "sqlite:///shoal.db"
    await scene.type(
        *("run", "shop.py", "--json", "--queue", queue, "--run", "r", "--set", "ttl=2s"),
        *("--tokens", f"file:tokens.txt query=key hosts={site.url}", "--log-dir", "logs", *DEBUG),
        *urls_of(site, "/401", "/403", "/500", "/raise"),
    )
    assert any("/401" in path for path in site.visits)
    await look(scene, "r", queue, ["tokens"], ["status"])
    assert scene.hits() == []


@pytest.mark.long
async def test_logins_that_fail(scene, site):
    queue = "sqlite:///shoal.db"
    await scene.type(
        *("run", "shop.py", "--json", "--queue", queue, "--run", "r", "--set", "ttl=2s"),
        *("--set", "sessions=2", "--log-dir", "logs", *DEBUG, *urls_of(site, "/ok")),
    )
    assert site.visits["/login"] > 0
    await look(scene, "r", queue, ["status"])
    assert b"A login failed" in files(scene.folder / "logs")["worker-1.log"]
    assert scene.hits() == []


async def test_a_whole_fleet_that_is_killed(scene, site):
    site.answer = lambda path: Answer(after=5)
    queue = "sqlite:///shoal.db"
    words = ("run", "shop.py", "--queue", queue, "--run", "r", "--log-dir", "logs", "--set", "sessions=1")
    async with scene.typing(*words, *DEBUG, *urls_of(site, "/a", "/b")):
        await until(lambda: site.visits)
    await scene.type("stale", "--json", "--queue", queue)
    assert scene.hits() == []


@pytest.mark.long
async def test_a_listening_worker_and_a_caller_with_another_secret(scene, site):
    queue, at = "sqlite:///shoal.db", free_port()
    words = ("listen", "shop.py", "--queue", queue, "--at", f"127.0.0.1:{at}", "--log-dir", "logs", *DEBUG)
    async with scene.typing(*words):
        await until(lambda: listens(at))
        words = ("scrape", "shop.py", f"{site.url}/raise", "--queue", queue, "--timeout", "2s")
        await scene.type(*words)
        scene.environment["SHOAL_SECRET"] = scene.canaries["another_secret"]
        refused = await scene.type(*words, "--json")
    assert refused.code != 0
    assert scene.hits() == []


@pytest.mark.long
async def test_queues_that_are_away_or_refuse(scene, site, postgres_url):
    """Each is asked with a password that it does not know, and where nobody listens."""
    dead = free_port()
    with RedisServer(password="the right one") as locked:
        addresses = {
            "postgres": f"postgresql://shoal:{{}}@127.0.0.1:{dead}/shoal",
            "redis_locked": f"redis://:{{}}@127.0.0.1:{locked.port}/0",
            "amqp": f"amqp://guest:{{}}@127.0.0.1:{dead}/?state=redis://:{{}}@127.0.0.1:{dead}/0",
            "postgres_missing": postgres_url.replace("shoal@", "nobody:{}@"),
            "odd": "postgresql://shoal:{}@[::1/shoal",
            "unknown": "postgrsql://shoal:{}@127.0.0.1/shoal",
        }
        urls = [
            address.replace("{}", f"{scene.canaries[f'queue_{name}']}%2F%40")
            for name, address in addresses.items()
        ]
        logs = ["--log-dir", "logs", *DEBUG]
        answering = [url for url in urls if f":{dead}/" not in url]
        await at_once(
            *(
                scene.type("run", "shop.py", "--queue", url, *logs, *urls_of(site, "/ok"), **PATIENCE)
                for url in urls
            ),
            *(scene.type("status", "--json", "--queue", url, **PATIENCE) for url in answering),
        )
    said = b"".join(scene.written.values())
    for words in (b"Waiting for the queue", b"cannot be reached", b"refused", b"Did you mean"):
        assert words in said
    assert scene.hits() == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgres", "rabbitmq"])
async def test_queues_that_work_and_know_the_password(scene, site, kind, request):
    secret = scene.canaries["queue_password"]
    if kind == "postgres":
        url = request.getfixturevalue("postgres_url")
        server, name = request.getfixturevalue("postgres"), url.rpartition("/")[2]
        await fails_on(scene, site, url.replace("shoal@", f"shoal:{secret}@"), lambda: rows(server, name))
        return
    with RedisServer(password=secret, append=True) as server:
        url = request.getfixturevalue("rabbitmq").with_state(server.url())
        await fails_on(scene, site, url, lambda: b"".join(files(server.folder).values()))


def rows(server, database):
    """Return every row of a database as text."""
    tables = server.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'shoal'", database=database)
    found = [
        server.sql(f"SELECT t::text FROM shoal.{table} t", database=database) for table in tables.split()
    ]
    return "\n".join(found).encode()


async def fails_on(scene, site, url, dump):
    """Let a run fail in several ways on a queue, and read all that the queue holds."""
    await scene.type(
        *("run", "shop.py", "--json", "--queue", url, "--run", "r", "--log-dir", "logs"),
        *(*DEBUG, "--cache", "5m"),
        *("--out", "items.jsonl", *urls_of(site, "/ok", "/500", "/raise", "/die")),
    )
    letters = await look(scene, "r", url, ["workers"], ["check", "shop.py"])
    assert len(letters) == 3
    scene.hear("database", dump())
    assert b"ValueError" in scene.written["database"], "the dump holds what is in the queue"
    assert scene.hits() == []


async def test_a_recording_of_pages_that_came_and_that_did_not(scene, site):
    await scene.type(
        *("run", "shop.py", "--json", "--warc", "crawl.warc.gz", "--log-dir", "logs", *DEBUG),
        *urls_of(site, "/ok", "/500", "/raise"),
    )
    assert b"WARC/1.1" in files(scene.folder)["crawl.warc.gz"]
    assert scene.hits() == []


HIDES_NOTHING = """
import shoal.fleet.telemetry.logs
import shoal.worker.outcomes
import shoal.worker.processor
shoal.fleet.telemetry.logs.redactor = lambda secrets: str
shoal.worker.processor.ProcessorTools.redact = property(lambda self: str, lambda self, value: None)
shoal.worker.outcomes.hidden = str
"""


async def test_workers_and_logs_that_hide_nothing_are_found_out(scene, site):
    """The control of it all: what is kept of errors is where most secrets would be."""
    scene.give("shop.py", HIDES_NOTHING + (scene.folder / "shop.py").read_text())
    queue, told = "sqlite:///shoal.db", {"authorization", "cookie", "api_key", "custom_header", "set_by_host"}
    await scene.type(
        *("run", "shop.py", "--json", "--queue", queue, "--run", "r", "--log-dir", "logs", *DEBUG),
        *urls_of(site, "/raise"),
    )
    await scene.type("dead", "list", "r", "--json", "--queue", queue)
    found = {tuple(hit.split(" in ")) for hit in scene.hits()}
    for place in ("shoal.db", "logs/worker-1.log", "2 shoal dead"):
        assert told <= {name for name, where in found if where == place}


async def test_settings_that_are_right_are_not_shown_in_the_commands_to_type_next(scene, site):
    secret, asked = scene.canaries, asyncio.Event()

    def hang_up(reader, writer):
        asked.set()
        writer.close()

    proxy = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    given = [
        *("--set", f'headers={{"Authorization":"Bearer {secret["typed_header"]}"}}'),
        *("--set", f'tokens={{"from":["{secret["typed_token"]}"],"hosts":"{site.url}","header":"X-Key"}}'),
        *("--set", f'proxies=["http://me:{secret["typed_proxy"]}@{address}"]'),
    ]
    await scene.type("enqueue", "shop.py", "--json", *given, *urls_of(site, "/a"))
    await scene.type("enqueue", "shop.py", *given, *urls_of(site, "/a"))
    words = ("run", "shop.py", *given, "--set", "ttl=1h", *urls_of(site, "/a", "/b"))
    async with proxy, scene.typing(*words, how=signal.SIGINT):
        await until(asked.is_set)
    assert any(b"Resume:" in said for said in scene.written.values())
    assert scene.hits() == []


@pytest.mark.long
async def test_places_for_results_that_fail(scene, site):
    queue = "sqlite:///shoal.db"
    for number, target in enumerate(
        [
            f"postgresql://shop:{{}}@127.0.0.1:{free_port()}/shop?table=items",
            "postgresql://shop:{}@127.0.0.1/shop",  # no table is named
        ]
    ):
        url = target.replace("{}", scene.canaries[f"export_{number}"])
        await scene.type_within(
            *(10, "run", "shop.py", "--queue", queue, "--run", f"r{number}", "--out", url),
            *("--log-dir", "logs", *DEBUG, *urls_of(site, f"/{number}")),
        )
        await scene.type_within(10, "export", f"r{number}", "--to", url, "--queue", queue)
    assert scene.hits() == []


WRONG = [
    ["--url=http://me:{}@127.0.0.1/"],
    ["--set", "headers=Authorization: {}"],
    ["--set", 'headers={{"Authorization": "{}\\n"}}'],
    ["--proxies", "http://me:{}@127.0.0.1:99999"],
    ["--tokens", "{} hosts=127.0.0.1"],
    ["--set", 'tokens={{"from": ["two words {}"], "hosts": "127.0.0.1"}}'],
    ["--queue", "postgresql://me:{}@host:port/x"],
    ["--queue", "amqp://me:{}@127.0.0.1/"],
    ["--out", "mysql://me:{}@127.0.0.1/x"],
    ["--sitemap", "http://me:{}@127.0.0.1/sitemap.xml"],
]


async def run_wrongly(scene, number, words):
    """Give a setting in a way that is refused."""
    secret = scene.canaries[f"wrong_{number}"]
    given = [word.replace("{}", secret).replace("{{", "{").replace("}}", "}") for word in words]
    seed = [] if given[0].startswith(("--url", "--sitemap")) else ["--url=http://127.0.0.1:1/"]
    how = ["--json"] if number % 2 else []
    given += [*seed, "--log-dir", "logs", *DEBUG]
    done = await scene.type("run", "shop.py", *how, *given, **PATIENCE)
    assert done.code != 0 or "Skipped" in done.err, words


@pytest.mark.long
async def test_settings_that_are_wrong(scene):
    await at_once(*(run_wrongly(scene, number, words) for number, words in enumerate(WRONG)))
    for kind in ("urls.txt", "urls.csv"):
        scene.give(kind, f"url\nhttp://me:{scene.canaries['in_a_file']}@127.0.0.1/\n")
        await scene.type_within(10, "enqueue", "shop.py", "--urls-file", kind, "--rejects", f"{kind}.rejects")
    await scene.type_within(5, "listen", "shop.py", "--at", f"127.0.0.1:{free_port()}", SHOAL_SECRET="short")
    assert scene.hits() == []


def test_a_secret_is_found_however_it_is_spelled(scene, tmp_path):
    """The control of the search."""
    secret = scene.canaries["planted"]
    for place, text in {
        "raw": f"password={secret}",
        "url": f"x%2F{quote(secret)}",
        "base64": b64encode(f"user:{secret}".encode()).decode(),
        "base64 of more": b64encode(f"me:{secret}:more".encode()).decode(),
        "hex": secret.encode().hex(),
    }.items():
        scene.written = {place: text.encode()}
        assert scene.hits() == [f"planted in {place}"]
    scene.written = {}
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "kept.gz").write_bytes(gzip.compress(secret.encode()))
    assert scene.hits() == ["planted in deep/kept.gz"]
    assert len(set(spellings(secret))) > 5
