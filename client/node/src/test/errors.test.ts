import assert from "node:assert/strict";
import { test } from "node:test";

import { Metadata, type ServiceError, status } from "@grpc/grpc-js";

import { fromFailure, fromServiceError } from "../errors";
import { refusal } from "./fake-server";

const failed = (code: status, details: string, packed?: Buffer): ServiceError => {
  const metadata = new Metadata();
  if (packed) metadata.set("grpc-status-details-bin", packed);
  return Object.assign(new Error(details), { code, details, metadata });
};

test("the server's own reason, facts and pause are read from the status details", () => {
  const packed = refusal({
    reason: "SERVER_BUSY",
    metadata: { streams: "16" },
    message: "Come again.",
    retryAfter: 1.25,
  });
  const error = fromServiceError(failed(status.RESOURCE_EXHAUSTED, "x", packed), "host:1");
  assert.equal(error.reason, "SERVER_BUSY");
  assert.equal(error.code, "RESOURCE_EXHAUSTED");
  assert.deepEqual(error.details, { streams: "16" });
  assert.equal(error.retryAfter, 1.25);
  assert.equal(error.message, "Come again. [SERVER_BUSY]");
  assert.ok(error.fromServer);
});

test("without RetryInfo there is no pause", () => {
  const packed = refusal({ reason: "EINSUM_RANK", metadata: { operand: "0" }, message: "No." });
  const error = fromServiceError(failed(status.INVALID_ARGUMENT, "x", packed), "host:1");
  assert.equal(error.reason, "EINSUM_RANK");
  assert.equal(error.retryAfter, undefined);
});

test("a status of something between takes the reason of its code", () => {
  const foreign = refusal({ reason: "QUOTA", domain: "proxy.example", metadata: {}, message: "No." });
  for (const packed of [undefined, foreign, Buffer.from("no message at all")]) {
    const error = fromServiceError(failed(status.UNAVAILABLE, "refused", packed), "host:1");
    assert.equal(error.reason, "UNAVAILABLE");
    assert.equal(error.code, "UNAVAILABLE");
    assert.deepEqual(error.details, { target: "host:1", status: "UNAVAILABLE" });
    assert.ok(!error.fromServer);
    assert.match(error.message, /host:1 .* \(refused\)/);
  }
});

test("gRPC's own refusal of a large message has a reason of its own", () => {
  const said = "Received message larger than max (5000000 vs. 4194304)";
  assert.equal(fromServiceError(failed(status.RESOURCE_EXHAUSTED, said), "h:1").reason, "MESSAGE_TOO_LARGE");
});

test("a failed step has its reason and facts", () => {
  const error = fromFailure({
    node: "3",
    reason: "SINGULAR_MATRIX",
    message: "It is singular.",
    metadata: { op: "linalg.inv" },
    dependants: [],
  });
  assert.equal(error.reason, "SINGULAR_MATRIX");
  assert.equal(error.code, "INVALID_ARGUMENT");
  assert.deepEqual(error.details, { op: "linalg.inv" });
});
