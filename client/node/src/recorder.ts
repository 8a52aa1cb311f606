// What was recorded and not sent yet, and which nodes have an error in place of a value.
import type { Step } from "./block";
import { BackhaulError, fromFailure } from "./errors";
import type { ExecuteResponse } from "./messages";

/** The record of a tape. */
export class Recorder {
  #next = 1;
  #pending: Step[] = [];
  readonly #failures = new Map<number, BackhaulError>();

  /** Steps that were not sent, or of which it is not known whether they were run; those of this moment. */
  get pending(): readonly Step[] {
    return [...this.#pending];
  }

  /**
   * Records a step and gives the node of its first result.
   *
   * @throws BackhaulError that of an operand that failed.
   */
  record(step: Omit<Step, "node">): number {
    this.check(step.operands);
    const node = this.#next;
    this.#next += step.results;
    this.#pending.push({ node, ...step });
    return node;
  }

  /** @throws BackhaulError that of the first of these nodes that failed. */
  check(nodes: readonly number[]): void {
    for (const node of nodes) {
      const error = this.#failures.get(node);
      if (error !== undefined) throw error;
    }
  }

  /** These steps were run. */
  committed(steps: readonly Step[], { failures }: ExecuteResponse): void {
    const sent = new Set(steps);
    this.#pending = this.#pending.filter((step) => !sent.has(step));
    for (const failure of failures) {
      const error = fromFailure(failure);
      for (const node of [failure.node, ...failure.dependants]) this.#failures.set(Number(node), error);
    }
    if (failures.length > 0) this.#spread();
  }

  /** The server refuses this step: it and what depends on it are not sent any more. */
  refused(step: Step, error: BackhaulError): void {
    for (let at = 0; at < step.results; at++) this.#failures.set(step.node + at, error);
    this.#pending = this.#pending.filter((each) => each !== step);
    this.#spread();
  }

  #spread(): void {
    this.#pending = this.#pending.filter((step) => {
      const failed = step.operands.find((node) => this.#failures.has(node));
      if (failed === undefined) return true;
      const error = this.#failures.get(failed) as BackhaulError;
      for (let at = 0; at < step.results; at++) this.#failures.set(step.node + at, error);
      return false;
    });
  }
}
