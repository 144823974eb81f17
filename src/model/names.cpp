#include "model/names.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace taper {
namespace {

constexpr std::string_view kLayer = "{}";

constexpr NameRule kHuggingFaceLlama[] = {
    {Slot::kEmbedding, "model.embed_tokens"},
    {Slot::kAttentionNorm, "model.layers.{}.input_layernorm"},
    {Slot::kQ, "model.layers.{}.self_attn.q_proj"},
    {Slot::kK, "model.layers.{}.self_attn.k_proj"},
    {Slot::kV, "model.layers.{}.self_attn.v_proj"},
    {Slot::kAttentionOut, "model.layers.{}.self_attn.o_proj"},
    {Slot::kMlpNorm, "model.layers.{}.post_attention_layernorm"},
    {Slot::kGate, "model.layers.{}.mlp.gate_proj"},
    {Slot::kUp, "model.layers.{}.mlp.up_proj"},
    {Slot::kDown, "model.layers.{}.mlp.down_proj"},
    {Slot::kFinalNorm, "model.norm"},
    {Slot::kHead, "lm_head"},
};
constexpr NameTable kHuggingFaceLlamaTable{kHuggingFaceLlama};

// Where value (row, column) of the weight at `place` lies in the file's tensor.
class FileIndex {
 public:
  FileIndex(const Architecture& architecture, Place place, Transform transform)
      : transform_(transform) {
    const ModelConfig& c = architecture.config();
    const auto& parts = architecture.parts();
    const auto part = std::find_if(parts.begin(), parts.end(),
                                   [&](const Part& each) { return each.place == place; });
    TAPER_CHECK(part != parts.end());
    rows_ = part->shape.front();
    columns_ = part->size() / rows_;
    half_ = c.head_width / 2;
    file_rows_ = rows_;
    if (transform != Transform::kSplitQkv) return;
    TAPER_CHECK(place.slot == Slot::kQ || place.slot == Slot::kK || place.slot == Slot::kV);
    file_rows_ = c.q_width() + 2 * c.kv_width();
    if (place.slot != Slot::kQ) first_row_ = c.q_width();
    if (place.slot == Slot::kV) first_row_ += c.kv_width();
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t file_size() const { return file_rows_ * columns_; }

  int64_t operator()(int64_t row, int64_t column) const {
    switch (transform_) {
      case Transform::kNone:
        break;
      case Transform::kTranspose:
      case Transform::kSplitQkv:
        return column * file_rows_ + first_row_ + row;
      case Transform::kRotaryPairs: {
        const int64_t head = row / (2 * half_), in_head = row % (2 * half_);
        row = 2 * (head * half_ + in_head % half_) + in_head / half_;
        break;
      }
    }
    return row * columns_ + column;
  }

 private:
  Transform transform_;
  int64_t rows_ = 0, columns_ = 0, half_ = 0;
  int64_t file_rows_ = 0, first_row_ = 0;
};

template <typename Copy>
void for_each_value(const FileIndex& index, size_t ours, size_t file, const Copy& copy) {
  TAPER_CHECK(static_cast<int64_t>(ours) == index.rows() * index.columns());
  TAPER_CHECK(static_cast<int64_t>(file) == index.file_size());
  size_t at = 0;
  for (int64_t row = 0; row < index.rows(); ++row)
    for (int64_t column = 0; column < index.columns(); ++column, ++at)
      copy(at, static_cast<size_t>(index(row, column)));
}

}  // namespace

const NameRule& NameTable::rule(Slot slot) const {
  const auto it = std::find_if(rules_.begin(), rules_.end(),
                               [&](const NameRule& rule) { return rule.slot == slot; });
  TAPER_CHECK(it != rules_.end());
  return *it;
}

std::string NameTable::name(Place place) const {
  const std::string_view pattern = rule(place.slot).name;
  const size_t at = pattern.find(kLayer);
  if (at == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, at)) + std::to_string(place.layer) +
         std::string(pattern.substr(at + kLayer.size()));
}

std::optional<Place> NameTable::place(std::string_view name) const {
  for (const NameRule& rule : rules_) {
    const size_t at = rule.name.find(kLayer);
    if (at == std::string_view::npos) {
      if (name == rule.name) return Place{rule.slot};
      continue;
    }
    const std::string_view before = rule.name.substr(0, at);
    const std::string_view after = rule.name.substr(at + kLayer.size());
    if (!name.starts_with(before) || !name.ends_with(after)) continue;
    if (name.size() <= before.size() + after.size()) continue;
    const std::string_view number =
        name.substr(before.size(), name.size() - before.size() - after.size());
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layer);
    if (error != std::errc() || end != number.data() + number.size() || layer < 0) continue;
    return Place{rule.slot, layer};
  }
  return std::nullopt;
}

const NameTable& checkpoint_names([[maybe_unused]] const ModelConfig& config) {
  return kHuggingFaceLlamaTable;  // the one family there is
}

void to_our_layout(const Architecture& architecture, Place place, Transform transform,
                   std::span<const float> file, std::span<float> ours) {
  for_each_value(
      FileIndex(architecture, place, transform), ours.size(), file.size(),
      [&](size_t our, size_t their) { ours[our] = file[their]; });
}

void to_file_layout(const Architecture& architecture, Place place, Transform transform,
                    std::span<const float> ours, std::span<float> file) {
  for_each_value(
      FileIndex(architecture, place, transform), ours.size(), file.size(),
      [&](size_t our, size_t their) { file[their] = ours[our]; });
}

}  // namespace taper
