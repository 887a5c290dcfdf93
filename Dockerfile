# The wheel is built apart, so that the image holds neither sources nor what built them.
# 3.13 gets security fixes until October 2029, 3.11, which is 5 % faster in the mean (docs/running.md), until October 2027.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --disable-pip-version-check --no-deps --wheel-dir /wheels .

ARG PYTHON
FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Rillet" \
      org.opencontainers.image.description="A Redis-compatible Streams server in Python, for local development and tests" \
      org.opencontainers.image.licenses="MIT"
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --disable-pip-version-check /wheels/*.whl \
    && ln -s rillet /usr/local/bin/redis-server \
    && useradd --system --uid 999 --home-dir /data --create-home rillet
COPY --chmod=755 image/entrypoint image/redis-cli /usr/local/bin/

USER rillet
WORKDIR /data
VOLUME /data
EXPOSE 6379
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["redis-cli", "ping"]
ENTRYPOINT ["entrypoint"]
CMD ["redis-server"]
