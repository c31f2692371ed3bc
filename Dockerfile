# RAGtune with what replays, tracks, stores and serves need; --build-arg EXTRAS=experiments,models,... brings other parts.
#   docker build -t ragtune . && docker run --rm ragtune run budget=tight tracking=none
# The rerank server alone, in front of another one; --build-arg EXTRAS=services,models for a model of its own.
#   docker build -t ragtune-server --target server . && docker run --rm -p 8080:8080 -e RAGTUNE_API_KEY=... \
#       ragtune-server --model http://HOST:PORT --docs 20
FROM docker.io/library/python:3.11-slim AS base
RUN useradd --create-home ragtune && mkdir /app /results && chown ragtune /app /results
WORKDIR /app
COPY --chown=ragtune . .

FROM base AS server
ARG EXTRAS=services,llm,telemetry
RUN pip install --no-cache-dir --constraint constraints.txt --editable ".[$EXTRAS]"
USER ragtune
ENV RAGTUNE_CACHE=/results/cache
WORKDIR /
EXPOSE 8080
HEALTHCHECK --interval=10s --start-period=120s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz')"]
ENTRYPOINT ["ragtune", "serve", "--host", "0.0.0.0", "--store", "memory", "--score-cache", "/results/scores"]

FROM base AS ragtune
ARG EXTRAS=experiments,postgres,llm,services
RUN pip install --no-cache-dir --constraint constraints.txt --editable ".[$EXTRAS]"
USER ragtune
ENV RAGTUNE_CACHE=/results/cache
# What is written to results/ of the current folder, as everywhere, is then in the volume.
WORKDIR /
ENTRYPOINT ["ragtune"]
CMD ["--help"]
