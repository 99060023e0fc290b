from dataclasses import dataclass

import scrapy
from itemloaders.processors import MapCompose, TakeFirst


class Book(scrapy.Item):
    title = scrapy.Field(input_processor=MapCompose(str.strip), output_processor=TakeFirst())
    price = scrapy.Field(output_processor=TakeFirst())
    shelf = scrapy.Field()


@dataclass
class Author:
    name: str
    shelf: str = ""
