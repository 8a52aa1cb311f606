// When a call that broke is made again: after pauses that grow, and never past the timeout.
import { setTimeout as sleep } from "node:timers/promises";

import { BackhaulError } from "./errors";

/** The policy. Clock, pause and random source can be others, for tests. */
export interface Retries {
  /** How often a call is made at most; more often, within its timeout, where the server says when to come again. */
  tries: number;
  /** Seconds before the second try, at most; each pause after it may be twice as long. */
  firstPause: number;
  longestPause: number;
  /** Seconds, monotonic. */
  clock(): number;
  pause(seconds: number): Promise<unknown>;
  /** A number from 0 to 1. */
  random(): number;
}

export const RETRIES: Retries = {
  tries: 4,
  firstPause: 0.1,
  longestPause: 2,
  clock: () => performance.now() / 1000,
  pause: (seconds) => sleep(seconds * 1000),
  random: Math.random,
};

/** Seconds that are left. */
export type Left = () => number | undefined;

/**
 * Makes a call, again where it broke.
 *
 * @param attempt makes it within what `left` tells: the seconds that are left at the moment; undefined: as long
 *   as it takes.
 * @param timeout seconds for all attempts.
 * @throws BackhaulError that of the last attempt.
 */
export async function retried<T>(
  attempt: (left: Left) => Promise<T>,
  timeout: number | undefined,
  policy: Retries = RETRIES,
): Promise<T> {
  const started = policy.clock();
  const left: Left = () => timeout && started + timeout - policy.clock();
  for (let count = 1; ; count++) {
    try {
      return await attempt(left);
    } catch (error) {
      if (!(error instanceof BackhaulError) || !mayRepeat(error)) throw error;
      const untilTimeout = error.retryAfter !== undefined && timeout !== undefined;
      if (count >= policy.tries && !untilTimeout) throw error;
      // Half of the pause is fixed, so that a server is never asked again at once.
      const longest = Math.min(policy.longestPause, policy.firstPause * 2 ** (count - 1));
      const pause = (longest * (1 + policy.random())) / 2 + (error.retryAfter ?? 0);
      if (timeout !== undefined && started + timeout - policy.clock() <= pause) throw error;
      await policy.pause(pause);
    }
  }
}

/** Whether nothing answered, what arrived was broken, or the server ran nothing and says when to ask again. */
const mayRepeat = (error: BackhaulError): boolean =>
  ["UNAVAILABLE", "DRAINING", "CHUNK_CHECKSUM"].includes(error.reason) ||
  (error.reason === "SERVER_BUSY" && "streams" in error.details) ||
  error.retryAfter !== undefined;
