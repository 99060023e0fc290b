"""The orders of an account, behind a login form with a CSRF token."""

import os
from dataclasses import dataclass
from datetime import date

from shoal import Page, Scraper

SITE = "http://127.0.0.1:8800"  # the site of `shoal demo --serve`

scraper = Scraper("myscraper", rate="5/s", sessions=1, start=[f"{SITE}/members/orders"])


@dataclass
class Order:
    number: str
    date: date
    total: float


@scraper.login  # before the first page of a session, and again when it has expired
async def log_in(session):
    form = await session.get(f"{SITE}/members/login")
    page = await session.post(
        f"{SITE}/members/login",
        form={
            "user": os.environ["SHOAL_SITE_USER"],
            "password": os.environ["SHOAL_SITE_PASSWORD"],
            "csrf": form.attr("input[name=csrf]", "value"),
        },
    )
    return page.text(".user") == os.environ["SHOAL_SITE_USER"]


@scraper.step(item=Order)
async def orders(page: Page):
    for row in page.table():
        yield {"number": row["Order"], "date": row["Date"], "total": row["Total"]}
    yield page.follow(page.attr("a[rel=next]", "href"))
