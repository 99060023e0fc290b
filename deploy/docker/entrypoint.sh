#!/bin/sh
# Runs a command with the secrets that are mounted as files: SHOAL_QUEUE_FILE=/run/secrets/queue_url becomes SHOAL_QUEUE.
set -eu

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
