// What the tensors of a model are called in the files of one kind: one table for each family and
// kind of file, read in both directions, and how a tensor lies there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/architecture.h"

namespace taper {

// How a file lays out a weight that we store as (out, in), heads with rotary halves.
enum class Transform {
  kNone,
  kTranspose,    // (in, out)
  kSplitQkv,     // (in, out) of q, k and v side by side
  kRotaryPairs,  // rows 2i and 2i + 1 of a head are rotated together, here i and i + K/2
};

struct NameRule {
  Slot slot;
  std::string_view name;  // without ".weight"; "{}" stands for the layer
  Transform transform = Transform::kNone;
};

class NameTable {
 public:
  explicit constexpr NameTable(std::span<const NameRule> rules) : rules_(rules) {}

  const NameRule& rule(Slot slot) const;
  // "model.layers.3.mlp.up_proj"
  std::string name(Place place) const;
  // The place of such a name; none when the table does not know it.
  std::optional<Place> place(std::string_view name) const;
  std::span<const NameRule> rules() const { return rules_; }  // in the file's order

 private:
  std::span<const NameRule> rules_;
};

// Hugging Face's names, which our own checkpoints use.
const NameTable& checkpoint_names(const ModelConfig& config);

// Values of the weight at `place` from a file's layout into ours, and back. The file's tensor holds
// as many values as the weight; with kSplitQkv those of q, k and v together, of which only this
// place's are read or written.
void to_our_layout(const Architecture& architecture, Place place, Transform transform,
                   std::span<const float> file, std::span<float> ours);
void to_file_layout(const Architecture& architecture, Place place, Transform transform,
                    std::span<const float> ours, std::span<float> file);

}  // namespace taper
