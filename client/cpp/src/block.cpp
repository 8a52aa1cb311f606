#include "block.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace backhaul::detail {

namespace {

// The distinct calls of a block, in the order of their first use.
class Calls {
 public:
  explicit Calls(v1::Block& block) : block_(block) {}

  std::uint32_t number(const v1::Call& call) {
    const auto [found, added] = numbers_.emplace(call.SerializeAsString(), block_.calls_size());
    if (added) *block_.add_calls() = call;
    return found->second;
  }

 private:
  v1::Block& block_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace

void drop_unneeded(Steps& steps) {
  // From the last to the first: a step that goes takes its hold of its operands with it.
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const auto gone = [](const std::weak_ptr<Handle>& each) { return each.expired(); };
    if (std::all_of(step->results.begin(), step->results.end(), gone)) *step = Step{};
  }
  const auto dropped = [](const Step& each) { return each.results.empty(); };
  steps.erase(std::remove_if(steps.begin(), steps.end(), dropped), steps.end());
}

std::uint64_t count_results(const Steps& steps) {
  std::uint64_t count = 0;
  for (const Step& step : steps) count += step.results.size();
  return count;
}

WrittenBlock write_block(const Steps& steps) {
  WrittenBlock written;
  // Inputs come before results in the numbering, so their number has to be known first.
  std::unordered_map<const Handle*, std::uint32_t> results;
  std::uint32_t count = 0;
  for (const Step& step : steps) {
    for (const std::weak_ptr<Handle>& each : step.results) {
      if (const std::shared_ptr<Handle> result = each.lock()) results.emplace(result.get(), count);
      ++count;
    }
  }
  std::unordered_map<std::uint64_t, std::uint32_t> inputs;
  for (const Step& step : steps) {
    for (const std::shared_ptr<Handle>& each : step.operands) {
      if (results.count(each.get()) == 0 && inputs.emplace(each->id, inputs.size()).second) {
        written.inputs.push_back(each->id);
      }
    }
  }
  v1::Block block;
  const auto input_count = static_cast<std::uint32_t>(written.inputs.size());
  block.set_input_count(input_count);
  Calls calls(block);
  for (const Step& step : steps) {
    block.add_steps(calls.number(step.call));
    for (const std::shared_ptr<Handle>& each : step.operands) {
      const auto here = results.find(each.get());
      block.add_operands(here == results.end() ? inputs.at(each->id) : input_count + here->second);
    }
  }
  block.SerializeToString(&written.bytes);
  return written;
}

void number_results(const Steps& steps, std::uint64_t base) {
  for (const Step& step : steps) {
    for (const std::weak_ptr<Handle>& each : step.results) {
      if (const std::shared_ptr<Handle> result = each.lock()) result->id = base;
      ++base;
    }
  }
}

void unnumber_results(const Steps& steps) {
  for (const Step& step : steps) {
    for (const std::weak_ptr<Handle>& each : step.results) {
      if (const std::shared_ptr<Handle> result = each.lock()) result->id = 0;
    }
  }
}

}  // namespace backhaul::detail
