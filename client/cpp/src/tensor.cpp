#include <backhaul/tensor.hpp>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <backhaul/error.hpp>

#include "elements.hpp"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Elements travel little endian and are not converted here: this machine has another order of bytes."
#endif

namespace backhaul {

namespace {

struct Element {
  std::string_view name;
  std::size_t size;
};

// By the numbers of DType, from 1 on.
constexpr std::array<Element, 13> elements = {{
    {"bool", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"float32", 4},
    {"float64", 8},
    {"complex64", 8},
    {"complex128", 16},
}};

const Element& element(DType dtype) {
  const auto at = static_cast<std::size_t>(dtype) - 1;  // 0, which is none, becomes the largest number
  if (at >= elements.size()) {
    const std::string number = std::to_string(static_cast<int>(dtype));
    throw Error("DTYPE_NOT_SUPPORTED", Code::invalid_argument,
                "There is no element type of the number " + number + ".", {{"actual", number}});
  }
  return elements[at];
}

}  // namespace

std::string_view name(DType dtype) { return element(dtype).name; }

std::size_t element_size(DType dtype) { return element(dtype).size; }

DType dtype_of_name(std::string_view name) {
  for (std::size_t at = 0; at < elements.size(); ++at) {
    if (elements[at].name == name) return static_cast<DType>(at + 1);
  }
  throw Error("DTYPE_NOT_SUPPORTED", Code::invalid_argument,
              "There is no element type '" + std::string(name) + "'.", {{"actual", std::string(name)}});
}

Tensor Tensor::copied(DType dtype, Shape shape, const void* elements, std::size_t count) {
  const std::size_t size = element_size(dtype);
  const std::optional<std::size_t> expected = detail::bytes_of(dtype, shape);
  if (!expected || *expected != count * size) {
    throw Error("SHAPE_MISMATCH", Code::invalid_argument,
                "The shape has " + (expected ? std::to_string(*expected / size) : "no number of") +
                    " elements, and " + std::to_string(count) + " were given.",
                {{"actual", std::to_string(count)}});
  }
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(count * size);
  if (count != 0) std::memcpy(tensor.bytes.data(), elements, count * size);
  return tensor;
}

void Tensor::check_view(DType asked) const {
  if (asked == dtype) return;
  throw Error("DTYPE_NOT_SUPPORTED", Code::invalid_argument,
              "The tensor is " + std::string(name(dtype)) + " and cannot be seen as " +
                  std::string(name(asked)) + ": nothing is converted. Ask view() for its own type.",
              {{"expected", std::string(name(asked))}, {"actual", std::string(name(dtype))}});
}

void Tensor::check_single(std::size_t count) const {
  if (count == 1) return;
  throw Error("SHAPE_MISMATCH", Code::invalid_argument,
              "item() is of a tensor with one element, and this one has " + std::to_string(count) +
                  ". Use view().",
              {{"expected", "1"}, {"actual", std::to_string(count)}});
}

namespace detail {

std::optional<std::size_t> bytes_of(DType dtype, const Shape& shape) {
  std::size_t bytes = element_size(dtype);
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace detail

}  // namespace backhaul
