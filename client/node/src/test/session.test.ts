// How a session goes on after errors, against a server that answers as the test says.
import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { connect } from "../connection";
import { BackhaulError } from "../errors";
import { FakeServer, type Reply } from "./fake-server";
import { blockCodec, type ExecuteRequest, type WireTensor } from "../messages";
import type { SessionOptions } from "../session";
import type { Tape } from "../tape";
import type { ConnectOptions } from "../target";
import type { Tensor } from "../tensor";

const ONE: WireTensor = { dtype: "DATA_TYPE_FLOAT64", shape: [], data: Buffer.from(Float64Array.of(1).buffer) };
const VALUE: Reply = { answer: { values: [0], tensors: [ONE] } };
const BROKEN: Reply = { code: status.DEADLINE_EXCEEDED };

const refusing = (reason: string, code = status.INVALID_ARGUMENT, metadata = {}): Reply => ({
  code,
  refusal: { reason, metadata },
});

const BAD = refusing("OPERAND_COUNT");

const reason = (expected: string) => (error: unknown) =>
  error instanceof BackhaulError && error.reason === expected;

const opsOf = (request: ExecuteRequest): string[] => {
  if (!request.block?.block) return [];
  const { calls, steps } = blockCodec.deserialize(Buffer.from(request.block.block));
  return steps.map((at) => calls[at]?.op ?? "");
};

async function withTape(
  replies: Reply[],
  body: (tape: Tape, server: FakeServer) => Promise<void>,
  options: SessionOptions & ConnectOptions = {},
): Promise<void> {
  const server = await FakeServer.start(...replies);
  const connection = connect(server.target, { token: "", ...options });
  try {
    await body(connection.tape(options), server);
    await connection.close();
  } finally {
    server.stop();
  }
}

test("a program and its question are one request, which opens the session", () =>
  withTape(
    [VALUE],
    async (tape, { asked, closed }) => {
      const x = tape.leaf(1);
      const y = tape.apply("sin", [x]);
      assert.equal((await y.value()).item(), 1);
      await tape.close();
      assert.equal(asked.length, 1);
      const { request, session, authorization } = asked[0]!;
      assert.equal(Number(request.seq), 1);
      assert.deepEqual(opsOf(request), ["leaf", "sin"]);
      assert.deepEqual(request.values?.map(Number), [2]);
      assert.equal(request.options?.leaseSeconds, 7);
      assert.equal(session, Buffer.from(request.session.id).toString("hex"));
      assert.equal(authorization, "Bearer secret");
      assert.deepEqual(closed, [session]);
    },
    { token: "secret", leaseSeconds: 7 },
  ));

test("a request in doubt is sent again as the same one, before the next", () =>
  withTape([BROKEN, {}, VALUE], async (tape, { asked }) => {
    const x = tape.leaf(1);
    await assert.rejects(x.value(), reason("DEADLINE_EXCEEDED"));
    const y = tape.apply("sin", [x]);
    await y.value();
    const [first, again, next] = asked.map(({ request }) => request);
    assert.deepEqual([first, again, next].map((each) => Number(each?.seq)), [1, 1, 2]);
    assert.deepEqual(again?.digest, first?.digest);
    assert.deepEqual(again?.block, first?.block);
    assert.notDeepEqual(next?.digest, first?.digest);
    assert.deepEqual(opsOf(next!), ["sin"]);
    assert.deepEqual(next?.block?.inputs.map(Number), [1]);
  }));

test("what was refused for the moment keeps its steps and its number", () =>
  withTape([refusing("UNAUTHENTICATED", status.UNAUTHENTICATED), VALUE], async (tape, { asked }) => {
    const x = tape.leaf(1);
    await assert.rejects(x.value(), reason("UNAUTHENTICATED"));
    assert.equal((await x.value()).item(), 1);
    assert.deepEqual(asked.map(({ request }) => [Number(request.seq), opsOf(request)]), [
      [1, ["leaf"]],
      [1, ["leaf"]],
    ]);
  }));

test("a server that is busy is asked again when it says", () =>
  withTape(
    [{ code: status.RESOURCE_EXHAUSTED, refusal: { reason: "SERVER_BUSY", retryAfter: 0.01 } }, VALUE],
    async (tape, { asked }) => {
      assert.equal((await tape.leaf(1).value()).item(), 1);
      assert.deepEqual(asked[1]?.request.digest, asked[0]?.request.digest);
    },
  ));

test("a refused step fails alone with what depends on it", () =>
  withTape(
    // All; all without the question; the first half; the second; its first half; its second; the question.
    [BAD, BAD, {}, BAD, BAD, {}, VALUE],
    async (tape, { asked }) => {
      const [x, y] = [tape.leaf(1), tape.leaf(2)];
      const bad = tape.apply("add", [x]);
      const good = tape.apply("cos", [y]);
      const after = tape.apply("sin", [bad]);
      await good.value();
      assert.deepEqual(asked.map(({ request }) => opsOf(request)), [
        ["leaf", "leaf", "add", "cos", "sin"],
        ["leaf", "leaf", "add", "cos", "sin"],
        ["leaf", "leaf"],
        ["add", "cos", "sin"],
        ["add"],
        ["cos"],
        [],
      ]);
      assert.deepEqual(asked.map(({ request }) => Number(request.seq)), [1, 1, 1, 2, 2, 2, 3]);
      await assert.rejects(after.value(), reason("OPERAND_COUNT"));
      assert.throws(() => tape.apply("cos", [bad]), reason("OPERAND_COUNT"));
      assert.equal(asked.length, 7);
    },
  ));

test("a refused question leaves its program as it is", () =>
  withTape(
    [refusing("NON_SCALAR_LOSS"), {}, refusing("NON_SCALAR_LOSS"), VALUE],
    async (tape, { asked }) => {
      const x = tape.leaf([1, 2]);
      const y = tape.apply("sin", [x]);
      await assert.rejects(tape.pullback(y), reason("NON_SCALAR_LOSS"));
      await y.value();
      assert.deepEqual(asked.map(({ request }) => opsOf(request)), [["leaf", "sin"], ["leaf", "sin"], [], []]);
    },
  ));

test("a block that the server holds travels as its hash, and as a whole where it does not", () =>
  withTape([VALUE, VALUE, refusing("BLOCK_UNKNOWN", status.FAILED_PRECONDITION), VALUE], async (tape, { asked }) => {
    for (let round = 0; round < 3; round++) await tape.leaf(1).value();
    const sent = asked.map(({ request }) => (request.block?.block?.length ?? 0) > 0);
    assert.deepEqual(sent, [true, false, false, true]);
    assert.equal(new Set(asked.map(({ request }) => Buffer.from(request.block!.hash).toString("hex"))).size, 1);
  }));

test("an answer that is too large comes by a stream, from the same request", () =>
  withTape(
    [refusing("MESSAGE_TOO_LARGE", status.RESOURCE_EXHAUSTED, { too_large: "answer" }), VALUE],
    async (tape, { asked }) => {
      assert.equal((await tape.leaf(1).value()).item(), 1);
      assert.deepEqual(asked.map(({ streamed }) => streamed), [false, true]);
      assert.deepEqual(asked[1]?.request.digest, asked[0]?.request.digest);
    },
  ));

test("large requests go by a stream", () =>
  withTape([VALUE], async (tape, { asked }) => {
    const large = new Float64Array(1 << 19).map((_, at) => at);
    await tape.leaf(large).value();
    assert.ok(asked[0]?.streamed);
    assert.deepEqual(asked[0]?.request.tensors[0]?.data, new Uint8Array(large.buffer));
  }));

test("a failed step is told to who asks for it, and to nobody else", () => {
  const failure = { node: 2, reason: "SINGULAR_MATRIX", message: "It is.", metadata: {}, dependants: [3] };
  return withTape([{ answer: { failures: [failure] } }, VALUE], async (tape, { asked }) => {
    const x = tape.leaf([[0]]);
    const inverse = tape.apply("linalg.inv", [x]);
    const sum = tape.apply("sum", [inverse]);
    await tape.flush();
    await assert.rejects(inverse.value(), reason("SINGULAR_MATRIX"));
    await assert.rejects(tape.pullback(sum), reason("SINGULAR_MATRIX"));
    assert.equal((await x.value()).item(), 1);
    assert.equal(asked.length, 2);
  });
});

test("a session that has ended says so from then on, and is closed without a call", () =>
  withTape([refusing("SESSION_LOST", status.ABORTED)], async (tape, { asked, closed }) => {
    const x = tape.leaf(1);
    await assert.rejects(x.value(), reason("SESSION_LOST"));
    await assert.rejects(x.value(), reason("SESSION_LOST"));
    await tape.close();
    assert.equal(asked.length, 1);
    assert.deepEqual(closed, []);
  }));

test("releases go with the next request, and released tensors are gone", () =>
  withTape([VALUE, VALUE], async (tape, { asked }) => {
    const [x, y] = [tape.leaf(1), tape.leaf(2)];
    tape.release(x);
    assert.throws(() => tape.apply("sin", [x]), reason("MISSING_NODE"));
    await y.value();
    await y.value();
    assert.deepEqual(asked.map(({ request }) => request.release.map(Number)), [[1], []]);
  }));

test("a closed tape takes nothing more; a tensor of another tape is refused", () =>
  withTape([], async (tape, server) => {
    const other = connect(server.target, { token: "" });
    const x = other.tape().leaf(1);
    assert.throws(() => tape.apply("sin", [x]), reason("MISSING_NODE"));
    await other.close();
    await tape.close();
    assert.throws(() => tape.leaf(1), reason("SESSION_CLOSED"));
    await assert.rejects(tape.flush(), reason("SESSION_CLOSED"));
    assert.deepEqual(server.closed, []);
  }));

test("questions of one tape go one after the other", () =>
  withTape([VALUE, VALUE, VALUE], async (tape, { asked }) => {
    const x = tape.leaf(1);
    await Promise.all([x.value(), x.value(), x.value()]);
    assert.deepEqual(asked.map(({ request }) => Number(request.seq)), [1, 2, 3]);
  }));

test("what is recorded while a request runs goes with the next", async () => {
  let record = () => {};
  await withTape([{ ...VALUE, meanwhile: () => record() }, VALUE], async (tape, { asked }) => {
    const x = tape.leaf(1);
    const recorded: Tensor[] = [];
    record = () => recorded.push(tape.apply("sin", [x]));
    await x.value();
    const [y] = recorded;
    assert.equal((await y!.value()).item(), 1);
    assert.deepEqual(asked.map(({ request }) => opsOf(request)), [["leaf"], ["sin"]]);
    assert.deepEqual(asked[1]?.request.block?.inputs.map(Number), [1]);
  });
});

test("closing a tape whose server has gone is no error", async () => {
  const server = await FakeServer.start(VALUE);
  const connection = connect(server.target, { token: "", timeout: 5 });
  const tape = connection.tape();
  await tape.leaf(1).value();
  server.stop();
  await assert.rejects(tape.leaf(1).value(), reason("UNAVAILABLE"));
  await tape.close();
  await connection.close();
});

test("a tape whose first request was refused has no session to close", () =>
  withTape([refusing("UNAUTHENTICATED", status.UNAUTHENTICATED)], async (tape, { closed }) => {
    await assert.rejects(tape.leaf(1).value(), reason("UNAUTHENTICATED"));
    await tape.close();
    assert.deepEqual(closed, []);
  }));
