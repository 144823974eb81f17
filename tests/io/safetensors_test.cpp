#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/bf16.h"
#include "core/error.h"
#include "core/json.h"
#include "temp_dir.h"

namespace taper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string length_prefix(uint64_t length) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

// A file with this header text and as many data bytes.
std::string file_bytes(const std::string& header, size_t data_bytes) {
  return length_prefix(header.size()) + header + std::string(data_bytes, '\1');
}

template <typename T>
TensorView view(const std::string& name, DType dtype, std::vector<int64_t> shape,
                const std::vector<T>& values) {
  return {name, dtype, std::move(shape), std::as_bytes(std::span(values))};
}

TEST(Safetensors, RoundTrip_KeepsNamesShapesBytesAndOrder) {
  const TempDir dir;
  const std::vector<float> matrix = {1, -2, 3.5f, 4, 5, 6};
  const std::vector<double> scalar = {0.1};
  const std::vector<uint8_t> bytes = {1, 2, 3};
  const std::vector<int64_t> none;
  const std::vector<TensorView> tensors = {view("z.weight", DType::kF32, {2, 3}, matrix),
                                           view("bytes", DType::kU8, {3}, bytes),
                                           view("a.\"quoted\" \xc3\xbc", DType::kF64, {}, scalar),
                                           view("none", DType::kI64, {0, 7}, none)};
  write_safetensors(dir / "m.safetensors", tensors, {{"step", "17"}});
  const SafetensorsFile file(dir / "m.safetensors");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorView& read = file.at(tensor.name);
    EXPECT_EQ(read.dtype, tensor.dtype);
    EXPECT_EQ(read.shape, tensor.shape);
    EXPECT_TRUE(
        std::equal(read.data.begin(), read.data.end(), tensor.data.begin(), tensor.data.end()));
  }
  EXPECT_EQ(file.tensors()[0].name, "z.weight");
  EXPECT_EQ(file.tensors()[1].name, "bytes");
  EXPECT_EQ(file.at("none").num_elements(), 0);
  EXPECT_EQ(file.at("a.\"quoted\" \xc3\xbc").num_elements(), 1);
  EXPECT_THAT(file.metadata(), ElementsAre(std::pair("format", "pt"), std::pair("step", "17")));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.tensors()[0].data.data()) % 8, 0u);
}

TEST(Safetensors, AbsentTensor_IsNullOrAnErrorThatNamesIt) {
  const TempDir dir;
  write_safetensors(dir / "m.safetensors", {});
  const SafetensorsFile file(dir / "m.safetensors");
  EXPECT_EQ(file.find("x"), nullptr);
  try {
    file.at("x");
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr((dir / "m.safetensors").string() + ": tensor x is missing"));
  }
}

TEST(Safetensors, WriterGivenADuplicateOrAWrongSize_Refuses) {
  const TempDir dir;
  const std::vector<float> values(2);
  const std::vector<TensorView> twice(2, view("x", DType::kF32, {2}, values));
  EXPECT_THROW(write_safetensors(dir / "m", twice), std::logic_error);
  const std::vector<TensorView> wrong = {view("x", DType::kF32, {3}, values)};
  EXPECT_THROW(write_safetensors(dir / "m", wrong), std::logic_error);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Safetensors, MetadataAbsentNullOrEmpty_IsAccepted) {
  const TempDir dir;
  const std::string tensor = R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  for (const std::string metadata : {"", R"("__metadata__":null,)", R"("__metadata__":{},)",
                                     R"("__metadata__":{"other":"1"},)"}) {
    plain_write(dir / "m", file_bytes("{" + metadata + tensor + "}  ", 8));
    const SafetensorsFile file(dir / "m");
    EXPECT_EQ(file.tensors().size(), 1u) << metadata;
    EXPECT_EQ(file.metadata().size(), metadata.find("other") == std::string::npos ? 0u : 1u);
  }
}

TEST(Safetensors, TensorsListedInAnotherOrder_ComeInFileOrder) {
  const TempDir dir;
  plain_write(dir / "m", file_bytes(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},)"
                                    R"("empty":{"dtype":"F32","shape":[0],"data_offsets":[2,2]},)"
                                    R"("a":{"data_offsets":[0,2],"shape":[2],"dtype":"U8"}})",
                                    5));
  const SafetensorsFile file(dir / "m");
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "empty");
  EXPECT_EQ(file.tensors()[2].name, "b");
}

struct Malformed {
  const char* name;
  std::string bytes;
  const char* message;  // besides the path
};

// One tensor "w" of the given entry over 8 data bytes.
std::string entry(const std::string& text, size_t data_bytes = 8) {
  return file_bytes("{\"w\":" + text + "}", data_bytes);
}

const Malformed kMalformed[] = {
    {"Empty", "", "0 bytes, a safetensors file has at least 8"},
    {"SevenBytes", std::string(7, '\0'), "7 bytes"},
    {"HeaderLongerThanFile", length_prefix(3) + "{}", "header length 3 at offset 0 goes past"},
    {"HeaderAboveLimit", length_prefix(100'000'001) + "{}", "above the limit"},
    {"HeaderLengthHuge", length_prefix(~uint64_t{0}) + "{}", "above the limit"},
    {"HeaderEmpty", length_prefix(0), "header: not valid JSON"},
    {"HeaderNotJson", file_bytes("{\"w\":", 0), "header: not valid JSON"},
    {"HeaderList", file_bytes("[]", 0), "header is not a JSON object"},
    {"HeaderInvalidUtf8", file_bytes("{\"\xff\":1}", 0), "header: not valid JSON"},
    {"HeaderNestedDeeply", file_bytes(std::string(5000, '['), 0), "nested deeper"},
    {"DuplicateName",
     file_bytes(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                8),
     "duplicate key \"w\""},
    {"EntryNotObject", entry("5"), "tensor w: its entry is not an object"},
    {"UnknownKey", entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
     "tensor w: unknown key \"x\""},
    {"DtypeMissing", entry(R"({"shape":[2],"data_offsets":[0,8]})"), "tensor w: \"dtype\" is"},
    {"DtypeUnknown", entry(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"),
     "tensor w: unknown dtype \"F31\""},
    {"DtypeLowerCase", entry(R"({"dtype":"f32","shape":[2],"data_offsets":[0,8]})"),
     "tensor w: unknown dtype \"f32\""},
    {"DtypeNumber", entry(R"({"dtype":32,"shape":[2],"data_offsets":[0,8]})"),
     "tensor w: \"dtype\" is not a string"},
    {"ShapeMissing", entry(R"({"dtype":"F32","data_offsets":[0,8]})"), "tensor w: \"shape\" is"},
    {"ShapeNotList", entry(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"),
     "tensor w: \"shape\" is not a list"},
    {"ShapeNegative", entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
     "tensor w: \"shape\" holds -2"},
    {"ShapeTwiceNegative", entry(R"({"dtype":"F32","shape":[-1,-2],"data_offsets":[0,8]})"),
     "tensor w: \"shape\" holds -1"},
    {"ShapeFraction", entry(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
     "tensor w: \"shape\" holds 2.0"},
    {"ShapeText", entry(R"({"dtype":"F32","shape":["2"],"data_offsets":[0,8]})"),
     "tensor w: \"shape\" holds \"2\""},
    {"ShapeBeyondInt64",
     entry(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]})"),
     "tensor w: the size of shape"},
    {"ProductOverflow",
     entry(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
     "tensor w: the size of shape [4294967296,4294967296] overflows"},
    {"ProductTimesSizeOverflow",
     entry(R"({"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]})"),
     "tensor w: the size of shape"},
    {"OverflowHiddenByZero",
     entry(R"({"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})", 0),
     "tensor w: the size of shape"},
    {"TooManyDimensions",
     entry(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,8],"data_offsets":[0,8]})"),
     "tensor w: 17 dimensions"},
    {"OffsetsMissing", entry(R"({"dtype":"F32","shape":[2]})"), "tensor w: \"data_offsets\" is"},
    {"OffsetsOne", entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
     "tensor w: data_offsets is not a pair"},
    {"OffsetsThree", entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"),
     "tensor w: data_offsets is not a pair"},
    {"OffsetsNegative", entry(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})"),
     "tensor w: \"data_offsets\" holds -8"},
    {"OffsetsBackwards", entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
     "tensor w: data offsets 8 to 0 run backwards"},
    {"OffsetsBeyondEnd", entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 7),
     "tensor w: data offsets 0 to 8 go past the end of the data (7 bytes)"},
    {"OffsetsHuge",
     entry(R"({"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,)"
           R"(18446744073709551615]})"),
     "tensor w: data offsets 18446744073709551614"},
    {"SizeMismatch", entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
     "tensor w: F32 of shape [3] takes 12 bytes, data offsets 0 to 8 hold 8"},
    {"ScalarMismatch", entry(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})"),
     "tensor w: F32 of shape [] takes 4 bytes"},
    {"Overlap",
     file_bytes(R"({"v":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                R"("w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                8),
     "tensor w at data offset 4 overlaps tensor v, which ends at 5"},
    {"Same",
     file_bytes(R"({"v":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                R"("w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                8),
     "tensor w at data offset 0 overlaps tensor v"},
    {"GapAtStart", entry(R"({"dtype":"U8","shape":[7],"data_offsets":[1,8]})"),
     "a gap of 1 bytes at data offset 0 before tensor w"},
    {"GapBetween",
     file_bytes(R"({"v":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                R"("w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                8),
     "a gap of 1 bytes at data offset 3 before tensor w"},
    {"TrailingBytes", entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 9),
     "1 bytes at data offset 8 belong to no tensor (the last one is w)"},
    {"BytesWithoutTensors", file_bytes("{}", 4), "4 bytes at data offset 0 belong to no tensor"},
    {"MetadataList", file_bytes(R"({"__metadata__":[]})", 0), "__metadata__ is neither"},
    {"MetadataNumber", file_bytes(R"({"__metadata__":{"step":17}})", 0),
     "__metadata__: the value of \"step\" is not a string"},
};

class MalformedSafetensors : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedSafetensors, Opening_NamesTheFileAndTheFault) {
  const TempDir dir;
  const auto path = dir / "m.safetensors";
  plain_write(path, GetParam().bytes);
  try {
    const SafetensorsFile file(path);
    FAIL() << "opened";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ": "));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, MalformedSafetensors, testing::ValuesIn(kMalformed),
                         [](const auto& test) { return std::string(test.param.name); });

// Every prefix of a good file, and every byte of its header set to something else, is read or
// refused with a FormatError, never worse.
TEST(Safetensors, TruncatedOrDamagedAnywhere_IsNeverACrash) {
  const TempDir dir;
  const std::vector<float> six = {1, 2, 3, 4, 5, 6}, two = {1, 2};
  const std::vector<TensorView> tensors = {view("a", DType::kF32, {2, 1}, two),
                                           view("b", DType::kF32, {2, 3}, six)};
  write_safetensors(dir / "good", tensors);
  const std::string good = read_file(dir / "good");
  const auto try_bytes = [&](const std::string& bytes) {
    plain_write(dir / "bad", bytes);
    try {
      const SafetensorsFile file(dir / "bad");
      for (const TensorView& tensor : file.tensors())
        if (tensor.dtype == DType::kF32) (void)to_float32(tensor);
      return true;
    } catch (const FormatError&) {
      return false;
    }
  };
  for (size_t length = 0; length < good.size(); length += 3)
    EXPECT_FALSE(try_bytes(good.substr(0, length))) << length;
  for (size_t i = 0; i < good.size() - 32; ++i) {
    for (const char value : {'\0', '9', '"', '\xff'}) {
      std::string bytes = good;
      bytes[i] = value;
      try_bytes(bytes);
    }
  }
}

TEST(ToFloat32, EveryFloatingType_ConvertsExactly) {
  const std::vector<double> f64 = {0.5, -1e300, 3.0};
  EXPECT_THAT(to_float32(view("x", DType::kF64, {3}, f64)),
              ElementsAre(0.5f, -std::numeric_limits<float>::infinity(), 3.0f));
  const std::vector<float> f32 = {0.1f, -2};
  EXPECT_EQ(to_float32(view("x", DType::kF32, {2}, f32)), f32);
  const std::vector<bf16> brain = {to_bf16(1.5f), to_bf16(-0.0f), to_bf16(1e30f)};
  EXPECT_EQ(to_float32(view("x", DType::kBF16, {3}, brain))[2], to_float(brain[2]));
  const std::vector<uint16_t> half = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x83ff,
                                      0x0400, 0x8000, 0x7c00, 0xfc00, 0x3555};
  EXPECT_THAT(to_float32(view("x", DType::kF16, {10}, half)),
              ElementsAre(1.0f, -2.0f, 65504.0f, 0x1p-24f, -0x3ffp-24f, 0x1p-14f, -0.0f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), 0x1.554p-2f));
  const std::vector<uint16_t> nan = {0x7e00};
  EXPECT_TRUE(std::isnan(to_float32(view("x", DType::kF16, {1}, nan))[0]));
}

TEST(ToFloat32, UnalignedBytes_AreRead) {
  std::vector<std::byte> bytes(9);
  const float value = 2.5f;
  std::memcpy(bytes.data() + 1, &value, 4);
  std::memcpy(bytes.data() + 5, &value, 4);
  const TensorView tensor = {"x", DType::kF32, {2}, std::span(bytes).subspan(1)};
  EXPECT_THAT(to_float32(tensor), ElementsAre(2.5f, 2.5f));
}

TEST(ToFloat32, IntegerTensor_IsRefusedByName) {
  const std::vector<int32_t> values = {1};
  try {
    to_float32(view("ids", DType::kI32, {1}, values));
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor ids: dtype I32, expected F64, F32, F16 or BF16"));
  }
}

TEST(DTypes, Sizes_AreThoseOfTheFormat) {
  for (const auto& [dtype, name, size] : {std::tuple(DType::kF64, "F64", 8),
                                          {DType::kF32, "F32", 4},
                                          {DType::kF16, "F16", 2},
                                          {DType::kBF16, "BF16", 2},
                                          {DType::kI64, "I64", 8},
                                          {DType::kI32, "I32", 4},
                                          {DType::kU32, "U32", 4},
                                          {DType::kI16, "I16", 2},
                                          {DType::kI8, "I8", 1},
                                          {DType::kU8, "U8", 1},
                                          {DType::kBool, "BOOL", 1}}) {
    EXPECT_EQ(dtype_name(dtype), name);
    EXPECT_EQ(dtype_size(dtype), static_cast<size_t>(size));
  }
}

}  // namespace
}  // namespace taper
