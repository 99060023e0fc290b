#!/bin/sh
# Makes what compose.yaml needs and git must not have: passwords, the queue's address, and which servers to start.
# Usage: ./prepare.sh [postgres|redis|rabbitmq]
# Passwords that are there already are kept, so that it can be run again, with another queue too.
set -eu

queue=${1:-postgres}
case "$queue" in
    postgres | redis | rabbitmq) ;;
    *)
        echo "error: no queue is called '$queue'. Run: ./prepare.sh postgres, redis or rabbitmq" >&2
        exit 2
        ;;
esac
cd "${SHOAL_COMPOSE_FOLDER:-$(dirname "$0")}"

# The folder is for you alone. Its files are readable, as containers read them under users of their own.
mkdir -p secrets
chmod 700 secrets

write() {
    rm -f "secrets/$1"
    cat >"secrets/$1"
    chmod 444 "secrets/$1"
}

password() {
    [ -s "secrets/$1" ] || head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' | write "$1"
    cat "secrets/$1"
}

postgres=$(password postgres_password)
redis=$(password redis_password)
rabbitmq=$(password rabbitmq_password)
password grafana_password >/dev/null
password web_token >/dev/null

echo "requirepass $redis" | write redis.conf
printf 'default_user = shoal\ndefault_pass = %s\n' "$rabbitmq" | write rabbitmq.conf
case "$queue" in
    postgres) url="postgresql://shoal:$postgres@pgbouncer:6432/shoal" ;;
    redis) url="redis://:$redis@redis:6379/0" ;;
    rabbitmq) url="amqp://shoal:$rabbitmq@rabbitmq:5672/?state=redis://:$redis@redis:6379/0" ;;
esac
echo "$url" | write queue_url

touch .env
others=$(grep -v '^COMPOSE_PROFILES=' .env || true)
printf '%s\nCOMPOSE_PROFILES=%s\n' "$others" "$queue" | sed '/^$/d' >.env
echo "Ready for $queue. Next:  docker compose up --detach --build --scale worker=4" >&2
