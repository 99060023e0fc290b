import os

BOT_NAME = "bookbot"
SPIDER_MODULES = ["bookbot.spiders"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0
CONCURRENT_REQUESTS_PER_DOMAIN = 8
RETRY_TIMES = 2
LOG_LEVEL = "WARNING"
ITEM_PIPELINES = {"bookbot.pipelines.Prices": 300, "bookbot.pipelines.NotFree": 400}
DOWNLOADER_MIDDLEWARES = {"bookbot.middlewares.SignRequests": 543}
SPIDER_MIDDLEWARES = {"bookbot.middlewares.AddShelf": 543}
EXTENSIONS = {"bookbot.extensions.CountItems": 500}
SITE = os.environ.get("SITE", "")
FILES_STORE = os.environ.get("FILES_STORE", "files")
