#include "model/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/random.h"
#include "model/error_matchers.h"
#include "model/names.h"
#include "model/random_checkpoint.h"

namespace taper {
namespace {

using testing::ElementsAre;

ModelConfig two_layers(bool tied) {
  ModelConfig config = test::random_config(3, tied);
  config.num_layers = 2;
  return config;
}

// LayerNorm, learned positions, GELU, biases everywhere: what GPT-2 is made of.
ModelConfig gpt2_like() {
  ModelConfig config = two_layers(true);
  config.norm = NormKind::kLayerNorm;
  config.positions = PositionKind::kLearned;
  config.mlp = MlpKind::kGelu;
  config.qkv_bias = config.linear_bias = true;
  return config;
}

std::vector<Slot> slots_of(const Architecture& architecture, int64_t layer) {
  std::vector<Slot> slots;
  for (const Part& part : architecture.parts())
    if (part.place.layer == layer) slots.push_back(part.place.slot);
  return slots;
}

TEST(Architecture, Llama_HasItsPartsInExecutionOrder) {
  const Architecture tied(two_layers(true)), untied(two_layers(false));
  EXPECT_THAT(slots_of(tied, -1), ElementsAre(Slot::kEmbedding, Slot::kFinalNorm));
  EXPECT_THAT(slots_of(untied, -1), ElementsAre(Slot::kEmbedding, Slot::kFinalNorm, Slot::kHead));
  for (const int64_t layer : {0, 1})
    EXPECT_THAT(slots_of(tied, layer),
                ElementsAre(Slot::kAttentionNorm, Slot::kQ, Slot::kK, Slot::kV, Slot::kAttentionOut,
                            Slot::kMlpNorm, Slot::kGate, Slot::kUp, Slot::kDown));
  EXPECT_THAT(tied.norms(), ElementsAre(Place{Slot::kAttentionNorm, 0}, Place{Slot::kMlpNorm, 0},
                                        Place{Slot::kAttentionNorm, 1}, Place{Slot::kMlpNorm, 1},
                                        Place{Slot::kFinalNorm}));
}

TEST(Architecture, EveryNorm_IsReadByTheLayersBehindIt) {
  const Architecture tied(two_layers(true)), untied(two_layers(false));
  EXPECT_THAT(tied.readers(2),
              ElementsAre(Place{Slot::kQ, 1}, Place{Slot::kK, 1}, Place{Slot::kV, 1}));
  EXPECT_THAT(tied.readers(1), ElementsAre(Place{Slot::kGate, 0}, Place{Slot::kUp, 0}));
  EXPECT_THAT(tied.readers(4), ElementsAre(Place{Slot::kEmbedding}));
  EXPECT_THAT(untied.readers(4), ElementsAre(Place{Slot::kHead}));
  EXPECT_THAT(Architecture(gpt2_like()).readers(1), ElementsAre(Place{Slot::kUp, 0}));
}

TEST(Architecture, Gpt2Kinds_ChangePartsAndBiases) {
  const Architecture architecture(gpt2_like());
  const ModelConfig& c = architecture.config();
  EXPECT_THAT(slots_of(architecture, -1),
              ElementsAre(Slot::kEmbedding, Slot::kPositions, Slot::kFinalNorm));
  int64_t expected = (c.vocab_size + c.context + 2) * c.width;  // the final norm has a bias
  const int64_t qkv = c.q_width() + 2 * c.kv_width();
  expected += c.num_layers * (4 * c.width + qkv * (c.width + 1) + c.width * (c.q_width() + 1) +
                              c.ffn_width * (c.width + 1) + c.width * (c.ffn_width + 1));
  EXPECT_EQ(architecture.num_parameters(), expected);
  for (const Part& part : architecture.parts())
    EXPECT_EQ(part.bias,
              part.place.slot != Slot::kEmbedding && part.place.slot != Slot::kPositions);
}

TEST(Architecture, KindsThatAreNotBuilt_AreRefusedByTheConfiguration) {
  two_layers(true).validate("model");
  EXPECT_ERROR(gpt2_like().validate("model"), ConfigError, "RMSNorm");
  ModelConfig biased = two_layers(true);
  biased.qkv_bias = true;
  EXPECT_ERROR(biased.validate("model"), ConfigError, "without biases");
}

TEST(NameTable, EveryPlace_HasANameThatLeadsBackToIt) {
  const Architecture architecture(two_layers(false));
  const NameTable& names = checkpoint_names(architecture.config());
  std::set<std::string> seen;
  for (const Part& part : architecture.parts()) {
    const std::string name = names.name(part.place);
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_EQ(names.place(name), part.place) << name;
  }
  EXPECT_EQ(names.name({Slot::kUp, 17}), "model.layers.17.mlp.up_proj");
  for (const char* name :
       {"", "lm_heads", "model.layers..mlp.up_proj", "model.layers.x.mlp.up_proj",
        "model.layers.-1.mlp.up_proj", "model.layers.1.mlp.up_proj.weight",
        "model.layers.99999999999999999999.mlp.up_proj"})
    EXPECT_EQ(names.place(name), std::nullopt) << name;
}

std::vector<float> counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// A weight whose value says where it lies: row * 1000 + column.
float mark(int64_t row, int64_t column) { return static_cast<float>(row * 1000 + column); }

TEST(Transform, Transpose_TurnsASquareMatrixToo) {
  ModelConfig config = two_layers(true);
  config.width = config.q_width();
  const Architecture architecture(config);
  const int64_t d = config.width;
  std::vector<float> ours(static_cast<size_t>(d * d));
  to_our_layout(architecture, {Slot::kAttentionOut, 1}, Transform::kTranspose, counted(d * d),
                ours);
  for (int64_t row = 0; row < d; ++row)
    for (int64_t column = 0; column < d; ++column)
      ASSERT_EQ(ours[static_cast<size_t>(row * d + column)], static_cast<float>(column * d + row));
}

TEST(Transform, SplitQkv_ReadsEachFromItsColumns) {
  const Architecture architecture(two_layers(true));
  const ModelConfig& c = architecture.config();
  const int64_t together = c.q_width() + 2 * c.kv_width();
  std::vector<float> file;
  for (int64_t in = 0; in < c.width; ++in)
    for (int64_t out = 0; out < together; ++out) file.push_back(mark(out, in));
  int64_t first = 0;
  for (const auto& [slot, rows] :
       {std::pair{Slot::kQ, c.q_width()}, {Slot::kK, c.kv_width()}, {Slot::kV, c.kv_width()}}) {
    std::vector<float> ours(static_cast<size_t>(rows * c.width));
    to_our_layout(architecture, {slot, 0}, Transform::kSplitQkv, file, ours);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < c.width; ++column)
        ASSERT_EQ(ours[static_cast<size_t>(row * c.width + column)], mark(first + row, column));
    first += rows;
  }
}

// Grouped heads with num_heads / num_kv_heads != num_kv_heads, each turned within itself.
TEST(Transform, RotaryPairs_GoIntoTheHalvesOfTheirHead) {
  const Architecture architecture(two_layers(true));
  const ModelConfig& c = architecture.config();
  for (const auto& [slot, heads] : {std::pair{Slot::kQ, c.num_heads}, {Slot::kK, c.num_kv_heads}}) {
    const int64_t rows = heads * c.head_width;
    std::vector<float> file, ours(static_cast<size_t>(rows * c.width));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < c.width; ++column) file.push_back(mark(row, column));
    to_our_layout(architecture, {slot, 1}, Transform::kRotaryPairs, file, ours);
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t pair = 0; pair < c.head_width / 2; ++pair) {
        const int64_t row = head * c.head_width;
        const auto at = [&](int64_t of) { return ours[static_cast<size_t>((row + of) * c.width)]; };
        ASSERT_EQ(at(pair), mark(row + 2 * pair, 0));
        ASSERT_EQ(at(pair + c.head_width / 2), mark(row + 2 * pair + 1, 0));
      }
    }
  }
}

TEST(Transform, ThereAndBack_ChangesNothing) {
  const Architecture architecture(two_layers(true));
  for (const Transform transform :
       {Transform::kNone, Transform::kTranspose, Transform::kSplitQkv, Transform::kRotaryPairs}) {
    for (const Slot slot : {Slot::kQ, Slot::kK, Slot::kV}) {
      const auto& parts = architecture.parts();
      const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& each) {
        return each.place == Place{slot, 1};
      });
      const std::vector<float> ours = counted(part->size());
      const ModelConfig& c = architecture.config();
      const int64_t file_rows =
          transform == Transform::kSplitQkv ? c.q_width() + 2 * c.kv_width() : part->shape[0];
      std::vector<float> file(static_cast<size_t>(file_rows * c.width), -1), again(ours.size());
      to_file_layout(architecture, part->place, transform, ours, file);
      to_our_layout(architecture, part->place, transform, file, again);
      EXPECT_EQ(again, ours);
      EXPECT_EQ(std::count(file.begin(), file.end(), -1.0f), std::ssize(file) - std::ssize(ours));
    }
  }
}

}  // namespace
}  // namespace taper
