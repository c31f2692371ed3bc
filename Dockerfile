# RAGtune with what replays, tracks, stores and serves need; --build-arg EXTRAS=experiments,models,... brings other parts.
#   docker build -t ragtune . && docker run --rm ragtune run budget=tight tracking=none
FROM docker.io/library/python:3.11-slim
ARG EXTRAS=experiments,postgres,llm,services
RUN useradd --create-home ragtune && mkdir /app /results && chown ragtune /app /results
WORKDIR /app
COPY --chown=ragtune . .
RUN pip install --no-cache-dir --constraint constraints.txt --editable ".[$EXTRAS]"
USER ragtune
ENV RAGTUNE_CACHE=/results/cache
# What is written to results/ of the current folder, as everywhere, is then in the volume.
WORKDIR /
ENTRYPOINT ["ragtune"]
CMD ["--help"]
