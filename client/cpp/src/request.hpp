// A request of Execute, whichever way it travels, and its answer.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <backhaul/tensor.hpp>

#include "backhaul_proto/v1/service.pb.h"

namespace backhaul::detail {

struct Request {
  v1::ExecuteRequest message;                        // without tensors, and without the block's bytes
  std::string block;                                 // these
  std::vector<std::shared_ptr<v1::Tensor>> tensors;  // shared with the steps, which send them again if refused
  bool stream = false;                               // by ExecuteStream, whatever its size
  std::size_t chunk_bytes = 0;
  bool in_doubt = false;  // it may have been run
};

struct Answer {
  v1::ExecuteResponse message;  // without tensors
  std::vector<Tensor> tensors;

  // Throws Error INTERNAL where there is none of this index.
  Tensor take(std::size_t index) const;
};

}  // namespace backhaul::detail
