from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class Prices:
    def open_spider(self):
        self.opened = True

    def process_item(self, item):
        found = ItemAdapter(item)
        if self.opened and found.get("price"):
            found["price"] = float(found["price"])
        return item


class NotFree:
    async def process_item(self, item):
        if ItemAdapter(item).get("price") == 0:
            raise DropItem("costs nothing")
        return item
