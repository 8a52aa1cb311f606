// Arrays and attributes as they travel, and back.
#pragma once

#include <string>

#include <backhaul/attribute.hpp>
#include <backhaul/tensor.hpp>

#include "backhaul_proto/v1/graph.pb.h"
#include "backhaul_proto/v1/tensor.pb.h"

namespace backhaul::detail {

v1::Tensor tensor_message(const Tensor& tensor);

// An array of an answer without its elements. Throws Error INTERNAL where dtype or shape cannot be.
Tensor empty_tensor(const v1::Tensor& message);

// An array of an answer. Throws Error INTERNAL where its bytes are not as many as its shape says.
Tensor read_tensor(const v1::Tensor& message);

v1::Attribute attribute_message(const std::string& name, const Attribute& attribute);

}  // namespace backhaul::detail
