#!/bin/sh
# Starts PgBouncer in transaction pooling mode, with the password out of a file.
# Nothing else is set: Shoal needs no option of it to be changed.
set -eu

folder=${PGBOUNCER_FOLDER:-/tmp}
user=${PGBOUNCER_USER:-shoal}
file=${PGBOUNCER_PASSWORD_FILE:-/run/secrets/postgres_password}
[ -r "$file" ] || {
    echo "error: PGBOUNCER_PASSWORD_FILE names $file, which cannot be read. Mount it there" >&2
    exit 2
}

umask 077
printf '"%s" "%s"\n' "$user" "$(cat "$file")" >"$folder/userlist.txt"
cat >"$folder/pgbouncer.ini" <<INI
[databases]
* = host=${PGBOUNCER_SERVER:-postgres} port=${PGBOUNCER_SERVER_PORT:-5432}

[pgbouncer]
listen_addr = ${PGBOUNCER_LISTEN:-0.0.0.0}
listen_port = ${PGBOUNCER_PORT:-6432}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $folder/userlist.txt
pool_mode = transaction
default_pool_size = ${PGBOUNCER_POOL_SIZE:-20}
max_client_conn = ${PGBOUNCER_CLIENTS:-2000}
INI
exec pgbouncer "$folder/pgbouncer.ini"
