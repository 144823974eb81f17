// The safetensors format: 8-byte little-endian header length, a JSON header, tensor bytes.
//
// Reading maps the file and trusts nothing: header at most 100 MB, no unknown type, no duplicate
// name, no overflow in shape products, every tensor inside the file and of the size its shape and
// type say, no overlap and no gap. FormatError names file, tensor and offset. Metadata may be
// absent, null or {}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace taper {

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kU32, kI16, kI8, kU8, kBool };
size_t dtype_size(DType dtype);
std::string_view dtype_name(DType dtype);  // "F32", as in the file format

// A tensor somewhere in memory, row-major. Does not own its bytes.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;

  int64_t num_elements() const;  // product of shape; 1 for a scalar
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorView>& tensors() const { return tensors_; }  // in file order
  const TensorView* find(std::string_view name) const;                 // null when absent
  const TensorView& at(std::string_view name) const;                   // FormatError when absent
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// Writes atomically; "format": "pt" is always in the metadata. Tensors are laid out in the order
// given, largest element type first would not matter: the data section is 8-byte aligned.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// The tensor's values as fp32, converted from F64, F32, F16 or BF16; FormatError for other types.
std::vector<float> to_float32(const TensorView& tensor);

}  // namespace taper
