// A session on the server: requests in order, each of whose steps runs exactly once.
import { randomBytes } from "node:crypto";

import { type Step, type WrittenBlock, writeBlock } from "./block";
import { CHUNK_BYTES } from "./chunks";
import { BackhaulError, fromFailure } from "./errors";
import type { ExecuteRequest, ExecuteResponse, Question } from "./messages";
import { type NdArray, toWire } from "./ndarray";
import type { Recorder } from "./recorder";
import { type Left, retried } from "./retries";
import type { Transport } from "./transport";

/** Requests and answers from here on go by streams: faster, and taken whatever the server's limit is. */
const LARGE_BYTES = 4 << 20;

const LONGEST_TIMER = 2 ** 31 - 1;

/** What a tape may ask of its session. */
export interface SessionOptions {
  /** Most bytes that the tape may use on the server; left out: what the server allows. */
  memoryLimit?: number;
  /** Seconds without a call after which the server ends it; left out: what the server allows. */
  leaseSeconds?: number;
  /** Where the tape computes, such as "cuda:0"; left out: the server's default. */
  device?: string;
  /** "always": every request goes by ExecuteStream. "auto", the default: large ones. */
  streaming?: "auto" | "always";
  /** Data of a chunk of a stream, at most 4 MiB; left out: 1 MiB. */
  chunkBytes?: number;
}

/** A question, with the arrays and nodes that it names. */
export interface Ask {
  readonly nodes: readonly number[];
  readonly arrays: readonly NdArray[];
  /** The question's fields; its arrays are the request's tensors from `first` on. */
  build(first: number): Question;
}

export const NOTHING: Ask = { nodes: [], arrays: [], build: () => ({}) };

interface Sent {
  readonly request: ExecuteRequest;
  readonly steps: readonly Step[];
  readonly block: WrittenBlock | undefined;
}

/** A session. One call of it may run at a time. */
export class Session {
  readonly #id = randomBytes(16);
  #epoch: Uint8Array = new Uint8Array();
  #committed = 0;
  /** A request of which it is not known whether it was run. */
  #doubt: Sent | undefined;
  #ended: BackhaulError | undefined;
  #largest = LARGE_BYTES;
  #renewing: NodeJS.Timeout | undefined;

  constructor(
    private readonly transport: Transport,
    private readonly recorder: Recorder,
    private readonly options: SessionOptions,
    private readonly timeout: number | undefined,
  ) {}

  /**
   * Sends all that was recorded, and asks. Steps that the server refuses fail with what depends on them; all
   * others are run.
   *
   * @throws BackhaulError that of the question, or of what it asks for; without a question that of a refused step.
   */
  async ask(ask: Ask, release: ReadonlySet<number>): Promise<ExecuteResponse> {
    await this.#settle();
    const steps = this.recorder.pending;
    this.recorder.check(ask.nodes);
    try {
      return await this.#execute(steps, ask, release);
    } catch (error) {
      if (!isOfWork(error) || steps.length === 0) throw error;
      // Nothing was run. Who is to blame, the question or one of the steps?
      const refusal = ask === NOTHING ? await this.#blame(steps, error) : await this.#runParts(steps);
      if (ask === NOTHING && refusal !== undefined) throw refusal;
      this.recorder.check(ask.nodes);
      return await this.#execute([], ask, release);
    }
  }

  /** Ends the session. One that has ended already, or is out of reach, is no error: its lease ends it. */
  async close(): Promise<void> {
    clearInterval(this.#renewing);
    const open = (this.#committed > 0 || this.#doubt !== undefined) && this.#ended === undefined;
    this.#ended = closed();
    if (!open) return;
    const request = { session: { id: this.#id, epoch: this.#epoch } };
    try {
      await retried(
        (left) => this.transport.unary("closeSession", request, this.#id, left()),
        this.timeout,
      );
    } catch (error) {
      if (!(error instanceof BackhaulError)) throw error;
      if (error.fromServer && !ENDED.includes(error.reason)) throw error;
    }
  }

  /** Runs steps alone; gives the error of the first that was refused. */
  async #runParts(steps: readonly Step[]): Promise<BackhaulError | undefined> {
    const live = new Set(this.recorder.pending);
    const left = steps.filter((step) => live.has(step)); // without those that depend on refused ones
    if (left.length === 0) return undefined;
    try {
      await this.#execute(left, NOTHING, new Set());
      return undefined;
    } catch (error) {
      if (!isOfWork(error)) throw error;
      return await this.#blame(left, error);
    }
  }

  /** Finds the steps that a refusal of these is for, by halves, and runs the others; gives the first's error. */
  async #blame(steps: readonly Step[], error: BackhaulError): Promise<BackhaulError | undefined> {
    const [only, ...more] = steps;
    if (only === undefined) return undefined;
    if (more.length === 0) {
      this.recorder.refused(only, error);
      return error;
    }
    const half = steps.length >> 1;
    const first = await this.#runParts(steps.slice(0, half));
    const second = await this.#runParts(steps.slice(half));
    return first ?? second;
  }

  /** Sends a request in doubt again, without its question: then it is known that its steps were run. */
  async #settle(): Promise<void> {
    if (this.#doubt === undefined) return;
    try {
      await this.#deliver(this.#doubt);
    } catch (error) {
      if (!isOfWork(error)) throw error; // else nothing was run, and its steps are as those not sent
    }
  }

  async #execute(
    steps: readonly Step[],
    ask: Ask,
    release: ReadonlySet<number>,
  ): Promise<ExecuteResponse> {
    const [first, ...more] = steps;
    const block = first === undefined ? undefined : writeBlock([first, ...more]);
    const arrays = [...(block?.arrays ?? []), ...ask.arrays];
    const seq = this.#committed + 1;
    const request: ExecuteRequest = {
      session: { id: this.#id, epoch: this.#epoch },
      seq,
      digest: randomBytes(16),
      release: [...release],
      maxResponseBytes: LARGE_BYTES,
      tensors: arrays.map(toWire),
      ...ask.build(block?.arrays.length ?? 0),
      ...(block && { block: { hash: block.hash, baseId: block.baseId, inputs: block.inputs } }),
      ...(seq === 1 && {
        options: {
          memoryLimit: this.options.memoryLimit ?? 0,
          leaseSeconds: this.options.leaseSeconds ?? 0,
          device: this.options.device ?? "",
        },
      }),
    };
    return await this.#deliver({ request, steps, block });
  }

  async #deliver(sent: Sent): Promise<ExecuteResponse> {
    if (this.#ended !== undefined) throw this.#ended;
    const { request, steps, block } = sent;
    let answer: ExecuteResponse;
    try {
      answer = await retried((left) => this.#withBlock(request, block, left), this.timeout);
    } catch (error) {
      if (!(error instanceof BackhaulError)) throw error;
      if (ENDED.includes(error.reason)) this.#ended = error;
      this.#doubt = mayHaveBeenRun(error) ? withoutQuestion(sent) : undefined;
      throw error;
    }
    this.#doubt = undefined;
    this.#committed = request.seq;
    this.#epoch = answer.epoch;
    if (block !== undefined) this.transport.noteBlock(block.hash);
    this.recorder.committed(steps, answer);
    if (answer.limits) this.#opened(Number(answer.limits.maxMessageBytes), answer.limits.leaseSeconds);
    if (answer.questionFailure) throw fromFailure(answer.questionFailure);
    return answer;
  }

  /** With the block's bytes, unless the server is believed to hold them. */
  async #withBlock(
    request: ExecuteRequest,
    block: WrittenBlock | undefined,
    left: Left,
  ): Promise<ExecuteResponse> {
    if (request.block === undefined || block === undefined) return await this.#call(request, left);
    const whole = { ...request, block: { ...request.block, block: block.bytes } };
    if (!this.transport.knows(block.hash)) return await this.#call(whole, left);
    try {
      return await this.#call(request, left);
    } catch (error) {
      if (!(error instanceof BackhaulError) || error.reason !== "BLOCK_UNKNOWN") throw error;
      this.transport.forgetBlock(block.hash);
      return await this.#call(whole, left);
    }
  }

  async #call(request: ExecuteRequest, left: Left): Promise<ExecuteResponse> {
    const stream = () =>
      this.transport.executeStream(request, this.options.chunkBytes ?? CHUNK_BYTES, left());
    const large = byteEstimate(request) > Math.min(this.#largest, LARGE_BYTES);
    if (large || this.options.streaming === "always") return await stream();
    try {
      return await this.transport.unary<ExecuteResponse>("execute", request, this.#id, left());
    } catch (error) {
      if (!(error instanceof BackhaulError) || error.reason !== "MESSAGE_TOO_LARGE") throw error;
      // Either nothing was run, or all of it and its answer is waiting: the same request asks for it.
      return await stream();
    }
  }

  #opened(maxMessageBytes: number, leaseSeconds: number): void {
    this.#largest = maxMessageBytes;
    if (leaseSeconds === 0 || this.#renewing !== undefined) return;
    // A tape that nobody holds any more is not renewed, and its session ends with its lease.
    const weak = new WeakRef(this);
    const timer = setInterval(
      () => {
        const session = weak.deref();
        if (session === undefined) clearInterval(timer);
        else void session.#renew();
      },
      Math.min((leaseSeconds * 1000) / 3, LONGEST_TIMER),
    );
    this.#renewing = timer.unref();
  }

  async #renew(): Promise<void> {
    const sessions = [{ id: this.#id, answered: this.#committed }];
    try {
      await this.transport.unary("renewLease", { epoch: this.#epoch, sessions }, this.#id, 10);
    } catch {
      // The next renewal may come through; if the session has ended, the next question tells.
    }
  }
}

const ENDED = ["SESSION_CLOSED", "SESSION_EXPIRED", "SESSION_LOST", "SESSION_NOT_FOUND"];

/** Whether what was asked was refused for itself, not for the caller, the session or the moment. */
function isOfWork(error: unknown): error is BackhaulError {
  if (!(error instanceof BackhaulError) || error.retryAfter !== undefined) return false;
  if (error.reason === "MESSAGE_TOO_LARGE") return true; // which gRPC itself tells
  const byCode = ["INVALID_ARGUMENT", "UNIMPLEMENTED", "INTERNAL"].includes(error.code);
  const byReason = ["MEMORY_LIMIT_EXCEEDED", "MISSING_NODE"].includes(error.reason);
  return error.fromServer && (byCode || byReason);
}

/** Whether the request may have been run though it failed. What the server itself refuses was not. */
function mayHaveBeenRun(error: BackhaulError): boolean {
  if (error.reason === "MESSAGE_TOO_LARGE") return false;
  const broken = ["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "DATA_LOSS"];
  return !error.fromServer || broken.includes(error.code);
}

/** The same request, so that its steps run once, but nobody waits for its answers any more. */
function withoutQuestion({ request, steps, block }: Sent): Sent {
  const { values, pullback, hvp, ...rest } = request;
  const tensors = rest.tensors.slice(0, block?.arrays.length ?? 0);
  return { request: { ...rest, tensors }, steps, block };
}

/** At least the bytes of the message. */
function byteEstimate(request: ExecuteRequest): number {
  const numbers =
    request.release.length + (request.values?.length ?? 0) + (request.block?.inputs.length ?? 0);
  const arrays = request.tensors.reduce(
    (sum, { data, shape }) => sum + (data?.length ?? 0) + 10 * shape.length + 32,
    0,
  );
  return arrays + (request.block?.block?.length ?? 0) + 10 * numbers + 1024;
}

/** The error of a tape that its program closed. */
export const closed = (): BackhaulError =>
  new BackhaulError("The tape was closed; make a new one.", {
    reason: "SESSION_CLOSED",
    code: "FAILED_PRECONDITION",
  });
