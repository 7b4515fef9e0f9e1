#!/bin/sh
# valkey.sh OPTION...: valkey-server with docker/valkey.conf, the options, and the password from its file.
set -eu
password="$(cat /run/wager/password)"
# Over standard input, so that the password stands in no list of processes.
exec valkey-server - "$@" <<CONFIG
$(cat /etc/wager/valkey.conf)
requirepass $password
masterauth $password
CONFIG
