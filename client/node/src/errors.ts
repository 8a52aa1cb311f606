// Errors: one class, with the protocol's stable reason code to branch on.
import { type ServiceError, status } from "@grpc/grpc-js";

import { errorInfoCodec, retryInfoCodec, statusCodec, type WireFailure } from "./messages";

const DOMAIN = "backhaul";

/** What is known of an error beside its words. */
export interface Facts {
  reason: string;
  code: string;
  details?: Readonly<Record<string, string>>;
  retryAfter?: number | undefined;
  fromServer?: boolean;
}

/** The name of a gRPC status that came without the server's own reason: from a proxy, or gRPC itself. */
const REASON_OF_CODE: Readonly<Record<string, string>> = {
  UNAVAILABLE: "UNAVAILABLE",
  DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
  CANCELLED: "CANCELLED",
  RESOURCE_EXHAUSTED: "SERVER_BUSY",
  UNAUTHENTICATED: "UNAUTHENTICATED",
  PERMISSION_DENIED: "PERMISSION_DENIED",
  UNIMPLEMENTED: "VERSION_MISMATCH",
  INVALID_ARGUMENT: "MALFORMED_REQUEST",
};

const HINT_OF_CODE: Readonly<Record<string, string>> = {
  UNAVAILABLE:
    "Check that a server runs there (`backhaul serve`), that the target is right, and with TLS the ca.",
  DEADLINE_EXCEEDED: "Give more time with connect(target, { timeout }), or ask for less at once.",
  UNAUTHENTICATED: "Check the token given to connect(target, { token }).",
  UNIMPLEMENTED: "Check the target, and that both ends have releases that fit together.",
};

/** Every error that this client raises on purpose. */
export class BackhaulError extends Error {
  override readonly name = "BackhaulError";
  /** Stable code, such as "EINSUM_RANK". */
  readonly reason: string;
  /** Name of the gRPC status, such as "INVALID_ARGUMENT". */
  readonly code: string;
  /** Facts by name (`op`, `operand`, `expected`, `actual`, ...). */
  readonly details: Readonly<Record<string, string>>;
  /** Seconds after which the same request may succeed; nothing of it was run. */
  readonly retryAfter: number | undefined;
  /** Whether a backhaul server said so, rather than this client or what stands between. */
  readonly fromServer: boolean;

  constructor(message: string, facts: Facts) {
    super(`${message} [${facts.reason}]`);
    this.reason = facts.reason;
    this.code = facts.code;
    this.details = facts.details ?? {};
    this.retryAfter = facts.retryAfter;
    this.fromServer = facts.fromServer ?? false;
  }
}

/** The error that a failed call is raised as: the server's own where it sent one. */
export function fromServiceError(failed: ServiceError, target: string): BackhaulError {
  const code = status[failed.code] ?? "UNKNOWN";
  const [packed] = failed.metadata?.get("grpc-status-details-bin") ?? [];
  const sent = Buffer.isBuffer(packed) ? fromDetails(packed, code) : undefined;
  if (sent !== undefined) return sent;
  if (code === "RESOURCE_EXHAUSTED" && failed.details.includes("larger than max")) {
    return new BackhaulError(
      `A message is larger than ${target} takes (${failed.details}). Ask for less at once, or start the ` +
        "server with a larger limit (backhaul serve --max-message-bytes).",
      { reason: "MESSAGE_TOO_LARGE", code, details: { target } },
    );
  }
  const hint = HINT_OF_CODE[code];
  const message = `The call to ${target} failed with ${code} (${failed.details}).${hint ? ` ${hint}` : ""}`;
  return new BackhaulError(message, {
    reason: REASON_OF_CODE[code] ?? "INTERNAL",
    code,
    details: { target, status: code },
  });
}

/** The error of a step that failed on its data. It has no status on the wire: they are all of this one. */
export const fromFailure = (failure: WireFailure): BackhaulError =>
  new BackhaulError(failure.message, {
    reason: failure.reason,
    code: "INVALID_ARGUMENT",
    details: failure.metadata,
    fromServer: true,
  });

function fromDetails(packed: Buffer, code: string): BackhaulError | undefined {
  let status: ReturnType<typeof statusCodec.deserialize>;
  try {
    status = statusCodec.deserialize(packed);
  } catch {
    return undefined; // not ours: some proxies put other things there
  }
  const find = (type: string) =>
    status.details.find((each) => each.typeUrl.endsWith(`/google.rpc.${type}`))?.value;
  const packedInfo = find("ErrorInfo");
  const info = packedInfo && errorInfoCodec.deserialize(packedInfo);
  if (!info || info.domain !== DOMAIN) return undefined;
  const packedDelay = find("RetryInfo");
  const delay = packedDelay && retryInfoCodec.deserialize(packedDelay).retryDelay;
  return new BackhaulError(status.message, {
    reason: info.reason,
    code,
    details: info.metadata,
    retryAfter: delay ? Number(delay.seconds) + delay.nanos / 1e9 : undefined,
    fromServer: true,
  });
}
