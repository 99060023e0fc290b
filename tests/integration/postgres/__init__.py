"""The PostgreSQL queue under real conditions: many processes, lost answers, dead servers, poolers."""
