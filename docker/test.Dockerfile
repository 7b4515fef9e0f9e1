# Stand-ins for the images that docker/test.sh cannot pull, with the users and the paths of the real ones.
FROM docker.io/library/python:3.11-slim-bookworm AS valkey
COPY valkey-server /usr/local/bin/
RUN ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli && mkdir -p /data && chown 999:999 /data
VOLUME /data
WORKDIR /data

FROM docker.io/library/python:3.11-slim-bookworm AS haproxy
STOPSIGNAL SIGUSR1
CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
