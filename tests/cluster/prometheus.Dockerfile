# A Prometheus server for the tests of a cluster without a registry; elsewhere the official image
# serves (WEIR_TEST_PROMETHEUS_IMAGE). The context is a folder with the program.
FROM debian:bookworm-slim
COPY prometheus /bin/prometheus
USER 65534
ENTRYPOINT ["/bin/prometheus"]
