// Our forward against the Hugging Face class on the same tiny weights (goldens by
// tools/make_llama_goldens.py), read as their library wrote them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/file.h"
#include "core/json.h"
#include "infer/session.h"
#include "tolerances.h"

namespace taper {
namespace {

class HuggingFace : public testing::TestWithParam<const char*> {};

TEST_P(HuggingFace, TinyModel_GivesTheLogitsOfTheirClass) {
  const auto folder = std::filesystem::path(TAPER_SOURCE_DIR) / "tests/infer/goldens" / GetParam();
  const Json golden = parse_json(read_file(folder / "logits.json"), "logits.json");
  const auto ids = golden["ids"].get<std::vector<int32_t>>();

  const Model model(Checkpoint::open(folder));
  ThreadPool pool(2);
  Session session(model, pool, model.config().context);
  const auto logits = session.forward(ids, LogitRows::kAll);
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  ASSERT_EQ(logits.size(), ids.size() * vocab);
  for (size_t t = 0; t < ids.size(); ++t) {
    double largest = 0, worst = 0;
    for (size_t v = 0; v < vocab; ++v) {
      const double expected = golden["logits"][t][v];
      largest = std::max(largest, std::abs(expected));
      worst = std::max(worst, std::abs(logits[t * vocab + v] - expected));
    }
    EXPECT_LT(worst, test::kModelTolerance * largest) << "position " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, HuggingFace, testing::Values("tied", "untied"));

}  // namespace
}  // namespace taper
