redis=$(password redis_password)
echo "requirepass $redis" | write redis.conf
echo "redis://:$redis@redis:6379/0{{query}}" | write queue_url
