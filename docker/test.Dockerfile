# Stand-ins for the images of docker-compose.yml, with their users and paths; docker/test.sh pulls none.
FROM docker.io/library/debian:sid-slim AS valkey
RUN mkdir -p /data && chown 999:999 /data
VOLUME /data
WORKDIR /data

FROM docker.io/library/debian:sid-slim AS haproxy
STOPSIGNAL SIGUSR1
CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]

FROM docker.io/library/debian:sid-slim AS prometheus
RUN mkdir -p /prometheus && chown 65534:65534 /prometheus
VOLUME /prometheus
WORKDIR /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
