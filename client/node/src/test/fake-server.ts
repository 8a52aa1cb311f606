// A server that answers as a test says, and keeps what it was asked.
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";

import { Incoming, outgoing } from "../chunks";
import {
  BackhaulService,
  errorInfoCodec,
  type ExecuteRequest,
  type ExecuteResponse,
  retryInfoCodec,
  statusCodec,
  type StreamRequest,
  type StreamResponse,
} from "../messages";

interface Refusal {
  reason: string;
  message?: string;
  domain?: string;
  metadata?: Record<string, string>;
  retryAfter?: number;
}

/** The bytes of grpc-status-details-bin. */
export function refusal({ reason, message = "No.", domain = "backhaul", metadata = {}, retryAfter }: Refusal): Buffer {
  const any = (type: string, value: Buffer) => ({ typeUrl: `type.googleapis.com/google.rpc.${type}`, value });
  const details = [any("ErrorInfo", errorInfoCodec.serialize({ reason, domain, metadata }))];
  if (retryAfter !== undefined) {
    const seconds = Math.floor(retryAfter);
    const retryDelay = { seconds, nanos: Math.round((retryAfter - seconds) * 1e9) };
    details.push(any("RetryInfo", retryInfoCodec.serialize({ retryDelay })));
  }
  return statusCodec.serialize({ code: 0, message, details });
}

/** What is answered: a response's fields, or an error; `meanwhile` is called before it is. */
export type Reply = { meanwhile?: () => void } & (
  | { answer?: Partial<ExecuteResponse> }
  | { code: status; refusal?: Refusal }
);

export interface Asked {
  request: ExecuteRequest;
  streamed: boolean;
  authorization: string | undefined;
  session: string | undefined;
}

/** A server that gives the replies one after the other, and afterwards empty answers. */
export class FakeServer {
  readonly asked: Asked[] = [];
  readonly closed: string[] = [];
  target = "";
  readonly #server = new Server({ "grpc.max_receive_message_length": -1 });
  readonly #replies: Reply[];

  private constructor(replies: Reply[]) {
    this.#replies = replies;
    this.#server.addService(BackhaulService.service, {
      execute: (call: ServerUnaryCall<ExecuteRequest, ExecuteResponse>, done: sendUnaryData<object>) => {
        const reply = this.#reply(call.request, call.metadata, false);
        if ("code" in reply) done(errorOf(reply));
        else done(null, { epoch: Buffer.from("e"), ...reply.answer });
      },
      executeStream: (call: ServerDuplexStream<StreamRequest, StreamResponse>) => {
        const incoming = new Incoming(); // puts tensors together, of requests as well
        call.on("data", (part: StreamResponse) => incoming.add(part));
        call.on("end", () => {
          const request = incoming.finish() as unknown as ExecuteRequest;
          const reply = this.#reply(request, call.metadata, true);
          if ("code" in reply) {
            call.emit("error", errorOf(reply));
            return;
          }
          const answer = { epoch: Buffer.from("e"), tensors: [], ...reply.answer };
          for (const part of outgoing(answer as unknown as ExecuteRequest, 3)) {
            call.write(part as unknown as StreamResponse);
          }
          call.end();
        });
      },
      closeSession: (call: ServerUnaryCall<{ session: { id: Buffer } }, object>, done: sendUnaryData<object>) => {
        this.closed.push(call.request.session.id.toString("hex"));
        done(null, {});
      },
    });
  }

  static async start(...replies: Reply[]): Promise<FakeServer> {
    const fake = new FakeServer(replies);
    const port = await new Promise<number>((resolve, reject) =>
      fake.#server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    fake.target = `127.0.0.1:${port}`;
    return fake;
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  #reply(request: ExecuteRequest, metadata: Metadata, streamed: boolean): Reply {
    const [authorization] = metadata.get("authorization") as string[];
    const [session] = metadata.get("backhaul-session") as string[];
    this.asked.push({ request, streamed, authorization, session });
    const reply = this.#replies.shift() ?? {};
    reply.meanwhile?.();
    return reply;
  }
}

function errorOf(reply: { code: status; refusal?: Refusal }): Error & { code: status } {
  const metadata = new Metadata();
  if (reply.refusal) metadata.set("grpc-status-details-bin", refusal(reply.refusal));
  return Object.assign(new Error("no"), { code: reply.code, details: "no", metadata });
}
