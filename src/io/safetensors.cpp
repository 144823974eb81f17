#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/bf16.h"
#include "core/error.h"
#include "core/json.h"

namespace taper {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are used where they lie");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDimensions = 16;
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array<DTypeInfo, 11> kDTypes = {{{DType::kF64, "F64", 8},
                                                {DType::kF32, "F32", 4},
                                                {DType::kF16, "F16", 2},
                                                {DType::kBF16, "BF16", 2},
                                                {DType::kI64, "I64", 8},
                                                {DType::kI32, "I32", 4},
                                                {DType::kU32, "U32", 4},
                                                {DType::kI16, "I16", 2},
                                                {DType::kI8, "I8", 1},
                                                {DType::kU8, "U8", 1},
                                                {DType::kBool, "BOOL", 1}}};

const DTypeInfo& info(DType dtype) {
  const auto found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                  [dtype](const DTypeInfo& entry) { return entry.dtype == dtype; });
  TAPER_CHECK(found != kDTypes.end());
  return *found;
}

// Reads the header of one file; every message names the file, and the tensor where there is one.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, std::span<const std::byte> bytes)
      : path_(path.string()), bytes_(bytes) {}

  void read() {
    if (bytes_.size() < sizeof(uint64_t))
      fail("{} bytes, a safetensors file has at least 8", bytes_.size());
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes_.data(), sizeof(header_bytes));
    if (header_bytes > kMaxHeaderBytes)
      fail("header length {} at offset 0 is above the limit of {}", header_bytes, kMaxHeaderBytes);
    if (header_bytes > bytes_.size() - sizeof(uint64_t)) {
      fail("header length {} at offset 0 goes past the end of the file ({} bytes)", header_bytes,
           bytes_.size());
    }
    data_begin_ = sizeof(uint64_t) + header_bytes;
    data_ = bytes_.subspan(data_begin_);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + sizeof(uint64_t),
                                header_bytes);
    const Json header = parse_json(text, path_ + ": header");
    if (!header.is_object()) fail("header is not a JSON object");
    for (const auto& [name, entry] : header.items())
      if (name == kMetadataKey)
        read_metadata(entry);
      else
        read_tensor(name, entry);
    check_coverage();
  }

  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw FormatError(path_ + ": " + fmt::format(format, std::forward<Args>(args)...),
                      "the file is damaged or of another format: copy or create it again");
  }

  void read_metadata(const Json& entry) {
    if (entry.is_null()) return;
    if (!entry.is_object()) fail("{} is neither an object nor null", kMetadataKey);
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("{}: the value of \"{}\" is not a string", kMetadataKey, key);
      metadata.emplace(key, value.get<std::string>());
    }
  }

  void read_tensor(const std::string& name, const Json& entry) {
    if (!entry.is_object()) fail("tensor {}: its entry is not an object", name);
    for (const auto& [key, value] : entry.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail("tensor {}: unknown key \"{}\"", name, key);
    TensorView tensor;
    tensor.name = name;
    tensor.dtype = read_dtype(name, entry);
    uint64_t expected = dtype_size(tensor.dtype);
    for (const Json& dimension : member(name, entry, "shape")) {
      const uint64_t size = read_unsigned(name, "shape", dimension);
      if (size > INT64_MAX || __builtin_mul_overflow(expected, size, &expected))
        fail("tensor {}: the size of shape {} overflows", name, entry["shape"].dump());
      tensor.shape.push_back(static_cast<int64_t>(size));
    }
    if (tensor.shape.size() > kMaxDimensions) {
      fail("tensor {}: {} dimensions, at most {} are supported", name, tensor.shape.size(),
           kMaxDimensions);
    }
    // A zero among huge dimensions would hide their overflow from the product above.
    uint64_t product_without_zero = dtype_size(tensor.dtype);
    for (const int64_t size : tensor.shape) {
      const uint64_t factor = static_cast<uint64_t>(std::max<int64_t>(size, 1));
      if (__builtin_mul_overflow(product_without_zero, factor, &product_without_zero))
        fail("tensor {}: the size of shape {} overflows", name, entry["shape"].dump());
    }
    const Json& offsets = member(name, entry, "data_offsets");
    if (offsets.size() != 2) fail("tensor {}: data_offsets is not a pair", name);
    const uint64_t begin = read_unsigned(name, "data_offsets", offsets[0]);
    const uint64_t end = read_unsigned(name, "data_offsets", offsets[1]);
    if (begin > end) fail("tensor {}: data offsets {} to {} run backwards", name, begin, end);
    if (end > data_.size()) {
      fail("tensor {}: data offsets {} to {} go past the end of the data ({} bytes)", name, begin,
           end, data_.size());
    }
    if (end - begin != expected) {
      fail("tensor {}: {} of shape {} takes {} bytes, data offsets {} to {} hold {}", name,
           dtype_name(tensor.dtype), entry["shape"].dump(), expected, begin, end, end - begin);
    }
    tensor.data = data_.subspan(begin, end - begin);
    tensors.push_back(std::move(tensor));
  }

  // An array member of a tensor's entry.
  const Json& member(const std::string& name, const Json& entry, const char* key) const {
    const auto found = entry.find(key);
    if (found == entry.end()) fail("tensor {}: \"{}\" is missing", name, key);
    if (!found->is_array()) fail("tensor {}: \"{}\" is not a list", name, key);
    return *found;
  }

  DType read_dtype(const std::string& name, const Json& entry) const {
    const auto found = entry.find("dtype");
    if (found == entry.end()) fail("tensor {}: \"dtype\" is missing", name);
    if (!found->is_string()) fail("tensor {}: \"dtype\" is not a string", name);
    const std::string& text = found->get_ref<const std::string&>();
    for (const DTypeInfo& candidate : kDTypes)
      if (candidate.name == text) return candidate.dtype;
    fail("tensor {}: unknown dtype \"{}\"", name, text);
  }

  uint64_t read_unsigned(const std::string& name, const char* key, const Json& value) const {
    if (!value.is_number_unsigned()) {
      fail("tensor {}: \"{}\" holds {}, expected an integer that is not negative", name, key,
           value.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    return value.get<uint64_t>();
  }

  // Sorts the tensors by offset and checks that they tile the data section.
  void check_coverage() {
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
      return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
    });
    uint64_t covered = 0;
    const TensorView* previous = nullptr;
    for (const TensorView& tensor : tensors) {
      const auto begin = static_cast<uint64_t>(tensor.data.data() - data_.data());
      if (begin < covered) {
        fail("tensor {} at data offset {} overlaps tensor {}, which ends at {}", tensor.name, begin,
             previous->name, covered);
      }
      if (begin > covered) {
        fail("a gap of {} bytes at data offset {} before tensor {}", begin - covered, covered,
             tensor.name);
      }
      covered = begin + tensor.data.size();
      previous = &tensor;
    }
    if (covered != data_.size()) {
      fail("{} bytes at data offset {} belong to no tensor{}", data_.size() - covered, covered,
           previous == nullptr ? "" : " (the last one is " + previous->name + ")");
    }
  }

  std::string path_;
  std::span<const std::byte> bytes_, data_;
  uint64_t data_begin_ = 0;
};

float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: exact as a product
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// Tensors need not be aligned in the file, so every element is copied out.
template <typename Stored, typename Convert>
std::vector<float> convert_all(const TensorView& tensor, Convert convert) {
  std::vector<float> values(tensor.data.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, tensor.data.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = convert(stored);
  }
  return values;
}

}  // namespace

size_t dtype_size(DType dtype) { return info(dtype).size; }
std::string_view dtype_name(DType dtype) { return info(dtype).name; }

int64_t TensorView::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  HeaderReader reader(path, file_.bytes());
  reader.read();
  tensors_ = std::move(reader.tensors);
  metadata_ = std::move(reader.metadata);
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) {
    throw FormatError(fmt::format("{}: tensor {} is missing ({} others are present)",
                                  path().string(), name, tensors_.size()));
  }
  return *tensor;
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  std::map<std::string, std::string> all_metadata = metadata;
  all_metadata.emplace("format", "pt");
  header[kMetadataKey] = all_metadata;
  auto& members = header.get_ref<Json::object_t&>();
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    TAPER_CHECK(tensor.name != kMetadataKey && names.insert(tensor.name).second);
    TAPER_CHECK(tensor.data.size() ==
                static_cast<size_t>(tensor.num_elements()) * dtype_size(tensor.dtype));
    const uint64_t end = offset + tensor.data.size();
    members.push_back({tensor.name,
                       {{"dtype", dtype_name(tensor.dtype)},
                        {"shape", tensor.shape},
                        {"data_offsets", {offset, end}}}});
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = text.size();
  AtomicFile file(path);
  file.write(&header_bytes, sizeof(header_bytes));
  file.write(text);
  for (const TensorView& tensor : tensors) file.write(tensor.data.data(), tensor.data.size());
  file.commit();
}

std::vector<float> to_float32(const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kF64:
      return convert_all<double>(tensor, [](double x) { return static_cast<float>(x); });
    case DType::kF32:
      return convert_all<float>(tensor, [](float x) { return x; });
    case DType::kF16:
      return convert_all<uint16_t>(tensor, half_to_float);
    case DType::kBF16:
      return convert_all<bf16>(tensor, [](bf16 x) { return to_float(x); });
    default:
      throw FormatError(fmt::format("tensor {}: dtype {}, expected F64, F32, F16 or BF16",
                                    tensor.name, dtype_name(tensor.dtype)));
  }
}

}  // namespace taper
