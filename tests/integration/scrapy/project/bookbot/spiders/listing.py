import scrapy
from scrapy.loader import ItemLoader

from bookbot.items import Author, Book


class Listing(scrapy.Spider):
    """Lists and pages with many duplicates, an item loader, items of three kinds."""

    name = "listing"

    def __init__(self, limit="9", **kwargs):
        super().__init__(**kwargs)
        self.limit = int(limit)

    async def start(self):
        yield scrapy.Request(f"{self.settings['SITE']}/list/1")

    def parse(self, response):
        yield {"list": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a.book", callback=self.parse_book)
        following = response.css("a.next::attr(href)").get()
        if following and int(following.rpartition("/")[2]) <= self.limit:
            yield response.follow(following)

    def parse_book(self, response):
        loader = ItemLoader(Book(), response)
        loader.add_css("title", "h1::text")
        loader.add_css("price", ".price::text")
        yield loader.load_item()
        yield from response.follow_all(css="a.author", callback=self.parse_author)

    def parse_author(self, response):
        yield Author(name=response.css("h1::text").get())
