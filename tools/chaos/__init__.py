"""Break the processes of a crawl while it goes on, and judge from outside what became of it."""
