"""Sitemaps: from a site or a sitemap URL to tasks."""
