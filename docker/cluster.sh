#!/bin/sh
# cluster.sh HOST:PORT...: joins the nodes to a cluster with one replica for each primary, unless it exists.
set -eu
REDISCLI_AUTH="$(cat /run/wager/password)"
export REDISCLI_AUTH

ask() {
    valkey-cli -h "${first%:*}" -p "${first#*:}" cluster info
}

first="$1"
if ask | grep -q '^cluster_known_nodes:1[^0-9]*$'; then
    valkey-cli --cluster create "$@" --cluster-replicas 1 --cluster-yes
fi
for _ in $(seq 120); do
    if ask | grep -q '^cluster_slots_ok:16384[^0-9]*$'; then
        exit 0
    fi
    sleep 0.5
done
echo "the cluster is not up:" >&2
ask >&2
exit 1
