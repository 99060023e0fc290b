from scrapy import signals


class CountItems:
    def __init__(self, crawler):
        self.stats = crawler.stats
        crawler.signals.connect(self.on_item, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def on_item(self):
        self.stats.inc_value("bookbot/items")
