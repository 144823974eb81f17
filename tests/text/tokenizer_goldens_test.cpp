// Ids equal those of the Hugging Face `tokenizers` library, under every supported setting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "text/goldens.h"
#include "text/tokenizer.h"

namespace taper {
namespace {

struct Variant {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::vector<TokenId>> allow, as_text;
};

const std::vector<std::string>& golden_texts() {
  static const auto texts = golden_json("texts.json")["texts"].get<std::vector<std::string>>();
  return texts;
}

// Puts the shared vocabulary back into each variant's settings.
const std::vector<Variant>& variants() {
  static const auto list = [] {
    const Json trained = golden_json("hf_trained.json");
    std::vector<Variant> made;
    const Json golden = golden_json("texts.json");
    for (const Json& entry : golden["variants"]) {
      Json file = entry["settings"];
      file["model"]["vocab"] = trained["model"]["vocab"];
      file["model"]["merges"] = trained["model"]["merges"];
      Variant variant;
      variant.name = entry["name"].get<std::string>();
      variant.tokenizer = parse_tokenizer(file.dump(), variant.name);
      variant.allow = entry["allow"].get<std::vector<std::vector<TokenId>>>();
      variant.as_text = variant.allow;
      for (const auto& [index, ids] : entry["as_text"].items())
        variant.as_text.at(std::stoul(index)) = ids.get<std::vector<TokenId>>();
      made.push_back(std::move(variant));
    }
    return made;
  }();
  return list;
}

TEST(TokenizerGoldens, EveryVariantAndText_IdsEqualHuggingFace) {
  ASSERT_GE(variants().size(), 8u);
  for (const Variant& variant : variants()) {
    for (size_t i = 0; i < golden_texts().size(); ++i) {
      const std::string& text = golden_texts()[i];
      EXPECT_EQ(variant.tokenizer->encode(text, SpecialTokens::kAllow), variant.allow[i])
          << variant.name << ": " << Json(text).dump();
      EXPECT_EQ(variant.tokenizer->encode(text), variant.as_text[i])
          << variant.name << ", as text: " << Json(text).dump();
    }
  }
}

TEST(TokenizerGoldens, EveryVariant_CanonicalFormGivesTheSameIdsAndFingerprint) {
  for (const Variant& variant : variants()) {
    const auto again = parse_tokenizer(variant.tokenizer->json(), variant.name);
    EXPECT_EQ(again->fingerprint(), variant.tokenizer->fingerprint()) << variant.name;
    for (size_t i = 0; i < golden_texts().size(); ++i)
      EXPECT_EQ(again->encode(golden_texts()[i]), variant.as_text[i]) << variant.name;
  }
}

TEST(TokenizerGoldens, VariantsThatDiffer_FingerprintsDiffer) {
  std::set<uint64_t> seen;
  for (const Variant& variant : variants()) seen.insert(variant.tokenizer->fingerprint());
  // "split" spells the same steps as "plain" in another way.
  EXPECT_GE(seen.size(), variants().size() - 1);
}

TEST(TokenizerGoldens, TextWithoutSpecials_DecodesToItself) {
  const Tokenizer& plain = *variants()[0].tokenizer;
  for (const std::string& text : golden_texts()) EXPECT_EQ(plain.decode(plain.encode(text)), text);
}

TEST(TokenizerGoldens, AsText_NeverASpecialId) {
  for (const Variant& variant : variants())
    for (const std::string& text : golden_texts())
      for (const TokenId id : variant.tokenizer->encode(text))
        ASSERT_FALSE(variant.tokenizer->is_special(id)) << variant.name << ": " << text;
}

}  // namespace
}  // namespace taper
