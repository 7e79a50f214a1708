# syntax=docker/dockerfile:1
# The server on Node 24, without a build step: production packages and the TypeScript sources, run as the user `node`.

FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
# Without install scripts the npm package `node` brings no second Node; no other package here needs one.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
  && rm -rf node_modules/node node_modules/.bin

FROM node:24-slim
ENV NODE_ENV=production \
  NODE_COMPILE_CACHE=/tmp/compile-cache \
  HOST=0.0.0.0 \
  PORT=3000 \
  LANEKEEPER_DATA_DIR=/data
RUN mkdir /data && chown node:node /data
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY package.json ./
COPY config ./config
COPY channels ./channels
COPY src ./src
USER node
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--max-semi-space-size=16", "src/main.ts"]
