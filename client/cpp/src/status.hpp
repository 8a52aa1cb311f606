// What gRPC says went wrong, as errors of ours.
#pragma once

#include <string>

#include <backhaul/error.hpp>
#include <grpcpp/support/status.h>

#include "backhaul_proto/v1/graph.pb.h"
#include "backhaul_proto/v1/service.pb.h"

namespace backhaul::detail {

// The server's own error where it sent one; else by the status, from gRPC itself or what stands between.
Error error_of(const grpc::Status& status, const std::string& target);

// A step that failed on its data, told inside an answer.
Error error_of(const v1::Failure& failure);

// The session is not open any more, or was never.
Error session_ended(const std::string& reason, const std::string& message);

}  // namespace backhaul::detail
