# Weir's images: `controller`, which people install; `tuner`, which brings torch for tuning; and
# `pipelines`, which brings Spark and Java for the history of metrics.
#
#   make jars && docker build --target controller -t weir:dev .
#   docker build --target pipelines -t weir-pipelines:dev .
#   docker build --target tuner -t weir-tuner:dev .
#
# All run as a user that is not root, on a root file system that may be read-only. What they write
# is under NUMBA_CACHE_DIR, /tmp, and the folder of `weir controller --state`.
#
# They have of Debian only the packages that `root` names and the libraries of torch: no package
# manager, no pip, and Busybox as shell. docs/decisions/0054 says what else is left out, and why.

ARG DEBIAN=debian:trixie-slim

FROM ${DEBIAN} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 \
    PIP_CONSTRAINT=/src/constraints.txt PIP_PYTHON=/opt/weir/bin/python \
    PATH=/opt/pip/bin:$PATH
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/pip \
    && python3 -m venv --without-pip /opt/weir
WORKDIR /src
COPY constraints.txt ./

# Whether all that the images take from Debian and PyPI is there for arm64, too.
FROM build AS check-arm64
COPY Dockerfile pyproject.toml ./
COPY scripts/check_arm64.py scripts/
RUN scripts/check_arm64.py

# The library of llvmlite, with which Numba compiles.
FROM build AS llvmlite
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        cmake g++ llvm-22-dev make python3-dev zlib1g-dev libzstd-dev \
    && rm -rf /var/lib/apt/lists/*
COPY scripts/build-llvmlite scripts/
RUN scripts/build-llvmlite /wheels

# What Weir depends on: made anew when a version changes, not when Weir does.
FROM build AS dependencies
COPY --from=llvmlite /wheels /wheels
COPY pyproject.toml ./
# Weir's own requirements, without Weir: pip has no command for that.
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
        > /tmp/requirements.txt \
    && pip install --no-index --no-deps /wheels/llvmlite-*.whl \
    && pip install -r /tmp/requirements.txt

# The controller reads the pipelines' tables, where the installation has them read. Of SciPy, it keeps
# what it uses, and what that uses.
FROM dependencies AS history-dependencies
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["history"], sep="\n")' \
        > /tmp/history.txt \
    && pip install -r /tmp/history.txt
COPY scripts/trim-packages scripts/
RUN cd /opt/weir/lib/python3*/site-packages/scipy \
    && rm -r cluster datasets differentiate fftpack integrate interpolate io misc ndimage odr signal stats \
    && /src/scripts/trim-packages ..

FROM dependencies AS spark-dependencies
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["spark"], sep="\n")' \
        > /tmp/spark.txt \
    && pip install -r /tmp/spark.txt
COPY scripts/trim-packages scripts/
RUN scripts/trim-packages /opt/weir/lib/python3*/site-packages

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
RUN pip wheel --no-deps --wheel-dir /tmp/wheels . \
    && pip install --no-deps --no-index --compile --prefix /overlay /tmp/wheels/weir_flink-*.whl

# Java, with the modules that Spark and Hadoop load.
FROM ${DEBIAN} AS java
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils openjdk-21-jdk-headless \
    && jlink --strip-debug --no-header-files --no-man-pages --output /opt/java \
        --add-modules java.se,jdk.crypto.ec,jdk.incubator.vector,jdk.management,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs
# Spark's own scripts are Bash's.
RUN mkdir -p /packages \
    && cd /packages \
    && apt-get download bash libtinfo6 \
    && for package in *.deb; do \
        dpkg-deb --extract "$package" /bash || exit; \
        mkdir -p /bash/var/lib/dpkg/status.d; \
        dpkg-deb --field "$package" > "/bash/var/lib/dpkg/status.d/${package%%_*}" || exit; \
    done \
    && rm -rf /bash/usr/share

# Python, and the libraries that it and the packages load: files of Debian's packages, which need no
# installation.
FROM ${DEBIAN} AS root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && mkdir -p /packages /root-of-image/var/lib/dpkg/status.d \
    && cd /packages \
    && apt-get download base-files netbase media-types tzdata busybox-static \
        libc6 libgcc-s1 libstdc++6 zlib1g libzstd1 libbz2-1.0 liblzma5 libexpat1 libffi8 libuuid1 \
        libsqlite3-0 libssl3t64 \
        python3-minimal python3.13 python3.13-minimal libpython3.13-minimal libpython3.13-stdlib \
    && for package in *.deb; do \
        dpkg-deb --extract "$package" /root-of-image || exit; \
        # Where scanners of images look for the versions of packages.
        dpkg-deb --field "$package" > "/root-of-image/var/lib/dpkg/status.d/${package%%_*}" || exit; \
    done
# Documentation, tables for the C library's conversion of texts, and Python's graphical parts. Busybox
# has a shell, and what the start of Flink's pods and people who look into a container need.
RUN cd /root-of-image \
    && rm -rf usr/share/doc usr/share/man usr/share/lintian usr/share/bug usr/lib/*/gconv \
        usr/lib/python3.13/ensurepip usr/lib/python3.13/idlelib usr/lib/python3.13/pydoc_data \
        usr/lib/python3.13/test usr/lib/python3.13/lib-dynload/_test* usr/lib/python3.13/lib-dynload/xx* \
    && echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd \
    && echo 'root:x:0:' > etc/group \
    && mkdir -p usr/lib/ssl && ln -sf /etc/ssl/certs/ca-certificates.crt usr/lib/ssl/cert.pem \
    && ldconfig -r . \
    && chroot . /usr/bin/busybox --install -s /usr/bin \
    && chroot . /usr/bin/python3 -m compileall -q /usr/lib/python3.13
COPY --from=build /etc/ssl/certs/ca-certificates.crt /root-of-image/etc/ssl/certs/

# Debian's torch, with the faster of Debian's libraries for algebra.
FROM root AS torch
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libopenblas0-pthread python3-torch
COPY scripts/copy-torch scripts/
RUN scripts/copy-torch /root-of-image /libraries /torch/lib/python3.13/site-packages

# Debian's torch computes on processors alone; PyPI's brings 5 GB of CUDA, which Weir does not use. It
# is older than constraints.txt has it, and asks for an older SymPy, so pip must not see these lines.
FROM dependencies AS tuning-dependencies
COPY --from=torch /torch /opt/weir
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["tune"], sep="\n")' \
        > /tmp/tune.txt \
    && sed -E '/^(torch|sympy)==/d' constraints.txt > /tmp/constraints.txt \
    && PIP_CONSTRAINT=/tmp/constraints.txt pip install -r /tmp/tune.txt
COPY scripts/trim-packages scripts/
RUN scripts/trim-packages /opt/weir/lib/python3*/site-packages

FROM scratch AS base
COPY --from=root /root-of-image /
# The user need not have an entry in /etc/passwd, whatever number the platform gives it: libraries
# that ask for its name find LOGNAME. Each thread's heap keeps what it once held, so there are two
# and not one for each of the threads that ask Prometheus.
ENV PATH=/opt/weir/bin:/usr/bin:/usr/sbin \
    LANG=C.UTF-8 \
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
COPY --from=torch /libraries /
COPY --from=tuning-dependencies /opt/weir /opt/weir
COPY --from=weir /overlay /opt/weir
CMD ["--help"]

FROM base AS pipelines
USER root
# Java takes the user's home from here, and Hadoop the user's name, and from nowhere else.
RUN echo 'weir:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd
USER 65532:65532
COPY --from=java /bash /
COPY --from=java /opt/java /opt/java
COPY --from=spark-dependencies /opt/weir /opt/weir
COPY --from=weir /overlay /opt/weir
COPY scripts/start-pipelines /opt/weir/bin/
ENV JAVA_HOME=/opt/java PATH=/opt/weir/bin:/opt/java/bin:/usr/bin:/usr/sbin
ENTRYPOINT ["start-pipelines"]
CMD ["pipelines", "--help"]

FROM base AS controller
COPY --from=history-dependencies /opt/weir /opt/weir
COPY --from=weir /overlay /opt/weir
# What JobManagers run to answer a question of Weir's, and the agent that Flink's pods copy from
# here; `make jars` compiles them.
COPY build/jars/weir-programs.jar build/jars/weir-agent.jar /opt/weir/share/weir/
CMD ["controller", "--json-logs"]
