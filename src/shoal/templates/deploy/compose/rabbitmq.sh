redis=$(password redis_password)
rabbitmq=$(password rabbitmq_password)
echo "requirepass $redis" | write redis.conf
printf 'default_user = shoal\ndefault_pass = %s\n' "$rabbitmq" | write rabbitmq.conf
echo "amqp://shoal:$rabbitmq@rabbitmq:5672/?state=redis://:$redis@redis:6379/0{{query}}" | write queue_url
