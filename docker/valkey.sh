#!/bin/sh
# valkey.sh OPTION...: runs valkey-server with docker/valkey.conf, the options, and the password from its file.
set -eu
password="$(cat /run/wager/password)"
# The configuration comes by standard input, so that a list of processes does not show the password.
exec valkey-server - "$@" <<CONFIG
$(cat /etc/wager/valkey.conf)
requirepass $password
masterauth $password
CONFIG
