#!/bin/sh
# Installs from Debian's packages the servers that the tests need and this machine lacks.
# Usage: tools/servers.sh [PACKAGE...]
# Nothing is started, and what is installed already is left alone. Without root it says what to install.
set -eu

SERVERS="postgresql pgbouncer redis-server rabbitmq-server nginx openssl chromium-headless-shell chromium tor tinyproxy-bin microsocks iproute2 prometheus"

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
POLICY=/usr/sbin/policy-rc.d

say() { echo "$*" >&2; }

is_there() {
    case "$1" in
        postgresql) ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null ;;
        chromium-headless-shell | chromium) [ -x "/usr/lib/chromium/$1" ] || command -v "$1" >/dev/null ;;
        rabbitmq-server) [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null ;;
        tinyproxy-bin) command -v tinyproxy >/dev/null ;;
        iproute2) command -v ip >/dev/null ;;
        prometheus) command -v promtool >/dev/null ;; # the tests check rules with it
        *-doc | *-doc-[0-9]*) dpkg -s "$1" >/dev/null 2>&1 ;; # pages to crawl
        python3-venv) python3 -c 'import ensurepip' 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

apt() { apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }

install() {
    # Package lists are fetched when there are none, or when they have grown old and name versions that are gone.
    apt-cache show --no-all-versions "$@" >/dev/null 2>&1 || apt update
    apt install --no-install-recommends "$@" || { apt update && apt install --no-install-recommends "$@"; }
}

tidy() {
    [ -z "$guard" ] || rm -f "$POLICY"
    rm -f "$log"
}

missing=""
for package in ${*:-$SERVERS}; do
    is_there "$package" || missing="$missing $package"
done
case "$missing" in
    *azurite*) # the emulator of Azure storage is in no Debian; only tests that are skipped without it need it
        missing=$(echo "$missing" | sed 's/ azurite//')
        if command -v npm >/dev/null; then
            npm install --global --no-audit --no-fund --ignore-scripts azurite@3.37.0 >&2
        else
            say "Missing: azurite. Install npm, then run: npm install --global azurite"
        fi
        ;;
esac
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    say "Missing:$missing. Install them with your system's package manager; tests that need them are skipped."
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    say "Missing:$missing. Run: sudo apt-get install --no-install-recommends$missing"
    exit 0
fi

export DEBIAN_FRONTEND=noninteractive
guard=""
log=$(mktemp)
trap tidy EXIT
trap 'exit 130' INT TERM
if [ ! -e "$POLICY" ]; then # one that is there already is the administrator's
    guard=yes
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
fi

say "Installing$missing"
# shellcheck disable=SC2086 # a list of words
install $missing || {
    tail -n 20 "$log" >&2
    say "Could not install$missing. Run: apt-get update && apt-get install --no-install-recommends$missing"
}
