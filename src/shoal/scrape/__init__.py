"""Where the user's code meets a page: scrapers, steps, pages, items, and which links are followed."""
