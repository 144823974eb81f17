// Large buffers: pages of zeros on huge pages where the system has them, and their division.
#pragma once

#include <cstddef>
#include <cstdint>

namespace taper {

// Owns pages of zeros. ResourceError without memory.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(int64_t bytes);
  ~AlignedMemory();
  AlignedMemory(AlignedMemory&& other) noexcept;
  AlignedMemory& operator=(AlignedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Hands out aligned pieces of a block in order. Without a block it only measures.
class MemoryLayout {
 public:
  explicit MemoryLayout(std::byte* block = nullptr) : block_(block) {}

  template <typename T>
  T* take(int64_t count) {
    const int64_t begin = position_;
    position_ +=
        (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    if (position_ > bytes_) bytes_ = position_;
    return block_ ? reinterpret_cast<T*>(block_ + begin) : nullptr;
  }

  int64_t position() const { return position_; }
  void rewind(int64_t position) { position_ = position; }  // what follows shares the memory
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kAlignment = 64;
  std::byte* block_;
  int64_t position_ = 0, bytes_ = 0;
};

}  // namespace taper
