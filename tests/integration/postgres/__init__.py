"""The PostgreSQL queue under real conditions: many processes, lost replies, dead servers, poolers."""
