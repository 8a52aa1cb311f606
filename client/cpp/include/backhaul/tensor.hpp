// Arrays: an element type, a shape, and the elements' bytes.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace backhaul {

// Element types, by the numbers of the protocol's DataType. Differentiable: float32, float64, complex64, complex128.
enum class DType {
  boolean = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  uint8 = 6,
  uint16 = 7,
  uint32 = 8,
  uint64 = 9,
  float32 = 10,
  float64 = 11,
  complex64 = 12,
  complex128 = 13,
};

// The protocol's name in lower case, such as "float64" or "bool".
std::string_view name(DType dtype);

// The element type of that name. Throws Error DTYPE_NOT_SUPPORTED.
DType dtype_of_name(std::string_view name);

// Bytes of an element.
std::size_t element_size(DType dtype);

using Shape = std::vector<std::int64_t>;

// The element type that a C++ type has the layout of.
template <class T>
struct DTypeOf;
template <> struct DTypeOf<bool> { static constexpr DType value = DType::boolean; };
template <> struct DTypeOf<std::int8_t> { static constexpr DType value = DType::int8; };
template <> struct DTypeOf<std::int16_t> { static constexpr DType value = DType::int16; };
template <> struct DTypeOf<std::int32_t> { static constexpr DType value = DType::int32; };
template <> struct DTypeOf<std::int64_t> { static constexpr DType value = DType::int64; };
template <> struct DTypeOf<std::uint8_t> { static constexpr DType value = DType::uint8; };
template <> struct DTypeOf<std::uint16_t> { static constexpr DType value = DType::uint16; };
template <> struct DTypeOf<std::uint32_t> { static constexpr DType value = DType::uint32; };
template <> struct DTypeOf<std::uint64_t> { static constexpr DType value = DType::uint64; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::float32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::float64; };
template <> struct DTypeOf<std::complex<float>> { static constexpr DType value = DType::complex64; };
template <> struct DTypeOf<std::complex<double>> { static constexpr DType value = DType::complex128; };

// Elements of a tensor, seen as T. Valid as long as the tensor's bytes stay where they are.
template <class T>
class View {
 public:
  View(const T* data, std::size_t size) : data_(data), size_(size) {}
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& operator[](std::size_t at) const { return data_[at]; }

 private:
  const T* data_;
  std::size_t size_;
};

// An array. Elements are in C order (last axis fastest), little endian; complex ones are (real, imaginary) pairs.
// Nothing is checked on the way to the server, which refuses what does not fit together.
struct Tensor {
  DType dtype = DType::float64;
  Shape shape;  // empty: a 0-d array, which has one element
  std::vector<std::byte> bytes;

  // An array of these elements. Throws Error SHAPE_MISMATCH where there are more or fewer than the shape says.
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& elements);

  // A 0-d array.
  template <class T>
  static Tensor scalar(T value) {
    return copied(DTypeOf<T>::value, {}, &value, 1);
  }

  // The elements. Throws Error DTYPE_NOT_SUPPORTED where T is not the element type.
  template <class T>
  View<T> view() const {
    check_view(DTypeOf<T>::value);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  // The only element. Throws Error SHAPE_MISMATCH where there is not exactly one.
  template <class T>
  T item() const {
    const View<T> elements = view<T>();
    check_single(elements.size());
    return elements[0];
  }

 private:
  static Tensor copied(DType dtype, Shape shape, const void* elements, std::size_t count);
  void check_view(DType asked) const;
  void check_single(std::size_t count) const;
};

template <class T>
Tensor Tensor::of(Shape shape, const std::vector<T>& elements) {
  if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> packs bits
    const std::vector<std::uint8_t> unpacked(elements.begin(), elements.end());
    return copied(DType::boolean, std::move(shape), unpacked.data(), unpacked.size());
  } else {
    return copied(DTypeOf<T>::value, std::move(shape), elements.data(), elements.size());
  }
}

}  // namespace backhaul
