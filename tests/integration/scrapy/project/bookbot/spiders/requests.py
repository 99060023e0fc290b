from collections import defaultdict
from functools import partial

import scrapy
from scrapy.http import FormRequest, JsonRequest
from scrapy.spidermiddlewares.httperror import HttpError


def parse_again(response, count):
    yield {"again": response.json()["name"], "count": count}


class Mixed(scrapy.Spider):
    """What a request can carry: errbacks, cb_kwargs, meta, priorities, no filter, retries, redirects."""

    name = "mixed"

    async def start(self):
        site = self.settings["SITE"]
        for number in range(15):
            yield scrapy.Request(
                f"{site}/flaky/{number}",
                self.parse_flaky,
                errback=self.failed,
                cb_kwargs={"number": number, "pair": (number, "x")},
                meta={"seen": {number}, "raw": b"\x00\xff"},
                priority=number % 5 - 2,
            )
        for number in range(6):
            yield scrapy.Request(f"{site}/redirect/{number}", self.parse_redirected, meta={"asked": number})
        yield scrapy.Request("http://127.0.0.1:1/", errback=self.failed, cb_kwargs={"number": -1, "pair": 0})
        yield scrapy.Request(f"{site}/cookies", self.parse_cookies, cookies={"a": "first"})
        yield JsonRequest(f"{site}/echo", data={"name": "json"}, callback=partial(self.parse_partial, "more"))

    def parse_flaky(self, response, number, pair):
        yield {
            "flaky": number,
            "value": response.json()["value"],
            "pair": list(pair),
            "seen": sorted(response.meta["seen"]),
            "raw": response.meta["raw"].hex(),
            "retries": response.meta.get("retry_times", 0),
        }
        if number < 3:
            for count in range(3):
                again = response.urljoin("/name/again")
                kwargs = {"count": f"{number}.{count}"}
                yield scrapy.Request(again, parse_again, cb_kwargs=kwargs, dont_filter=True)
        if number == 5:
            found = response.urljoin("/name/lambda")
            yield scrapy.Request(found, lambda answer: [{"lambda": answer.json()["name"]}])

    def parse_redirected(self, response):
        times = response.meta.get("redirect_times", 0)
        yield {"asked": response.meta["asked"], "got": response.url.rpartition("/")[2], "times": times}

    def parse_partial(self, more, response):
        yield {"partial": response.json()["name"], "more": more}

    def parse_cookies(self, response):
        yield {"cookies": response.json()}
        if "b" not in response.json():
            yield response.follow("?again", self.parse_cookies, cookies=[{"name": "b", "value": "second"}])

    def failed(self, failure):
        status = failure.value.response.status if failure.check(HttpError) else "no response"
        yield {"failed": failure.request.cb_kwargs["number"], "status": status}


class Members(scrapy.Spider):
    """Three logins, each in a cookie jar of its own."""

    name = "members"

    async def start(self):
        for jar in range(3):
            login = f"{self.settings['SITE']}/login"
            yield scrapy.Request(login, self.log_in, meta={"cookiejar": jar}, dont_filter=True)

    def log_in(self, response):
        return FormRequest.from_response(
            response,
            formdata={"user": "me", "password": "secret"},
            callback=self.list_members,
            meta={"cookiejar": response.meta["cookiejar"]},
            dont_filter=True,
        )

    def list_members(self, response):
        jar = response.meta["cookiejar"]
        for number in range(jar * 12, jar * 12 + 12):
            yield response.follow(f"/members/{number}", self.parse_member, meta={"cookiejar": jar})

    def parse_member(self, response):
        yield {"jar": response.meta["cookiejar"], "member": response.css("h1::text").get()}


class Modern(scrapy.Spider):
    """Async callbacks, items of `start`, requests within a callback."""

    name = "modern"

    async def start(self):
        yield {"from": "start"}
        for number in range(1, 6):
            yield scrapy.Request(f"{self.settings['SITE']}/list/{number}")

    async def parse(self, response):
        engine = self.crawler.engine
        for link in response.css("a.book::attr(href)").getall()[:2]:
            found = await engine.download_async(scrapy.Request(response.urljoin(link)))
            yield {"list": response.url.rpartition("/")[2], "title": found.css("h1::text").get().strip()}
        again = await engine.download_async(response.request)  # the same object
        yield {"again": again.url.rpartition("/")[2]}
        yield response.follow("/author/1", self.parse_author)

    async def parse_author(self, response):
        return [{"last": response.css("h1::text").get()}]


class Covers(scrapy.Spider):
    """The files pipeline."""

    name = "covers"
    custom_settings = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}

    async def start(self):
        for number in range(1, 9):
            yield scrapy.Request(f"{self.settings['SITE']}/book/{number}")

    def parse(self, response):
        urls = [response.urljoin(response.css("a.cover::attr(href)").get())]
        yield {"title": response.css("h1::text").get().strip(), "file_urls": urls}


class Old(scrapy.Spider):
    """Starts from `start_urls`, which are not filtered, and raises in a callback."""

    name = "old"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.start_urls = [f"{crawler.settings['SITE']}/list/{number}" for number in (1, 2, 3, 3)]
        return spider

    def parse(self, response):
        number = response.url.rpartition("/")[2]
        yield {"before": number}
        if number == "2":
            raise ValueError("two")
        yield {"after": number}


class Remembers(scrapy.Spider):
    """Sets attributes in `start()` and in callbacks, for later ones."""

    name = "remembers"

    async def start(self):
        self.site = self.settings["SITE"]
        yield scrapy.Request(f"{self.site}/list/1")

    def parse(self, response):
        self.authors = defaultdict(list)
        for link in response.css("a.book::attr(href)").getall():
            self.authors[len(link) % 2].append(link)
            for number in range(4):
                yield response.follow(f"{link}&{number}", self.parse_book)

    def parse_book(self, response):
        title = response.css("h1::text").get().strip()
        yield {"url": response.url.removeprefix(self.site), "title": title, "known": self.authors[1]}


class Stumbles(scrapy.Spider):
    """Fails in `start()`, after a request."""

    name = "stumbles"

    async def start(self):
        yield scrapy.Request(f"{self.settings['SITE']}/name/before")
        raise ValueError("start")

    def parse(self, response):
        yield response.json()


class Paced(scrapy.Spider):
    """Pages at a rate."""

    name = "paced"
    custom_settings = {"DOWNLOAD_DELAY": 0.1, "ROBOTSTXT_OBEY": False}

    async def start(self):
        for number in range(40):
            yield scrapy.Request(f"{self.settings['SITE']}/name/{number}")

    def parse(self, response):
        yield response.json()


class Polite(scrapy.Spider):
    """Sets its delay itself, as older spiders do."""

    name = "polite"
    custom_settings = {"ROBOTSTXT_OBEY": False}

    def __init__(self, delay=None, **kwargs):
        super().__init__(**kwargs)
        if delay:
            self.download_delay = float(delay)

    async def start(self):
        for number in range(9):
            yield scrapy.Request(f"{self.settings['SITE']}/name/{number}")

    def parse(self, response):
        yield response.json()
