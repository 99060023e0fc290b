from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider


class Rules(CrawlSpider):
    """Rules, some with methods that change links and requests."""

    name = "rules"
    allowed_domains = ["127.0.0.1"]
    rules = (
        Rule(LinkExtractor(restrict_css="a.book"), callback="parse_book", process_links="without_source"),
        Rule(LinkExtractor(restrict_css="a.next"), follow=True, process_request="deeper"),
        Rule(LinkExtractor(allow="private|elsewhere"), callback="parse_book"),
    )

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.start_urls = [f"{crawler.settings['SITE']}/list/1"]
        return spider

    def without_source(self, links):
        for link in links:
            link.url = link.url.partition("?")[0]
        return links

    def deeper(self, request, response):
        request.meta["level"] = response.meta.get("level", 0) + 1
        return request

    def parse_book(self, response):
        yield {"title": response.css("h1::text").get().strip(), "price": response.css(".price::text").get()}


class Maps(SitemapSpider):
    """An index of sitemaps, one of them compressed."""

    name = "maps"
    sitemap_rules = [("/book/", "parse_book"), ("/author/", "parse_author")]

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.sitemap_urls = [f"{crawler.settings['SITE']}/sitemap.xml"]
        return spider

    def parse_book(self, response):
        yield {"title": response.css("h1::text").get().strip(), "price": response.css(".price::text").get()}

    def parse_author(self, response):
        yield {"author": response.css("h1::text").get()}
