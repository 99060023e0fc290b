from shoal import Page, Scraper
from shoal.worker.worker import default_concurrency


def scraper(second_fetch="browser"):
    shop = Scraper("shop", fetch="browser", browser="tabs=3")

    @shop.step
    async def listing(page: Page):
        yield page.follow("/p/1", step=product)

    @shop.step(fetch=second_fetch)
    async def product(page: Page):
        yield {"name": page.text("h1")}

    return shop


def test_where_a_browser_fetches_every_page_a_worker_has_as_many_tasks_as_tabs():
    assert default_concurrency(scraper()) == 3
    assert default_concurrency(scraper().replace(browser="tabs=8")) == 8


def test_where_some_pages_need_no_tab_it_has_the_usual_number():
    assert default_concurrency(scraper("http")) is None
    assert default_concurrency(scraper("auto")) is None
    assert default_concurrency(scraper().replace(sites={"a.example": {"fetch": "http"}})) is None
