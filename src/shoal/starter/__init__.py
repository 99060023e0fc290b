"""What there is before the first scraper file: a scraper for any page, a proposal from a page."""
