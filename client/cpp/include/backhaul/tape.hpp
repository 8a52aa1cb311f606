// The tape: record operations, ask for values, gradients and Hessian-vector products.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <backhaul/attribute.hpp>
#include <backhaul/connection.hpp>
#include <backhaul/tensor.hpp>

namespace backhaul {

namespace detail {
struct Handle;
class Session;
}  // namespace detail

// A value on a tape. Copies are the same node. When the last of them goes, the server may free it: an array stays as
// long as gradients need it.
class Node {
 public:
  // A node of no tape, which every tape refuses.
  Node() = default;

 private:
  friend class Tape;
  explicit Node(std::shared_ptr<detail::Handle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<detail::Handle> handle_;
};

// Gradients of a loss, in the order in which they were asked.
struct Pullback {
  Tensor value;  // the loss's
  std::vector<Tensor> gradients;
};

// Gradients and Hessian-vector products of a scalar loss, in the order in which they were asked.
struct Hvp {
  Tensor value;  // the loss's
  std::vector<Tensor> gradients;
  std::vector<Tensor> products;
};

// How requests and answers travel.
enum class Streaming {
  automatic,  // by stream where they are large
  always,
};

struct TapeOptions {
  // Bytes that the session may use; 0: what the server allows.
  std::uint64_t memory_limit = 0;
  // After so long without a call the session ends; 0: what the server allows.
  std::chrono::duration<double> lease = std::chrono::duration<double>::zero();
  Streaming streaming = Streaming::automatic;
  // Bytes of a stream's chunk, 1 to 4194304. About 1 MiB is fastest.
  std::size_t chunk_bytes = 1048576;
  // Where it computes, such as "cuda:0"; empty: the server's default.
  std::string device;
};

// A reverse-mode tape that the server owns: a session.
//
// Recording sends nothing. A question sends all that was recorded since the one before, as one block, and is answered
// in the same round trip. A request that is refused has changed nothing: what it had to send stays recorded, without
// what no Node names or needs any more, so let go of a node that was refused.
//
// A tape and its nodes are to be used by one thread at a time. Questions throw Error.
class Tape {
 public:
  explicit Tape(const Connection& connection, TapeOptions options = {});
  // Closes the session. Whether that reached the server cannot be told here; its lease ends it otherwise.
  ~Tape();
  Tape(Tape&&) noexcept;
  Tape& operator=(Tape&&) noexcept;

  // An array that gradients are taken for: float32, float64, complex64, complex128.
  Node leaf(const Tensor& value);
  // The same with its direction for hvp, of the same shape and element type.
  Node leaf(const Tensor& value, const Tensor& tangent);
  // An array of any element type that gradients are not taken for.
  Node constant(const Tensor& value);

  // A sum of products, such as einsum("ij,jk->ik", {a, b}).
  Node einsum(const std::string& subscripts, const std::vector<Node>& operands);
  // An op of the catalog (docs/ops.md) with one result.
  Node apply(const std::string& op, const std::vector<Node>& operands, const Attributes& attributes = {});
  // One with so many results; the server refuses another number than the op has.
  std::vector<Node> apply_several(const std::string& op, const std::vector<Node>& operands,
                                  const Attributes& attributes, std::uint32_t results);

  // Sends what was recorded. A step that fails on its data (a singular matrix) is told by whoever asks for it.
  void flush();
  Tensor value(const Node& node);
  // Several in one round trip.
  std::vector<Tensor> values(const std::vector<Node>& nodes);

  // Gradients of a real scalar loss for these nodes, zeros where it does not depend on one. For a complex leaf:
  // dL/dRe + i dL/dIm.
  Pullback pullback(const Node& loss, const std::vector<Node>& wrt);
  // Gradients of Re sum(conj(cotangent) * output), for an output of the cotangent's shape and element type.
  Pullback pullback(const Node& output, const std::vector<Node>& wrt, const Tensor& cotangent);

  // Along the tangents that the leaves were made with.
  Hvp hvp(const Node& loss, const std::vector<Node>& wrt);
  // Along these tangents of leaves; other leaves have none.
  Hvp hvp(const Node& loss, const std::vector<Node>& wrt,
          const std::vector<std::pair<Node, Tensor>>& tangents);

  // Keeps the session alive, to be called about three times a lease where nothing is asked for longer, and frees what
  // no Node names any more.
  void renew();
  // The session's lease, once the server has told; 0 before, and where it does not end by itself.
  std::chrono::duration<double> lease() const;
  // Frees all that the server holds. Asking after that throws Error SESSION_CLOSED. Closing twice is nothing.
  void close();

 private:
  detail::Session& open() const;
  void check(const Node& node) const;
  Node source(const char* op, const std::vector<const Tensor*>& tensors);
  Pullback pulled_back(const Node& output, const std::vector<Node>& wrt, const Tensor* cotangent);
  std::shared_ptr<detail::Session> session_;
};

}  // namespace backhaul
