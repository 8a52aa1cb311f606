// One ExecuteStream: a header and chunks there, a header and chunks back.
#pragma once

#include <string>

#include <grpcpp/client_context.h>

#include "backhaul_proto/v1/service.grpc.pb.h"
#include "request.hpp"

namespace backhaul::detail {

// Sends the request and reads its answer. Throws Error.
Answer converse(v1::BackhaulService::Stub& stub, grpc::ClientContext& context, const Request& request,
                const v1::ExecuteRequest& header, const std::string& target);

}  // namespace backhaul::detail
