// What is recorded, and how it is written as a block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backhaul_proto/v1/graph.pb.h"
#include "backhaul_proto/v1/tensor.pb.h"

namespace backhaul::detail {

class Session;

// What the copies of a Node share. The last of them lets the server free it.
struct Handle {
  explicit Handle(std::weak_ptr<Session> tape) : session(std::move(tape)) {}
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  std::weak_ptr<Session> session;
  std::uint64_t id = 0;  // in the session; 0 until it is sent
};

using Operands = std::vector<std::shared_ptr<Handle>>;

// A recorded step. It keeps its operands, not its results: one whose results nobody keeps need not be sent.
struct Step {
  v1::Call call;
  Operands operands;
  std::vector<std::shared_ptr<v1::Tensor>> tensors;
  std::vector<std::weak_ptr<Handle>> results;
};

using Steps = std::vector<Step>;

// Takes out the steps that nothing needs.
void drop_unneeded(Steps& steps);

// How many results the steps have together.
std::uint64_t count_results(const Steps& steps);

struct WrittenBlock {
  std::string bytes;
  std::vector<std::uint64_t> inputs;
};

// Writes the steps as a block. Operands outside of it have their ids.
WrittenBlock write_block(const Steps& steps);

// Gives the results their ids from `base` on.
void number_results(const Steps& steps, std::uint64_t base);

// Takes them back.
void unnumber_results(const Steps& steps);

}  // namespace backhaul::detail
