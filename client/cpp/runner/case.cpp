#include "case.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <backhaul/backhaul.hpp>

#include "base64.hpp"

namespace {

using nlohmann::json;

// Small, so that small vectors take several.
constexpr std::size_t chunk_bytes = 65536;

backhaul::Tensor tensor_of(const json& given) {
  backhaul::Tensor tensor;
  tensor.dtype = backhaul::dtype_of_name(given.at("dtype").get<std::string>());
  tensor.shape = given.at("shape").get<backhaul::Shape>();
  tensor.bytes = from_base64(given.at("data").get<std::string>());
  return tensor;
}

json json_of(const backhaul::Tensor& tensor) {
  return {{"dtype", name(tensor.dtype)}, {"shape", tensor.shape}, {"data", to_base64(tensor.bytes)}};
}

json json_of(const std::vector<backhaul::Tensor>& tensors) {
  json list = json::array();
  for (const backhaul::Tensor& each : tensors) list.push_back(json_of(each));
  return list;
}

// Integers are decimal text.
std::int64_t integer(const json& given) { return std::stoll(given.get<std::string>()); }

backhaul::IntList integers(const json& given) {
  backhaul::IntList numbers;
  for (const json& each : given) numbers.push_back(integer(each));
  return numbers;
}

backhaul::IndexItem index_item(const json& given) {
  if (given.contains("at")) return integer(given["at"]);
  if (given.contains("slice")) {
    const auto part = [&](const char* name) {
      const json value = given["slice"].value(name, json());
      return value.is_null() ? std::nullopt : std::optional<std::int64_t>(integer(value));
    };
    return backhaul::Slice{part("start"), part("stop"), part("step")};
  }
  const std::string mark = given.at("mark").get<std::string>();
  if (mark == "NEW_AXIS") return backhaul::Mark::new_axis;
  if (mark == "ELLIPSIS") return backhaul::Mark::ellipsis;
  if (mark == "ARRAY") return backhaul::Mark::array;
  throw std::invalid_argument("a case has an index with the mark " + mark + ", which no .proto knows");
}

backhaul::Attribute attribute_of(const json& given) {
  if (given.empty()) return {};  // no value, which a case shows to be refused
  const std::string& kind = given.begin().key();
  const json& value = given.begin().value();
  if (kind == "int") return integer(value);
  if (kind == "float") return std::stod(value.get<std::string>());
  if (kind == "bool") return value.get<bool>();
  if (kind == "string") return value.get<std::string>();
  if (kind == "dtype") return backhaul::dtype_of_name(value.get<std::string>());
  if (kind == "ints") return integers(value);
  if (kind == "int_lists") {
    backhaul::IntLists lists;
    for (const json& each : value) lists.push_back(integers(each));
    return lists;
  }
  if (kind == "index") {
    backhaul::Index index;
    for (const json& each : value) index.items.push_back(index_item(each));
    return index;
  }
  throw std::invalid_argument("a case has an attribute of the kind " + kind + ", which no .proto knows");
}

// The nodes of a case by their numbers.
class Nodes {
 public:
  explicit Nodes(backhaul::Tape& tape) : tape_(tape) {}

  void source(const json& given) {
    const backhaul::Tensor value = tensor_of(given.at("value"));
    const json tangent = given.value("tangent", json());
    if (given.at("kind") == "constant") {
      nodes_.push_back(tape_.constant(value));
    } else if (tangent.is_null()) {
      nodes_.push_back(tape_.leaf(value));
    } else {
      nodes_.push_back(tape_.leaf(value, tensor_of(tangent)));
    }
  }

  void call(const json& given) {
    backhaul::Attributes attributes;
    for (const auto& [name, value] : given.at("attributes").items()) attributes.emplace(name, attribute_of(value));
    for (backhaul::Node& each : tape_.apply_several(given.at("op").get<std::string>(), list(given.at("operands")),
                                                    attributes, given.at("results").get<std::uint32_t>())) {
      nodes_.push_back(std::move(each));
    }
  }

  // A node of no tape for a number that the case has no node for.
  backhaul::Node at(const json& number) const {
    const std::size_t index = number.get<std::size_t>();
    return index < nodes_.size() ? nodes_[index] : backhaul::Node();
  }

  std::vector<backhaul::Node> list(const json& numbers) const {
    std::vector<backhaul::Node> found;
    for (const json& each : numbers) found.push_back(at(each));
    return found;
  }

 private:
  backhaul::Tape& tape_;
  std::vector<backhaul::Node> nodes_;
};

json pullback(backhaul::Tape& tape, const Nodes& nodes, const json& ask) {
  const backhaul::Node loss = nodes.at(ask.at("loss"));
  const std::vector<backhaul::Node> wrt = nodes.list(ask.at("wrt"));
  const json cotangent = ask.value("cotangent", json());
  const backhaul::Pullback told =
      cotangent.is_null() ? tape.pullback(loss, wrt) : tape.pullback(loss, wrt, tensor_of(cotangent));
  return {{"value", json_of(told.value)}, {"gradients", json_of(told.gradients)}};
}

json hvp(backhaul::Tape& tape, const Nodes& nodes, const json& ask) {
  std::vector<std::pair<backhaul::Node, backhaul::Tensor>> tangents;
  for (const json& each : ask.at("tangents")) tangents.emplace_back(nodes.at(each.at("of")), tensor_of(each.at("value")));
  const backhaul::Hvp told = tape.hvp(nodes.at(ask.at("loss")), nodes.list(ask.at("wrt")), tangents);
  return {{"value", json_of(told.value)},
          {"gradients", json_of(told.gradients)},
          {"products", json_of(told.products)}};
}

json run(const json& given, backhaul::Tape& tape) {
  Nodes nodes(tape);
  for (const json& each : given.at("sources")) nodes.source(each);
  const json& calls = given.at("calls");
  for (std::size_t at = 0; at < calls.size(); ++at) {
    nodes.call(calls[at]);
    if (given.at("split").get<bool>() && at + 1 < calls.size()) tape.flush();
  }
  const json& ask = given.at("ask");
  const std::vector<backhaul::Node> asked = nodes.list(ask.at("values"));
  json answer = {{"name", given.at("name")}, {"values", json::array()}};
  if (asked.empty()) {
    tape.flush();
  } else {
    answer["values"] = json_of(tape.values(asked));
  }
  if (const json question = ask.value("pullback", json()); !question.is_null()) {
    answer["pullback"] = pullback(tape, nodes, question);
  }
  if (const json question = ask.value("hvp", json()); !question.is_null()) {
    answer["hvp"] = hvp(tape, nodes, question);
  }
  return answer;
}

}  // namespace

json answer_of(const json& given, const backhaul::Connection& connection) {
  backhaul::TapeOptions options;
  if (given.at("chunked").get<bool>()) options.streaming = backhaul::Streaming::always;
  options.chunk_bytes = chunk_bytes;
  try {
    backhaul::Tape tape(connection, options);
    json answer = run(given, tape);
    tape.close();
    return answer;
  } catch (const backhaul::Error& error) {
    return {{"name", given.at("name")},
            {"error", {{"reason", error.reason()}, {"code", name(error.code())}, {"details", error.details()}}}};
  }
}
