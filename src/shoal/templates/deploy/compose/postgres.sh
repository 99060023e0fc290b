echo "postgresql://shoal:$(password postgres_password)@pgbouncer:6432/shoal{{query}}" | write queue_url
