// Static arguments of ops.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <backhaul/tensor.hpp>

namespace backhaul {

// start:stop:step as in Python; what is left out is Python's None.
struct Slice {
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> stop = {};
  std::optional<std::int64_t> step = {};
};

// An entry of an index that is neither an integer nor a slice.
enum class Mark {
  new_axis = 1,  // a new axis of size 1
  ellipsis = 2,  // as many whole axes as the other entries leave
  array = 3,     // the next of the index arrays among the operands
};

using IndexItem = std::variant<std::int64_t, Slice, Mark>;

// What stands between the brackets of x[...], with NumPy's meaning.
struct Index {
  std::vector<IndexItem> items;
};

using IntList = std::vector<std::int64_t>;
using IntLists = std::vector<IntList>;

// The value of an attribute. docs/ops.md says which names and types an op takes.
class Attribute {
 public:
  using Value = std::variant<std::monostate, std::int64_t, double, bool, std::string, DType, IntList, IntLists, Index>;

  // No value, which the server refuses.
  Attribute() = default;
  // Any arithmetic type keeps its kind: bool, integer, or float.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Attribute(T number) : value_(of_number(number)) {}
  Attribute(const char* text) : value_(std::string(text)) {}
  Attribute(std::string text) : value_(std::move(text)) {}
  Attribute(DType dtype) : value_(dtype) {}
  Attribute(IntList numbers) : value_(std::move(numbers)) {}
  Attribute(IntLists lists) : value_(std::move(lists)) {}
  Attribute(Index index) : value_(std::move(index)) {}

  const Value& value() const { return value_; }

 private:
  template <class T>
  static Value of_number(T number) {
    if constexpr (std::is_same_v<T, bool>) return Value(std::in_place_type<bool>, number);
    else if constexpr (std::is_integral_v<T>) return Value(std::in_place_type<std::int64_t>, number);
    else return Value(std::in_place_type<double>, number);
  }

  Value value_;
};

using Attributes = std::map<std::string, Attribute>;

}  // namespace backhaul
