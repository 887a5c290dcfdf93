FROM python:3.13-slim

# A plain user, and a volume for the append-only file.
RUN useradd --system --uid 999 --home-dir /data --create-home rillet
WORKDIR /opt/rillet
COPY . .
RUN pip install --no-cache-dir --disable-pip-version-check .

USER rillet
WORKDIR /data
VOLUME /data
EXPOSE 6379
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import socket; s = socket.create_connection(('127.0.0.1', 6379), 2); s.sendall(b'PING\\r\\n'); assert s.recv(5)[:1] in b'+-'"]
# Reachable from other containers: protected mode would refuse them as long as no password is set.
ENTRYPOINT ["rillet", "--bind", "*", "--protected-mode", "no", "--dir", "/data"]
