#include <backhaul/tape.hpp>

#include <utility>

#include <backhaul/error.hpp>

#include "messages.hpp"
#include "session.hpp"

namespace backhaul {

namespace {

using detail::Answer;
using detail::Handle;
using detail::Request;
using detail::Session;
using detail::Step;

// Adds an array of a question to the request: its index.
std::uint32_t add_tensor(Request& request, const Tensor& tensor) {
  request.tensors.push_back(std::make_shared<v1::Tensor>(detail::tensor_message(tensor)));
  return static_cast<std::uint32_t>(request.tensors.size() - 1);
}

std::vector<Tensor> tensors_of(const Answer& answer, const google::protobuf::RepeatedField<std::uint32_t>& indices) {
  std::vector<Tensor> taken;
  taken.reserve(static_cast<std::size_t>(indices.size()));
  for (const std::uint32_t index : indices) taken.push_back(answer.take(index));
  return taken;
}

// The only set of gradients of an answer.
const v1::IndexedGradients& set_of(const Answer& answer) {
  if (answer.message.sets_size() == 1) return answer.message.sets(0);
  throw Error("INTERNAL", Code::internal, "The server's answer has " + std::to_string(answer.message.sets_size()) +
                                              " sets of gradients, and one was asked. Its version may not fit.");
}

}  // namespace

Tape::Tape(const Connection& connection, TapeOptions options)
    : session_(std::make_shared<Session>(connection.channel_, options)) {}

Tape::~Tape() {
  if (session_) session_->abandon();
}

Tape::Tape(Tape&&) noexcept = default;

Tape& Tape::operator=(Tape&& other) noexcept {
  if (this != &other) {
    if (session_) session_->abandon();
    session_ = std::move(other.session_);
  }
  return *this;
}

Node Tape::leaf(const Tensor& value) { return source("leaf", {&value}); }

Node Tape::leaf(const Tensor& value, const Tensor& tangent) {
  return source("leaf_with_tangent", {&value, &tangent});
}

Node Tape::constant(const Tensor& value) { return source("constant", {&value}); }

Node Tape::einsum(const std::string& subscripts, const std::vector<Node>& operands) {
  return apply("einsum", operands, {{"subscripts", subscripts}});
}

Node Tape::apply(const std::string& op, const std::vector<Node>& operands, const Attributes& attributes) {
  return apply_several(op, operands, attributes, 1).front();
}

std::vector<Node> Tape::apply_several(const std::string& op, const std::vector<Node>& operands,
                                      const Attributes& attributes, std::uint32_t results) {
  if (results == 0) {
    throw Error("INVALID_VALUE", Code::invalid_argument, "An op has one result or more; 0 were asked.");
  }
  Session& session = open();
  Step step;
  step.call.set_op(op);
  step.call.set_operand_count(static_cast<std::uint32_t>(operands.size()));
  step.call.set_result_count(results);
  for (const auto& [name, value] : attributes) {
    *step.call.add_attributes() = detail::attribute_message(name, value);
  }
  for (const Node& each : operands) {
    check(each);
    step.operands.push_back(each.handle_);
  }
  std::vector<Node> nodes;
  for (std::shared_ptr<Handle>& each : session.record(std::move(step), results)) {
    nodes.push_back(Node(std::move(each)));
  }
  return nodes;
}

void Tape::flush() { open().flush(); }

Tensor Tape::value(const Node& node) { return std::move(values({node}).front()); }

std::vector<Tensor> Tape::values(const std::vector<Node>& nodes) {
  Session& session = open();
  for (const Node& each : nodes) check(each);
  const Answer answer = session.ask([&](Request& request) {
    for (const Node& each : nodes) request.message.add_values(each.handle_->id);
  });
  std::vector<Tensor> taken = tensors_of(answer, answer.message.values());
  if (taken.size() == nodes.size()) return taken;
  throw Error("INTERNAL", Code::internal, "The server answered another number of values than was asked.");
}

Pullback Tape::pullback(const Node& loss, const std::vector<Node>& wrt) { return pulled_back(loss, wrt, nullptr); }

Pullback Tape::pullback(const Node& output, const std::vector<Node>& wrt, const Tensor& cotangent) {
  return pulled_back(output, wrt, &cotangent);
}

Pullback Tape::pulled_back(const Node& output, const std::vector<Node>& wrt, const Tensor* cotangent) {
  Session& session = open();
  check(output);
  for (const Node& each : wrt) check(each);
  const Answer answer = session.ask([&](Request& request) {
    v1::PullbackQuestion& question = *request.message.mutable_pullback();
    question.set_loss(output.handle_->id);
    v1::Wrt& asked = *question.mutable_wrt();
    for (const Node& each : wrt) asked.add_nodes(each.handle_->id);
    if (cotangent != nullptr) question.add_cotangents()->set_tensor_index(add_tensor(request, *cotangent));
  });
  return {answer.take(answer.message.loss_value()), tensors_of(answer, set_of(answer).gradients())};
}

Hvp Tape::hvp(const Node& loss, const std::vector<Node>& wrt) { return hvp(loss, wrt, {}); }

Hvp Tape::hvp(const Node& loss, const std::vector<Node>& wrt, const std::vector<std::pair<Node, Tensor>>& tangents) {
  Session& session = open();
  check(loss);
  for (const Node& each : wrt) check(each);
  for (const auto& [leaf, tangent] : tangents) check(leaf);
  const Answer answer = session.ask([&](Request& request) {
    v1::HvpQuestion& question = *request.message.mutable_hvp();
    question.set_loss(loss.handle_->id);
    v1::Wrt& asked = *question.mutable_wrt();
    for (const Node& each : wrt) asked.add_nodes(each.handle_->id);
    if (tangents.empty()) return;
    v1::Direction& direction = *question.add_directions();
    for (const auto& [leaf, tangent] : tangents) {
      v1::LeafTangent& along = *direction.add_tangents();
      along.set_leaf(leaf.handle_->id);
      along.mutable_tangent()->set_tensor_index(add_tensor(request, tangent));
    }
  });
  const v1::IndexedGradients& set = set_of(answer);
  return {answer.take(answer.message.loss_value()), tensors_of(answer, set.gradients()),
          tensors_of(answer, set.hvps())};
}

void Tape::renew() { open().renew(); }

std::chrono::duration<double> Tape::lease() const { return open().lease(); }

void Tape::close() {
  if (session_) session_->close();
}

detail::Session& Tape::open() const {
  if (session_ && !session_->closed()) return *session_;
  throw detail::session_ended("SESSION_CLOSED", "The tape was closed or moved from; make a new one.");
}

void Tape::check(const Node& node) const {
  if (node.handle_ && node.handle_->session.lock() == session_) return;
  throw Error("MISSING_NODE", Code::not_found, "The node is of another tape, or of none. Use nodes of this tape.");
}

Node Tape::source(const char* op, const std::vector<const Tensor*>& tensors) {
  Session& session = open();
  Step step;
  step.call.set_op(op);
  step.call.set_result_count(1);
  for (const Tensor* each : tensors) {
    step.tensors.push_back(std::make_shared<v1::Tensor>(detail::tensor_message(*each)));
  }
  return Node(session.record(std::move(step), 1).front());
}

}  // namespace backhaul
