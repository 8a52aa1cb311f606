// How many bytes an array has.
#pragma once

#include <cstddef>
#include <optional>

#include <backhaul/tensor.hpp>

namespace backhaul::detail {

// Bytes of the elements of an array; none where a size is negative or the count too large.
std::optional<std::size_t> bytes_of(DType dtype, const Shape& shape);

}  // namespace backhaul::detail
