#include "session.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "digest.hpp"

namespace backhaul::detail {

namespace {

// What a tape that goes waits for at most.
constexpr std::chrono::milliseconds farewell{2000};

bool has_ended(const Error& error) {
  return error.reason() == "SESSION_EXPIRED" || error.reason() == "SESSION_LOST" ||
         error.reason() == "SESSION_NOT_FOUND" || error.reason() == "SESSION_CLOSED";
}

}  // namespace

Handle::~Handle() {
  if (id == 0) return;
  if (const std::shared_ptr<Session> tape = session.lock()) tape->release(id);
}

Session::Session(std::shared_ptr<Channel> channel, TapeOptions options)
    : channel_(std::move(channel)), options_(options), id_(random_bytes(16)) {
  constexpr std::size_t longest_chunk = 4194304;
  if (options_.chunk_bytes == 0 || options_.chunk_bytes > longest_chunk) {
    throw Error("INVALID_VALUE", Code::invalid_argument,
                "chunk_bytes is " + std::to_string(options_.chunk_bytes) + "; it may be 1 to " +
                    std::to_string(longest_chunk) + ".",
                {{"actual", std::to_string(options_.chunk_bytes)}});
  }
}

std::vector<std::shared_ptr<Handle>> Session::record(Step step, std::uint32_t results) {
  std::vector<std::shared_ptr<Handle>> handles;
  handles.reserve(results);
  for (std::uint32_t at = 0; at < results; ++at) {
    handles.push_back(std::make_shared<Handle>(weak_from_this()));
    step.results.push_back(handles.back());
  }
  recorded_.push_back(std::move(step));
  return handles;
}

Answer Session::ask(const Fill& fill) {
  settle();
  drop_unneeded(recorded_);
  Request request = next_request();
  const std::uint64_t base = next_id_;
  number_results(recorded_, base);
  try {
    add_block(request);
    fill(request);
    begun_ = true;
    const Answer answer = channel_->execute(request);
    const Steps steps = std::exchange(recorded_, {});
    commit(request, answer, steps, base);
    if (answer.message.has_question_failure()) throw error_of(answer.message.question_failure());
    return answer;
  } catch (...) {
    if (committed_ + 1 != request.message.seq()) throw;  // it was run
    if (request.in_doubt) {
      request.message.clear_values();
      request.message.clear_question();
      request.tensors.resize(0);
      for (const Step& step : recorded_) {
        request.tensors.insert(request.tensors.end(), step.tensors.begin(), step.tensors.end());
      }
      doubt_ = Doubt{std::move(request), std::exchange(recorded_, {}), base};
    } else {
      roll_back(recorded_, base);
    }
    throw;
  }
}

void Session::flush() {
  settle();
  drop_unneeded(recorded_);
  if (!recorded_.empty()) ask([](Request&) {});
}

Request Session::next_request() {
  Request request;
  request.stream = options_.streaming == Streaming::always;
  request.chunk_bytes = options_.chunk_bytes;
  v1::ExecuteRequest& message = request.message;
  message.mutable_session()->set_id(id_);
  message.mutable_session()->set_epoch(epoch_);
  message.set_seq(committed_ + 1);
  message.set_digest(std::to_string(++made_));
  if (committed_ == 0) {
    message.mutable_options()->set_memory_limit(options_.memory_limit);
    message.mutable_options()->set_lease_seconds(options_.lease.count());
    message.mutable_options()->set_device(options_.device);
  }
  message.mutable_release()->Add(released_.begin(), released_.end());
  return request;
}

void Session::add_block(Request& request) {
  if (recorded_.empty()) return;
  WrittenBlock written = write_block(recorded_);
  v1::BlockCall& block = *request.message.mutable_block();
  block.set_hash(sha256(written.bytes));
  block.set_base_id(next_id_);
  block.mutable_inputs()->Add(written.inputs.begin(), written.inputs.end());
  request.block = std::move(written.bytes);
  for (const Step& step : recorded_) {
    request.tensors.insert(request.tensors.end(), step.tensors.begin(), step.tensors.end());
  }
}

void Session::settle() {
  if (!doubt_) return;
  Answer answer;
  try {
    answer = channel_->execute(doubt_->request);
  } catch (const Error&) {
    if (doubt_->request.in_doubt) throw;
    Doubt refused = *std::exchange(doubt_, std::nullopt);
    roll_back(refused.steps, refused.base);
    // What was recorded since comes after it.
    refused.steps.insert(refused.steps.end(), std::make_move_iterator(recorded_.begin()),
                         std::make_move_iterator(recorded_.end()));
    recorded_ = std::move(refused.steps);
    return;
  }
  const Doubt run = *std::exchange(doubt_, std::nullopt);
  commit(run.request, answer, run.steps, run.base);
}

void Session::commit(const Request& request, const Answer& answer, const Steps& steps, std::uint64_t base) {
  committed_ = request.message.seq();
  epoch_ = answer.message.epoch();
  if (answer.message.has_limits()) {
    lease_ = std::chrono::duration<double>(answer.message.limits().lease_seconds());
  }
  const std::unordered_set<std::uint64_t> sent(request.message.release().begin(), request.message.release().end());
  const auto was_sent = [&](std::uint64_t each) { return sent.count(each) != 0; };
  released_.erase(std::remove_if(released_.begin(), released_.end(), was_sent), released_.end());
  next_id_ = base;
  for (const Step& step : steps) {
    for (const std::weak_ptr<Handle>& each : step.results) {
      // One that went before it had its id could not say so.
      if (each.expired()) released_.push_back(next_id_);
      ++next_id_;
    }
  }
}

void Session::roll_back(const Steps& steps, std::uint64_t base) {
  unnumber_results(steps);
  // Those ids will be others' next.
  const auto never_made = [&](std::uint64_t each) { return each >= base; };
  released_.erase(std::remove_if(released_.begin(), released_.end(), never_made), released_.end());
}

void Session::renew() {
  settle();
  if (committed_ == 0) return flush();
  v1::RenewLeaseRequest request;
  request.set_epoch(epoch_);
  v1::Renewal& renewal = *request.add_sessions();
  renewal.set_id(id_);
  renewal.mutable_release()->Add(released_.begin(), released_.end());
  renewal.set_answered(committed_);
  const v1::RenewLeaseResponse told =
      channel_->call(&v1::BackhaulService::Stub::RenewLease, request, id_, channel_->deadline());
  released_.clear();
  if (told.ended_size() != 0) {
    throw session_ended(told.ended(0).reason(), "The session has ended: its lease ran out, or it was closed.");
  }
}

void Session::close() {
  if (closed_) return;
  if (begun_) send_close(channel_->deadline());
  closed_ = true;
  recorded_.clear();
}

void Session::abandon() noexcept {
  if (closed_ || !begun_) return;
  closed_ = true;
  try {
    send_close(deadline_after(farewell));
  } catch (...) {
    // Its lease ends it.
  }
}

void Session::send_close(const Deadline& deadline) {
  v1::CloseSessionRequest request;
  request.mutable_session()->set_id(id_);
  request.mutable_session()->set_epoch(epoch_);
  try {
    channel_->call(&v1::BackhaulService::Stub::CloseSession, request, id_, deadline);
  } catch (const Error& error) {
    if (!has_ended(error)) throw;
  }
}

}  // namespace backhaul::detail
