// The client's end of a session: requests in order, each step exactly once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <backhaul/tape.hpp>

#include "block.hpp"
#include "channel.hpp"
#include "request.hpp"

namespace backhaul::detail {

// A request that is refused has changed nothing: its number and its ids are used again, and its steps stay. One whose
// answer did not come is in doubt. Before anything else is asked it is sent once more under its number and digest,
// without its question, and then is either run or refused.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Channel> channel, TapeOptions options);

  // Records a step with so many results.
  std::vector<std::shared_ptr<Handle>> record(Step step, std::uint32_t results);

  // Adds questions to a request in which all nodes have their ids.
  using Fill = std::function<void(Request&)>;
  // Sends what is recorded with a question. Throws Error, also where the question met a step that had failed.
  Answer ask(const Fill& fill);

  // Sends what is recorded, if anything is.
  void flush();
  void renew();
  void close();
  // Without a word of what goes wrong, and not for long.
  void abandon() noexcept;

  std::chrono::duration<double> lease() const { return lease_; }
  bool closed() const { return closed_; }
  // A node has no handle any more.
  void release(std::uint64_t node) { released_.push_back(node); }

 private:
  struct Doubt {
    Request request;
    Steps steps;
    std::uint64_t base;
  };

  Request next_request();
  void add_block(Request& request);
  void settle();
  void commit(const Request& request, const Answer& answer, const Steps& steps, std::uint64_t base);
  void roll_back(const Steps& steps, std::uint64_t base);
  void send_close(const Deadline& deadline);

  std::shared_ptr<Channel> channel_;
  TapeOptions options_;
  std::string id_;
  std::string epoch_;
  std::uint64_t committed_ = 0;  // number of the last request that was run
  std::uint64_t next_id_ = 1;
  std::uint64_t made_ = 0;  // what tells a request from others under the same number
  Steps recorded_;
  std::vector<std::uint64_t> released_;
  std::optional<Doubt> doubt_;
  std::chrono::duration<double> lease_ = std::chrono::duration<double>::zero();
  bool begun_ = false;  // the server may know the session
  bool closed_ = false;
};

}  // namespace backhaul::detail
