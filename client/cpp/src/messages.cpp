#include "messages.hpp"

#include <cstring>

#include <backhaul/error.hpp>

#include "elements.hpp"

namespace backhaul::detail {

namespace {

[[noreturn]] void no_answer(const std::string& why) {
  throw Error("INTERNAL", Code::internal,
              "The server's answer cannot be read: " + why + ". Its version may not fit this client's.");
}

v1::IndexItem item_message(const IndexItem& item) {
  v1::IndexItem message;
  if (const auto* at = std::get_if<std::int64_t>(&item)) {
    message.set_at(*at);
  } else if (const auto* slice = std::get_if<Slice>(&item)) {
    v1::IndexSlice& parts = *message.mutable_slice();
    if (slice->start) parts.set_start(*slice->start);
    if (slice->stop) parts.set_stop(*slice->stop);
    if (slice->step) parts.set_step(*slice->step);
  } else {
    message.set_mark(static_cast<v1::IndexMark>(std::get<Mark>(item)));
  }
  return message;
}

// Sets the field of the attribute's kind.
struct ValueWriter {
  v1::Attribute& message;

  void operator()(std::monostate) const {}
  void operator()(std::int64_t number) const { message.set_int_value(number); }
  void operator()(double number) const { message.set_float_value(number); }
  void operator()(bool truth) const { message.set_bool_value(truth); }
  void operator()(const std::string& text) const { message.set_string_value(text); }
  void operator()(DType dtype) const { message.set_dtype_value(static_cast<v1::DataType>(dtype)); }
  void operator()(const IntList& numbers) const { fill(*message.mutable_ints_value(), numbers); }
  void operator()(const IntLists& lists) const {
    v1::IntLists& written = *message.mutable_int_lists_value();
    for (const IntList& each : lists) fill(*written.add_lists(), each);
  }
  void operator()(const Index& index) const {
    v1::Index& written = *message.mutable_index_value();
    for (const IndexItem& each : index.items) *written.add_items() = item_message(each);
  }

  static void fill(v1::IntList& written, const IntList& numbers) {
    written.mutable_values()->Add(numbers.begin(), numbers.end());
  }
};

}  // namespace

v1::Tensor tensor_message(const Tensor& tensor) {
  v1::Tensor message;
  message.set_dtype(static_cast<v1::DataType>(tensor.dtype));
  message.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  message.set_data(tensor.bytes.data(), tensor.bytes.size());
  return message;
}

Tensor empty_tensor(const v1::Tensor& message) {
  Tensor tensor;
  tensor.dtype = static_cast<DType>(message.dtype());
  tensor.shape.assign(message.shape().begin(), message.shape().end());
  if (message.dtype() < v1::DATA_TYPE_BOOL || message.dtype() > v1::DATA_TYPE_COMPLEX128) {
    no_answer("an array has an unknown element type");
  }
  if (!bytes_of(tensor.dtype, tensor.shape)) no_answer("an array has a shape that cannot be");
  return tensor;
}

Tensor read_tensor(const v1::Tensor& message) {
  Tensor tensor = empty_tensor(message);
  const std::string& data = message.data();
  if (data.size() != *bytes_of(tensor.dtype, tensor.shape)) {
    no_answer("an array has another number of bytes than its shape says");
  }
  tensor.bytes.resize(data.size());
  if (!data.empty()) std::memcpy(tensor.bytes.data(), data.data(), data.size());
  return tensor;
}

v1::Attribute attribute_message(const std::string& name, const Attribute& attribute) {
  v1::Attribute message;
  message.set_name(name);
  std::visit(ValueWriter{message}, attribute.value());
  return message;
}

}  // namespace backhaul::detail
