#include "stream.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <backhaul/error.hpp>

#include "crc32c.hpp"
#include "elements.hpp"
#include "messages.hpp"
#include "status.hpp"

namespace backhaul::detail {

namespace {

using Stream = grpc::ClientReaderWriter<v1::ExecuteStreamRequest, v1::ExecuteStreamResponse>;

[[noreturn]] void broken(const std::string& why) {
  throw Error("INTERNAL", Code::internal,
              "The stream of the answer cannot be read: " + why + ". The server's version may not fit.");
}

// Cuts what it is given into chunks, across the ends of tensors, and writes them.
class ChunkWriter {
 public:
  ChunkWriter(Stream& stream, std::size_t chunk_bytes) : stream_(stream), chunk_bytes_(chunk_bytes) {}

  // False when the call has ended.
  bool add(const std::string& data) {
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t part = std::min(data.size() - at, chunk_bytes_ - chunk().data().size());
      chunk().mutable_data()->append(data, at, part);
      at += part;
      if (chunk().data().size() == chunk_bytes_ && !write()) return false;
    }
    return true;
  }

  bool finish() { return chunk().data().empty() || write(); }

 private:
  v1::Chunk& chunk() { return *message_.mutable_chunk(); }

  bool write() {
    chunk().set_crc32c(crc32c(chunk().data().data(), chunk().data().size()));
    const bool written = stream_.Write(message_);
    chunk().mutable_data()->clear();
    return written;
  }

  Stream& stream_;
  std::size_t chunk_bytes_;
  v1::ExecuteStreamRequest message_;
};

bool send(Stream& stream, const Request& request, const v1::ExecuteRequest& header) {
  v1::ExecuteStreamRequest first;
  v1::ExecuteRequest& written = *first.mutable_header();
  written = header;
  for (const std::shared_ptr<v1::Tensor>& each : request.tensors) {
    v1::Tensor& tensor = *written.add_tensors();
    tensor.set_dtype(each->dtype());
    *tensor.mutable_shape() = each->shape();
    tensor.mutable_chunked();
  }
  if (!stream.Write(first)) return false;
  ChunkWriter chunks(stream, request.chunk_bytes);
  for (const std::shared_ptr<v1::Tensor>& each : request.tensors) {
    if (!chunks.add(each->data())) return false;
  }
  return chunks.finish() && stream.WritesDone();
}

// The arrays of an answer, filled by chunks in order.
class ChunkReader {
 public:
  explicit ChunkReader(const v1::ExecuteResponse& header) {
    for (const v1::Tensor& each : header.tensors()) {
      const bool chunked = each.content_case() == v1::Tensor::kChunked;
      tensors_.push_back(chunked ? empty_tensor(each) : read_tensor(each));
      missing_.push_back(chunked ? *bytes_of(tensors_.back().dtype, tensors_.back().shape) : 0);
    }
  }

  void add(const v1::Chunk& chunk) {
    const std::string& data = chunk.data();
    if (crc32c(data.data(), data.size()) != chunk.crc32c()) {
      throw Error("CHUNK_CHECKSUM", Code::data_loss,
                  "A chunk of the answer is not what the server sent: something on the way changed it.",
                  {{"chunk", std::to_string(count_)}});
    }
    ++count_;
    for (std::size_t at = 0; at < data.size();) {
      skip_full();
      if (filling_ == tensors_.size()) broken("more bytes came than were declared");
      std::vector<std::byte>& bytes = tensors_[filling_].bytes;
      if (bytes.empty()) bytes.reserve(missing_[filling_]);
      const std::size_t part = std::min(data.size() - at, missing_[filling_]);
      const auto* from = reinterpret_cast<const std::byte*>(data.data()) + at;
      bytes.insert(bytes.end(), from, from + part);
      missing_[filling_] -= part;
      at += part;
    }
  }

  std::vector<Tensor> finish() {
    skip_full();
    if (filling_ != tensors_.size()) broken("fewer bytes came than were declared");
    return std::move(tensors_);
  }

 private:
  void skip_full() {
    while (filling_ < tensors_.size() && missing_[filling_] == 0) ++filling_;
  }

  std::vector<Tensor> tensors_;
  std::vector<std::size_t> missing_;
  std::size_t filling_ = 0;
  std::size_t count_ = 0;
};

Answer receive(Stream& stream, const std::string& target) {
  Answer answer;
  std::optional<ChunkReader> reader;
  v1::ExecuteStreamResponse message;
  while (stream.Read(&message)) {
    if (!reader) {
      if (!message.has_header()) broken("it does not begin with a header");
      reader.emplace(message.header());
      message.mutable_header()->clear_tensors();
      answer.message = std::move(*message.mutable_header());
    } else if (message.has_chunk()) {
      reader->add(message.chunk());
    } else {
      broken("a message after the first is no chunk");
    }
  }
  // Only the end says whether what was read is all.
  if (const grpc::Status status = stream.Finish(); !status.ok()) throw error_of(status, target);
  if (!reader) broken("it ended before its header");
  answer.tensors = reader->finish();
  return answer;
}

}  // namespace

Answer converse(v1::BackhaulService::Stub& stub, grpc::ClientContext& context, const Request& request,
                const v1::ExecuteRequest& header, const std::string& target) {
  const std::unique_ptr<Stream> stream = stub.ExecuteStream(&context);
  try {
    // A write fails when the call has ended; reading then tells how.
    send(*stream, request, header);
    return receive(*stream, target);
  } catch (...) {
    context.TryCancel();
    throw;
  }
}

}  // namespace backhaul::detail
