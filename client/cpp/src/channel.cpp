#include "channel.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "digest.hpp"
#include "messages.hpp"
#include "stream.hpp"

namespace backhaul::detail {

namespace {

// What a server takes until it has told; and what is faster by stream from then on.
constexpr std::uint64_t assumed_limit = 4194304;
// Room for what gRPC and the message's own fields take.
constexpr std::uint64_t margin = 4096;

void check_token(const std::string& token, const Target& target) {
  const auto printable = [](unsigned char each) { return each > 0x20 && each < 0x7F; };
  if (!std::all_of(token.begin(), token.end(), printable)) {
    throw Error("INVALID_VALUE", Code::invalid_argument,
                "The token has a character that no token has; `backhaul token new NAME` makes one.");
  }
  if (!token.empty() && target.kind != Target::Kind::tls && !target.local) {
    throw Error("PERMISSION_DENIED", Code::permission_denied,
                "The token would travel to " + target.text +
                    " in the clear, for anyone on the way to read. Use grpcs://, or name the authorities' file.",
                {{"target", target.text}});
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) content.clear();
  if (content.empty()) {
    throw Error("INVALID_VALUE", Code::invalid_argument,
                "The file of certificates '" + path + "' cannot be read or is empty.", {{"actual", path}});
  }
  return content;
}

std::shared_ptr<grpc::Channel> dial(const Target& target, const std::string& ca) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);  // the server's limits count
  arguments.SetMaxReceiveMessageSize(-1);
  // A server is restarted sooner than gRPC's own back-off of up to two minutes would dial again.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 250);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  // Proxies of the environment are for other machines.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, target.local ? 0 : 1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (target.kind == Target::Kind::tls) {
    grpc::SslCredentialsOptions tls;
    if (!ca.empty()) tls.pem_root_certs = read_file(ca);
    credentials = grpc::SslCredentials(tls);
  } else {
    credentials = grpc::InsecureChannelCredentials();
  }
  return grpc::CreateCustomChannel(target.address, credentials, arguments);
}

bool may_have_been_run(const Error& error) {
  if (error.reason() == "MESSAGE_TOO_LARGE") {
    const auto what = error.details().find("too_large");
    return what == error.details().end() || what->second != "request";
  }
  switch (error.code()) {
    case Code::cancelled:
    case Code::unknown:
    case Code::deadline_exceeded:
    case Code::internal:
    case Code::unavailable:
    case Code::data_loss:
      return true;
    default:
      return false;
  }
}

// Tensors in a message for as long as it is sent, without a copy of them.
class LentTensors {
 public:
  LentTensors(v1::ExecuteRequest& message, const Request& request) : tensors_(*message.mutable_tensors()) {
    for (const std::shared_ptr<v1::Tensor>& each : request.tensors) tensors_.UnsafeArenaAddAllocated(each.get());
  }
  ~LentTensors() {
    while (!tensors_.empty()) tensors_.UnsafeArenaReleaseLast();
  }
  LentTensors(const LentTensors&) = delete;
  LentTensors& operator=(const LentTensors&) = delete;

 private:
  google::protobuf::RepeatedPtrField<v1::Tensor>& tensors_;
};

}  // namespace

Channel::Channel(const std::string& target, const ConnectionOptions& options)
    : target_(parse_target(target, !options.ca.empty())),
      token_(options.token),
      timeout_(options.timeout),
      message_limit_(assumed_limit) {
  check_token(token_, target_);
  stub_ = v1::BackhaulService::NewStub(dial(target_, options.ca));
}

void Channel::prepare(grpc::ClientContext& context, const std::string& session, const Deadline& deadline) const {
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
  if (!session.empty()) context.AddMetadata("backhaul-session", hexadecimal(session));
  if (deadline) {
    // gRPC takes times of the system's clock, which may be set meanwhile: the distance is what counts.
    const auto left = std::chrono::duration_cast<std::chrono::system_clock::duration>(*deadline - Clock::now());
    context.set_deadline(std::chrono::system_clock::now() + left);
  }
}

bool Channel::is_large(const Request& request) const {
  std::uint64_t size = request.message.ByteSizeLong() + request.block.size() + margin;
  for (const std::shared_ptr<v1::Tensor>& each : request.tensors) size += each->ByteSizeLong() + 8;
  return size > message_limit_;
}

Answer Channel::execute(Request& request) {
  const Deadline until = deadline();
  if (is_large(request)) request.stream = true;
  Answer answer;
  repeat([&] { answer = attempt(request, until); }, until);
  if (request.message.has_block()) known_blocks_.add(request.message.block().hash());
  if (answer.message.has_limits()) {
    const std::uint64_t told = answer.message.limits().max_message_bytes();
    if (told != 0) message_limit_ = std::min(told, assumed_limit);
  }
  return answer;
}

// Sends it until the way is right: with the block where it is missing, by stream where it is too large. Each of the two
// happens once at most.
Answer Channel::attempt(Request& request, const Deadline& deadline) {
  while (true) {
    const bool was_in_doubt = request.in_doubt;
    request.in_doubt = true;
    try {
      Answer answer = send(request, deadline);
      request.in_doubt = false;
      return answer;
    } catch (const Error& error) {
      // A refusal says what became of earlier tries too, but for want of room: that is told before they are looked for.
      const bool no_room = error.code() == Code::resource_exhausted;
      request.in_doubt = may_have_been_run(error) || (was_in_doubt && no_room);
      if (error.reason() == "BLOCK_UNKNOWN" && known_blocks_.holds(request.message.block().hash())) {
        known_blocks_.forget(request.message.block().hash());
      } else if (error.reason() == "MESSAGE_TOO_LARGE" && !request.stream) {
        request.stream = true;
      } else {
        throw;
      }
    }
  }
}

Answer Channel::send(const Request& request, const Deadline& deadline) {
  v1::ExecuteRequest message = request.message;
  if (message.has_block() && !known_blocks_.holds(message.block().hash())) {
    message.mutable_block()->set_block(request.block);
  }
  if (!request.stream) return send_whole(request, message, deadline);
  grpc::ClientContext context;
  prepare(context, message.session().id(), deadline);
  return converse(*stub_, context, request, message, target_.text);
}

Answer Channel::send_whole(const Request& request, v1::ExecuteRequest& message, const Deadline& deadline) {
  Answer answer;
  {
    const LentTensors lent(message, request);
    once(&v1::BackhaulService::Stub::Execute, message, message.session().id(), deadline, answer.message);
  }
  for (const v1::Tensor& each : answer.message.tensors()) answer.tensors.push_back(read_tensor(each));
  answer.message.clear_tensors();
  return answer;
}

Tensor Answer::take(std::size_t index) const {
  if (index >= tensors.size()) {
    throw Error("INTERNAL", Code::internal,
                "The server's answer names an array that it does not have. Its version may not fit this client's.");
  }
  return tensors[index];
}

}  // namespace backhaul::detail

namespace backhaul {

Connection::Connection(const std::string& target, const ConnectionOptions& options)
    : channel_(std::make_shared<detail::Channel>(target, options)) {}

ServerInfo Connection::server_info() const {
  const v1::GetServerInfoResponse told = channel_->call(&v1::BackhaulService::Stub::GetServerInfo,
                                                        v1::GetServerInfoRequest{}, "", channel_->deadline());
  return {told.version(), told.protocol(), told.backend()};
}

}  // namespace backhaul
