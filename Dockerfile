# Every Tidegate service and command in one image: `docker run tidegate xds --help`.
FROM python:3.11-slim

WORKDIR /opt/tidegate
COPY requirements.lock ./
RUN pip install --no-cache-dir --no-deps -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY tidegate ./tidegate
COPY xds_server ./xds_server
COPY controller ./controller
COPY ext_proc ./ext_proc
COPY outcomes ./outcomes
COPY metrics_agent ./metrics_agent
COPY simulator ./simulator
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin tidegate
USER tidegate

ENTRYPOINT ["tidegate"]
CMD ["--help"]
