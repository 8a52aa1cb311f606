import assert from "node:assert/strict";
import { test } from "node:test";

import { BackhaulError } from "../errors";
import { type ConnectOptions, endpointOf } from "../target";

const endpoint = (target: string | undefined, options: ConnectOptions = {}, environment = {}) =>
  endpointOf(target, options, environment);

const refused = (reason: string, run: () => unknown) =>
  assert.throws(run, (error) => error instanceof BackhaulError && error.reason === reason);

test("targets say where to dial, and whether that is this machine", () => {
  const read = (target: string) => {
    const { address, local, credentials } = endpoint(target);
    return [address, local, credentials._isSecure()];
  };
  assert.deepEqual(read("localhost:1"), ["localhost:1", true, false]);
  assert.deepEqual(read("grpc://127.9.9.9:50051"), ["127.9.9.9:50051", true, false]);
  assert.deepEqual(read("grpc://[::1]:50051"), ["[::1]:50051", true, false]);
  assert.deepEqual(read("grpc://10.0.0.1:50051"), ["10.0.0.1:50051", false, false]);
  assert.deepEqual(read("grpcs://tapes.example.org:443"), ["tapes.example.org:443", false, true]);
  assert.deepEqual(read("unix:///run/a b/s"), ["unix:/run/a b/s", true, false]);
});

test("what is no target is refused", () => {
  const wrong = ["", "host", "host:0", "host:65536", "http://host:1", "[1.2.3.4]:1", "::1:1", "unix://s", "a b:1"];
  for (const target of wrong) refused("INVALID_TARGET", () => endpoint(target));
});

test("a token never travels in the clear beyond the loopback", () => {
  refused("PERMISSION_DENIED", () => endpoint("10.0.0.1:1", { token: "secret" }));
  refused("PERMISSION_DENIED", () => endpoint("grpc://example.org:1", {}, { BACKHAUL_TOKEN: "secret" }));
  refused("PERMISSION_DENIED", () => endpoint("localhost.example.org:1", { token: "secret" }));
  assert.equal(endpoint("grpcs://example.org:1", { token: "secret" }).token, "secret");
  assert.equal(endpoint("127.0.0.1:1", { token: "secret" }).token, "secret");
  assert.equal(endpoint("unix:///s", { token: "secret" }).token, "secret");
  assert.equal(endpoint("example.org:1", { token: "" }, { BACKHAUL_TOKEN: "secret" }).token, undefined);
});

test("errors about a token do not show it", () => {
  for (const token of ["two words", "line\n", "ä"]) {
    assert.throws(
      () => endpoint("localhost:1", { token }),
      (error) => error instanceof BackhaulError && error.reason === "INVALID_VALUE" && !error.message.includes(token),
    );
  }
});

test("the environment names the target that is left out", () => {
  assert.equal(endpoint(undefined, {}, { BACKHAUL_TARGET: "localhost:7" }).address, "localhost:7");
  refused("INVALID_TARGET", () => endpoint(undefined));
});

test("options that do not go together are refused", () => {
  refused("INVALID_VALUE", () => endpoint("grpc://localhost:1", { ca: "ca.pem" }));
  refused("INVALID_VALUE", () => endpoint("unix:///s", { ca: "ca.pem" }));
  refused("INVALID_VALUE", () => endpoint("grpcs://h:1", { certificate: "me.crt" }));
  refused("INVALID_VALUE", () => endpoint("grpcs://h:1", { ca: "/nowhere/ca.pem" }));
  refused("INVALID_VALUE", () => endpoint("localhost:1", { timeout: 0 }));
  refused("INVALID_VALUE", () => endpoint("localhost:1", { timeout: Number.NaN }));
});
