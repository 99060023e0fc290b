#!/bin/sh
# Written by `shoal deploy compose`. Makes the files that compose.yaml needs and git must not have: passwords, the queue's
# address, and the secrets of the project, out of the environment or its .env. Those that are there already are kept.
set -eu

project={{project}}
names={{names}}
cd "$(dirname "$0")"

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

password web_token >/dev/null
{{servers}}

missing=
for name in $names; do
    [ ! -s "secrets/$name" ] || continue
    eval "value=\${$name:-}"
    if [ -z "$value" ] && [ -r "$project/.env" ]; then
        value=$(sed -n "s/^$name=//p" "$project/.env" | tail -n 1)
    fi
    if [ -n "$value" ]; then printf '%s' "$value" | write "$name"; else missing="$missing $name"; fi
done
if [ -n "$missing" ]; then
    echo "error: no value for:$missing. Export it, or write it into secrets/NAME, and run this again" >&2
    exit 2
fi
echo "Ready. Next:  docker compose up --detach --build" >&2
