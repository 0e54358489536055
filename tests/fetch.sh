#!/usr/bin/env bash
# The real clients and the real homeserver that tests speak to, fetched into a cache once: about 1.5 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# The clients that mail and rooms reach, in the versions that their tests name.
agents=${FENCEPOST_AGENTS_DIR:-$HOME/.cache/fencepost-agents}
clients=$(sed -n 's/^    "\([^"]*\)": "\([0-9][^"]*\)",$/\1@\2/p' agents/conftest.py)
if [ "$(cat "$agents/installed" 2>/dev/null)" != "$clients" ]; then
    echo "fetching ${clients//$'\n'/, } into $agents; this happens once and takes minutes"
    # shellcheck disable=SC2086 - one word for each client
    npm install --silent --no-fund --no-audit --prefix "$agents" $clients
    echo "$clients" >"$agents/installed"
fi

# The homeserver whose rooms feed a fleet, and what it needs, as its tests name them.
synapse=${FENCEPOST_SYNAPSE_DIR:-$HOME/.cache/fencepost-synapse}/venv
homeserver=$(sed -n 's/^    "\([^"]*==[^"]*\)",$/\1/p' fleet/homeserver.py)
if ! "$synapse/bin/python" -c '' 2>/dev/null || [ "$(cat "$synapse/installed" 2>/dev/null)" != "$homeserver" ]; then
    echo "fetching ${homeserver//$'\n'/, } into $synapse; this happens once and takes a minute or two"
    python3 -m venv --clear "$synapse"
    # shellcheck disable=SC2086 - one word for each requirement
    "$synapse/bin/pip" install --quiet --only-binary=:all: $homeserver
    echo "$homeserver" >"$synapse/installed"
fi
