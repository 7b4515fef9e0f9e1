#!/bin/sh
# secrets.sh FOLDER: creates the missing secrets, one file each.
#
#   password                    password of the store
#   single/wager_store_url      URL of one Valkey, for WAGER_SECRETS_DIR
#   cluster/wager_store_url     URL of the Valkey Cluster, for WAGER_SECRETS_DIR
#   grafana/password            password of Grafana's admin
#   prometheus/key              API key of Prometheus; write it here yourself if keys are required
set -eu
cd "$1"
mkdir -p single cluster grafana prometheus

random() {
    head -c 24 /dev/urandom | base64 | tr '+/' '-_'
}

# write FILE: writes standard input to the file, atomically.
write() {
    cat > "$1.new"
    chmod 444 "$1.new"
    mv "$1.new" "$1"
}

[ -s password ] || random | write password
[ -s grafana/password ] || random | write grafana/password
# A placeholder of the right form: a service without keys accepts it.
[ -s prometheus/key ] || printf 'wk_%012d_%064d\n' 0 0 | write prometheus/key
echo "redis://:$(cat password)@${VALKEY_HOST:-valkey}:6379/0" | write single/wager_store_url
nodes="${VALKEY_CLUSTER_HOSTS:-valkey-1,valkey-2,valkey-3,valkey-4,valkey-5,valkey-6}" # any of them may be unavailable
echo "redis+cluster://:$(cat password)@$nodes" | write cluster/wager_store_url
