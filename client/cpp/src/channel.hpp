// Calls to a server: who calls, within which time, and again when they broke.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <backhaul/connection.hpp>
#include <grpcpp/channel.h>

#include "backhaul_proto/v1/service.grpc.pb.h"
#include "known_blocks.hpp"
#include "request.hpp"
#include "retries.hpp"
#include "status.hpp"
#include "target.hpp"

namespace backhaul::detail {

// Threads may share it.
class Channel {
 public:
  Channel(const std::string& target, const ConnectionOptions& options);

  // A call of one message each way, which does no harm when it is made twice. `session` may be empty.
  template <class Ask, class Reply>
  Reply call(grpc::Status (v1::BackhaulService::Stub::*method)(grpc::ClientContext*, const Ask&, Reply*),
             const Ask& ask, const std::string& session, const Deadline& deadline) {
    Reply reply;
    repeat([&] { once(method, ask, session, deadline, reply); }, deadline);
    return reply;
  }

  // Execute or ExecuteStream, with the block where the server does not hold it. Request::in_doubt says afterwards
  // whether a request that failed may have been run.
  Answer execute(Request& request);

  // When a question that is asked now has to be answered.
  Deadline deadline() const { return deadline_after(timeout_); }

 private:
  template <class Ask, class Reply>
  void once(grpc::Status (v1::BackhaulService::Stub::*method)(grpc::ClientContext*, const Ask&, Reply*),
            const Ask& ask, const std::string& session, const Deadline& deadline, Reply& reply) {
    grpc::ClientContext context;
    prepare(context, session, deadline);
    const grpc::Status status = ((*stub_).*method)(&context, ask, &reply);
    if (!status.ok()) throw error_of(status, target_.text);
  }

  void prepare(grpc::ClientContext& context, const std::string& session, const Deadline& deadline) const;
  bool is_large(const Request& request) const;
  Answer attempt(Request& request, const Deadline& deadline);
  Answer send(const Request& request, const Deadline& deadline);
  Answer send_whole(const Request& request, v1::ExecuteRequest& message, const Deadline& deadline);

  Target target_;
  std::string token_;
  std::optional<std::chrono::milliseconds> timeout_;
  std::unique_ptr<v1::BackhaulService::Stub> stub_;
  KnownBlocks known_blocks_;
  std::atomic<std::uint64_t> message_limit_;
};

}  // namespace backhaul::detail
