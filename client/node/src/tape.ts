// Tapes: what a program records and asks.
import { type Attributes, toWireAttributes } from "./attributes";
import { BackhaulError } from "./errors";
import { Gradients, HessianProducts } from "./gradients";
import type { ExecuteResponse } from "./messages";
import { type ArrayInput, fromWire, NdArray } from "./ndarray";
import { Recorder } from "./recorder";
import { type Ask, closed, NOTHING, Session, type SessionOptions } from "./session";
import { Tensor } from "./tensor";
import type { Transport } from "./transport";

/** A reverse-mode tape on a server. Recording sends nothing; a question sends all that it needs, in one request. */
export class Tape {
  readonly #recorder = new Recorder();
  readonly #session: Session;
  readonly #released = new Set<number>();
  #last: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /** Made by `Connection.tape`. */
  constructor(transport: Transport, options: SessionOptions, timeout: number | undefined) {
    this.#session = new Session(transport, this.#recorder, options, timeout);
  }

  /**
   * A tensor that gradients are taken for: float32, float64, complex64 or complex128.
   *
   * @param options.tangent its direction for `hvp`, of its shape and dtype.
   */
  leaf(value: ArrayInput, options: { tangent?: ArrayInput } = {}): Tensor {
    const arrays = [NdArray.from(value)];
    if (options.tangent !== undefined) arrays.push(NdArray.from(options.tangent));
    const op = arrays.length === 1 ? "leaf" : "leaf_with_tangent";
    return this.#record(op, [], {}, 1, arrays)[0];
  }

  /** A tensor without gradient, of any dtype. */
  constant(value: ArrayInput): Tensor {
    return this.#record("constant", [], {}, 1, [NdArray.from(value)])[0];
  }

  /** An einsum in NumPy's notation, such as "ij,jk->ik". */
  einsum(subscripts: string, ...operands: readonly Tensor[]): Tensor {
    return this.apply("einsum", operands, { subscripts });
  }

  /** An op of the catalog (docs/ops.md) with one result. */
  apply(op: string, operands: readonly Tensor[], attributes: Attributes = {}): Tensor {
    return this.#record(op, operands, attributes, 1)[0];
  }

  /** An op with several results, such as "linalg.svd", which has 3. */
  applyMany(op: string, operands: readonly Tensor[], attributes: Attributes, results: number): Tensor[] {
    return this.#record(op, operands, attributes, results);
  }

  /**
   * Sends what was recorded.
   *
   * @throws BackhaulError that of the first step that the server refused.
   */
  async flush(): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#recorder.pending.length > 0 || this.#released.size > 0) await this.#ask(NOTHING);
    });
  }

  /** Values of several tensors in one request. */
  async values(...tensors: readonly Tensor[]): Promise<NdArray[]> {
    const nodes = this.#nodes(tensors);
    const ask = { nodes, arrays: [], build: () => ({ values: nodes }) };
    const answer = await this.#inTurn(() => this.#ask(ask));
    return answer.values.map((at) => tensorAt(answer, at));
  }

  /**
   * The value of a loss and its gradients.
   *
   * @param options.wrt what they are taken for; left out: every leaf that the loss reaches.
   * @param options.cotangent of the loss's shape and dtype: then gradients of Re sum(conj(cotangent) * loss).
   *   Left out: the loss has one element.
   */
  async pullback(
    loss: Tensor,
    options: { wrt?: readonly Tensor[]; cotangent?: ArrayInput } = {},
  ): Promise<Gradients> {
    const [node] = this.#nodes([loss]) as [number];
    const wrt = options.wrt && { nodes: this.#nodes(options.wrt) };
    const arrays = options.cotangent === undefined ? [] : [NdArray.from(options.cotangent)];
    const ask: Ask = {
      nodes: [node, ...(wrt?.nodes ?? [])],
      arrays,
      build: (first) => ({
        pullback: {
          loss: node,
          cotangents: arrays.map((_, at) => ({ tensorIndex: first + at })),
          ...(wrt && { wrt }),
        },
      }),
    };
    const answer = await this.#inTurn(() => this.#ask(ask));
    return new Gradients(tensorAt(answer, answer.lossValue), arraysOf(answer, "gradients"));
  }

  /**
   * The value of a loss of one element, its gradients, and the product of its Hessian with a direction.
   *
   * @param options.wrt what they are taken for; left out: every leaf that the loss reaches.
   * @param options.tangents the direction: tangents of leaves; others are zero. Left out: the tangents that the
   *   leaves were made with.
   */
  async hvp(
    loss: Tensor,
    options: { wrt?: readonly Tensor[]; tangents?: Iterable<readonly [Tensor, ArrayInput]> } = {},
  ): Promise<HessianProducts> {
    const [node] = this.#nodes([loss]) as [number];
    const wrt = options.wrt && { nodes: this.#nodes(options.wrt) };
    const tangents = options.tangents && [...options.tangents];
    const leaves = this.#nodes((tangents ?? []).map(([leaf]) => leaf));
    const ask: Ask = {
      nodes: [node, ...leaves, ...(wrt?.nodes ?? [])],
      arrays: (tangents ?? []).map(([, tangent]) => NdArray.from(tangent)),
      build: (first) => ({
        hvp: {
          loss: node,
          directions: tangents
            ? [{ tangents: leaves.map((leaf, at) => ({ leaf, tangent: { tensorIndex: first + at } })) }]
            : [],
          ...(wrt && { wrt }),
        },
      }),
    };
    const answer = await this.#inTurn(() => this.#ask(ask));
    return new HessianProducts(
      tensorAt(answer, answer.lossValue),
      arraysOf(answer, "gradients"),
      arraysOf(answer, "hvps"),
    );
  }

  /** Lets the server free tensors, with the next request: what gradients still need stays until then. */
  release(...tensors: readonly Tensor[]): void {
    for (const node of this.#nodes(tensors)) this.#released.add(node);
    for (const tensor of tensors) tensor.released = true;
  }

  /**
   * Ends the tape and frees all that it holds on the server, after the questions that are running. Where the server
   * is out of reach, the session's lease does so later.
   */
  close(): Promise<void> {
    if (this.#closing === undefined) {
      const last = this.#last;
      this.#closing = last.then(() => this.#session.close());
    }
    return this.#closing;
  }

  #record(
    op: string,
    operands: readonly Tensor[],
    attributes: Attributes,
    results: number,
    arrays: readonly NdArray[] = [],
  ): [Tensor, ...Tensor[]] {
    if (this.#closing !== undefined) throw closed();
    if (!Number.isSafeInteger(results) || results < 1) {
      throw new BackhaulError(`An op has 1 result or more, not ${results}.`, {
        reason: "INVALID_VALUE",
        code: "INVALID_ARGUMENT",
      });
    }
    const node = this.#recorder.record({
      op,
      operands: this.#nodes(operands),
      attributes: toWireAttributes(attributes),
      results,
      arrays,
    });
    const [first, ...more] = Array.from({ length: results }, (_, at) => new Tensor(this, node + at));
    return [first as Tensor, ...more];
  }

  #nodes(tensors: readonly Tensor[]): number[] {
    return tensors.map((tensor) => {
      if (tensor.tape === this && !tensor.released) return tensor.node;
      const why = tensor.tape === this ? "was released" : "is of another tape";
      throw new BackhaulError(`The tensor ${tensor.node} ${why}.`, {
        reason: "MISSING_NODE",
        code: "NOT_FOUND",
        details: { node: `${tensor.node}` },
      });
    });
  }

  /** Requests of a session go one after the other. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) return Promise.reject(closed());
    const mine = this.#last.then(work);
    this.#last = mine.catch(() => undefined);
    return mine;
  }

  async #ask(ask: Ask): Promise<ExecuteResponse> {
    const released = new Set(this.#released);
    const answer = await this.#session.ask(ask, released);
    for (const node of released) this.#released.delete(node);
    return answer;
  }
}

function tensorAt(answer: ExecuteResponse, at: number): NdArray {
  const tensor = answer.tensors[at];
  if (tensor === undefined) {
    throw new BackhaulError(`The server's answer has no tensor ${at}.`, {
      reason: "INTERNAL",
      code: "INTERNAL",
    });
  }
  return fromWire(tensor);
}

function arraysOf(answer: ExecuteResponse, column: "gradients" | "hvps"): Map<number, NdArray> {
  const [set] = answer.sets;
  return new Map(
    set?.[column].map((at, position) => [Number(set.nodes[position]), tensorAt(answer, at)]) ?? [],
  );
}
