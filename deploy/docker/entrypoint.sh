#!/bin/sh
# Runs a command with the secrets that are mounted as files: SHOAL_QUEUE_FILE=/run/secrets/queue_url becomes SHOAL_QUEUE.
# SHOAL_SECRETS names others, whatever they are called: each is the contents of the file of its name in /run/secrets.
set -eu

for name in ${SHOAL_SECRETS:-}; do
    file=${SHOAL_SECRETS_FOLDER:-/run/secrets}/$name
    [ -r "$file" ] || {
        echo "error: SHOAL_SECRETS names $name, and $file cannot be read. Mount it, or leave it out" >&2
        exit 2
    }
    export "$name=$(cat "$file")"
done
unset SHOAL_SECRETS SHOAL_SECRETS_FOLDER

for name in $(env | sed -n 's/^\(SHOAL_[A-Z_]*\)_FILE=.*/\1/p'); do
    eval "file=\$${name}_FILE"
    [ -r "$file" ] || {
        echo "error: ${name}_FILE names $file, which cannot be read. Mount it, or set $name" >&2
        exit 2
    }
    export "$name=$(cat "$file")"
    unset "${name}_FILE"
done
exec "$@"
