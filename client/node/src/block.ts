// Blocks: recorded steps as a function of numbered inputs, in the columns of the protocol.
import { createHash } from "node:crypto";

import { blockCodec, type WireAttribute, type WireCall } from "./messages";
import type { NdArray } from "./ndarray";

/** A recorded step. */
export interface Step {
  /** Id of its first result; further ones count on. */
  readonly node: number;
  readonly results: number;
  readonly op: string;
  readonly attributes: readonly WireAttribute[];
  /** Nodes of the session. */
  readonly operands: readonly number[];
  /** Arrays that travel with it: those of a leaf or constant. */
  readonly arrays: readonly NdArray[];
}

/** A block that can be sent. */
export interface WrittenBlock {
  readonly hash: Uint8Array;
  readonly bytes: Uint8Array;
  /** Id of its first result. */
  readonly baseId: number;
  /** Nodes that its inputs stand for. */
  readonly inputs: number[];
  readonly arrays: NdArray[];
}

/**
 * Writes steps in the order of their nodes. Ids between them that no step has stay unused.
 *
 * @param steps at least one.
 */
export function writeBlock(steps: readonly [Step, ...Step[]]): WrittenBlock {
  const baseId = steps[0].node;
  const inputs = new Map<number, number>();
  for (const { operands } of steps) {
    for (const node of operands) {
      if (node < baseId && !inputs.has(node)) inputs.set(node, inputs.size);
    }
  }
  const local = (node: number): number => inputs.get(node) ?? inputs.size + node - baseId;

  const calls: WireCall[] = [];
  const known = new Map<string, number>();
  const order: number[] = [];
  const add = (call: WireCall): void => {
    const key = keyOf(call);
    let at = known.get(key);
    if (at === undefined) {
      at = calls.push(call) - 1;
      known.set(key, at);
    }
    order.push(at);
  };

  const operands: number[] = [];
  let next = baseId;
  for (const step of steps) {
    const unused = step.node - next;
    if (unused > 0) add({ op: "skip", operandCount: 0, resultCount: unused, attributes: [] });
    add({
      op: step.op,
      operandCount: step.operands.length,
      resultCount: step.results,
      attributes: [...step.attributes],
    });
    for (const node of step.operands) operands.push(local(node));
    next = step.node + step.results;
  }
  const bytes = blockCodec.serialize({ inputCount: inputs.size, calls, steps: order, operands });
  return {
    hash: createHash("sha256").update(bytes).digest(),
    bytes,
    baseId,
    inputs: [...inputs.keys()],
    arrays: steps.flatMap((step) => [...step.arrays]),
  };
}

/** Equal for equal calls. JSON alone has no -0, NaN and infinities. */
const keyOf = (call: WireCall): string =>
  JSON.stringify(call, (_, value: unknown) =>
    typeof value === "number" ? (Object.is(value, -0) ? "-0" : `${value}`) : value,
  );
