import assert from "node:assert/strict";
import { test } from "node:test";

import { BackhaulError, type Facts } from "../errors";
import { type Left, retried, RETRIES } from "../retries";

/** A policy whose time passes only by its pauses. */
function policy() {
  const pauses: number[] = [];
  let now = 100;
  const pause = (seconds: number) => {
    pauses.push(seconds);
    now += seconds;
    return Promise.resolve();
  };
  return { ...RETRIES, clock: () => now, pause, random: () => 1, pauses };
}

const failing = (facts: Partial<Facts>, times = Infinity) => {
  const lefts: (number | undefined)[] = [];
  const attempt = (left: Left) => {
    lefts.push(left());
    return lefts.length > times
      ? Promise.resolve("answer")
      : Promise.reject(new BackhaulError("no", { reason: "UNAVAILABLE", code: "UNAVAILABLE", ...facts }));
  };
  return { attempt, lefts };
};

const isUnavailable = (error: unknown) =>
  error instanceof BackhaulError && error.reason === "UNAVAILABLE";

test("what broke is made again after growing pauses, four times at most", async () => {
  const { pauses, ...rest } = policy();
  const { attempt, lefts } = failing({});
  await assert.rejects(retried(attempt, undefined, rest), isUnavailable);
  assert.equal(lefts.length, 4);
  assert.deepEqual(pauses, [0.1, 0.2, 0.4]);
});

test("what the server refuses is not made again", async () => {
  const { pauses, ...rest } = policy();
  const { attempt, lefts } = failing({ reason: "EINSUM_RANK" });
  await assert.rejects(retried(attempt, undefined, rest));
  assert.equal(lefts.length, 1);
  assert.deepEqual(pauses, []);
});

test("a server that says when to come again is asked until the timeout", async () => {
  const { pauses, ...rest } = policy();
  const { attempt, lefts } = failing({ reason: "SERVER_BUSY", retryAfter: 1 }, 6);
  assert.equal(await retried(attempt, 20, rest), "answer");
  assert.equal(lefts.length, 7);
  assert.ok(pauses.every((seconds) => seconds > 1));
  assert.equal(lefts[0], 20);
  assert.ok((lefts[1] ?? 0) < 19);
});

test("no pause goes past the timeout", async () => {
  const { pauses, ...rest } = policy();
  const { attempt } = failing({ reason: "SERVER_BUSY", retryAfter: 3 });
  await assert.rejects(retried(attempt, 5, rest), (error) => (error as BackhaulError).reason === "SERVER_BUSY");
  assert.equal(pauses.length, 1);
});
