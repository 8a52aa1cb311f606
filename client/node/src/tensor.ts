// Handles of values on a tape.
import type { NdArray } from "./ndarray";
import type { Tape } from "./tape";

/** A value on a tape; its elements stay on the server until they are asked for. */
export class Tensor {
  /** Whether `Tape.release` was called for it. */
  released = false;

  /** Made by the tape. */
  constructor(
    readonly tape: Tape,
    /** Its id in the session. */
    readonly node: number,
  ) {}

  /** Its value, asked anew each time. */
  async value(): Promise<NdArray> {
    const [value] = await this.tape.values(this);
    return value as NdArray;
  }
}
