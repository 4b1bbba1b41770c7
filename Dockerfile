# Weir's images: `controller`, which people install; `tuner`, which brings torch for tuning; and
# `pipelines`, which brings Spark and Java for the history of metrics.
#
#   make jars && docker build --target controller -t weir:dev .
#   docker build --target pipelines -t weir-pipelines:dev .
#   docker build --target tuner -t weir-tuner:dev --build-arg TORCH_INDEX=URL .
#
# TORCH_INDEX is the index of PyTorch's CPU wheels; without it pip takes the default wheel, which for
# Linux brings some 5 GB of CUDA that Weir does not use.
#
# All run as a user that is not root, on a root file system that may be read-only. What they write
# is under NUMBA_CACHE_DIR, /tmp, and the folder of `weir controller --state`.

ARG PYTHON=python:3.11-slim-bookworm

# What Weir depends on: made anew when a version changes, not when Weir does.
FROM ${PYTHON} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_CONSTRAINT=/src/constraints.txt
WORKDIR /src
RUN python -m venv /opt/weir
COPY pyproject.toml constraints.txt ./
# Weir's own requirements, without Weir: pip has no command for that.
RUN python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
        > /tmp/requirements.txt \
    && /opt/weir/bin/pip install -r /tmp/requirements.txt

# The controller reads the pipelines' tables, where the installation has them read.
FROM dependencies AS history-dependencies
RUN python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["history"], sep="\n")' \
        > /tmp/history.txt \
    && /opt/weir/bin/pip install -r /tmp/history.txt

FROM dependencies AS tuning-dependencies
ARG TORCH_INDEX=
RUN python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["tune"], sep="\n")' \
        > /tmp/tune.txt \
    && if [ -n "$TORCH_INDEX" ]; then /opt/weir/bin/pip install --index-url "$TORCH_INDEX" torch; fi \
    && /opt/weir/bin/pip install -r /tmp/tune.txt

FROM dependencies AS spark-dependencies
RUN python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["spark"], sep="\n")' \
        > /tmp/spark.txt \
    && /opt/weir/bin/pip install -r /tmp/spark.txt

# Weir itself, in a folder that is laid over its dependencies.
FROM dependencies AS weir
COPY README.md LICENSE ./
COPY policies policies
COPY simulator simulator
COPY operator operator
COPY pipelines pipelines
COPY cli cli
COPY scripts/compile_kernels.py scripts/
# What the usual policies compute with is compiled here, once, for any processor; the wheel takes it.
RUN PYTHONPATH=policies:simulator /opt/weir/bin/python scripts/compile_kernels.py planner queueing
RUN /opt/weir/bin/pip wheel --no-deps --wheel-dir /tmp/wheels . \
    && /opt/weir/bin/pip install --no-deps /tmp/wheels/weir-*.whl \
    && /opt/weir/bin/pip install --no-deps --ignore-installed --prefix /overlay /tmp/wheels/weir-*.whl

FROM ${PYTHON} AS base
# The user need not have an entry in /etc/passwd, whatever number the platform gives it: libraries
# that ask for its name find LOGNAME. Each thread's heap keeps what it once held, so there are two
# and not one for each of the threads that ask Prometheus.
ENV PATH=/opt/weir/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/tmp/kernels \
    HOME=/tmp \
    LOGNAME=weir \
    MALLOC_ARENA_MAX=2
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["weir"]

FROM base AS tuner
COPY --from=tuning-dependencies /opt/weir /opt/weir
COPY --from=weir /overlay /opt/weir
CMD ["--help"]

FROM base AS pipelines
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
# Java takes the user's home from here, and Hadoop the user's name, and from nowhere else.
RUN echo 'weir:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd
USER 65532:65532
COPY --from=spark-dependencies /opt/weir /opt/weir
COPY --from=weir /overlay /opt/weir
COPY scripts/start-pipelines /opt/weir/bin/
ENTRYPOINT ["start-pipelines"]
CMD ["pipelines", "--help"]

FROM base AS controller
COPY --from=history-dependencies /opt/weir /opt/weir
COPY --from=weir /overlay /opt/weir
# What JobManagers run to answer a question of Weir's, and the agent that Flink's pods copy from
# here; `make jars` compiles them.
COPY build/jars/weir-programs.jar build/jars/weir-agent.jar build/jars/weir-standby.jar \
    /opt/weir/share/weir/
CMD ["controller", "--json-logs"]
