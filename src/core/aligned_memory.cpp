#include "core/aligned_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "core/error.h"

namespace taper {

AlignedMemory::AlignedMemory(int64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* pages = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    throw ResourceError(
        fmt::format("no memory for another {:.1f} GB", static_cast<double>(bytes) / 1e9),
        "choose a smaller model, train.window or train.threads, or a machine with more memory");
  ::madvise(pages, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(pages);
}

AlignedMemory::~AlignedMemory() {
  if (data_) ::munmap(data_, static_cast<size_t>(size_));
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace taper
