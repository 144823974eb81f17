#include "text/llama2c_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "shared_data.h"
#include "text/framing.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace taper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Entry {
  std::string text;
  float score;
};

// Three special entries, 256 byte tokens, then `more`.
std::vector<Entry> entries_with(const std::vector<Entry>& more) {
  std::vector<Entry> entries = {{"<unk>", 0}, {"\n<s>\n", 0}, {"\n</s>\n", 0}};
  for (int byte = 0; byte < 256; ++byte)
    entries.push_back({byte_token(static_cast<unsigned char>(byte)), 0});
  entries.insert(entries.end(), more.begin(), more.end());
  return entries;
}

std::string file_of(const std::vector<Entry>& entries) {
  std::string file;
  const auto put = [&](const auto& value) {
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(int32_t{7});
  for (const Entry& entry : entries) {
    put(entry.score);
    put(static_cast<int32_t>(entry.text.size()));
    file += entry.text;
  }
  return file;
}

std::vector<Entry> entries_of(std::span<const std::byte> file) {
  std::vector<Entry> entries;
  for (size_t position = 4; position < file.size();) {
    Entry entry;
    int32_t length = 0;
    std::memcpy(&entry.score, file.data() + position, 4);
    std::memcpy(&length, file.data() + position + 4, 4);
    entry.text.assign(reinterpret_cast<const char*>(file.data()) + position + 8, length);
    position += 8 + length;
    entries.push_back(entry);
  }
  return entries;
}

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& file) {
  return parse_tokenizer(llama2c_tokenizer_to_json(std::as_bytes(std::span(file)), "test.bin"),
                         "test.json");
}

// The rule of the format as it is stated: one pass over all neighbours for each merge.
std::vector<TokenId> reference_encode(const std::vector<Entry>& entries, std::string_view text) {
  std::map<std::string, TokenId> ids;
  for (size_t id = 0; id < entries.size(); ++id)
    ids.emplace(entries[id].text, static_cast<TokenId>(id));
  std::vector<TokenId> tokens;
  if (!text.empty()) tokens.push_back(ids.at(" "));
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_sequence_length(text), 1);
    const std::string character(text.substr(0, length));
    text.remove_prefix(length);
    if (const auto found = ids.find(character); found != ids.end())
      tokens.push_back(found->second);
    else
      for (const char byte : character) tokens.push_back(3 + static_cast<unsigned char>(byte));
  }
  while (true) {
    float best_score = -1e10f;
    TokenId best_id = -1;
    size_t best = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = ids.find(entries[tokens[i]].text + entries[tokens[i + 1]].text);
      if (found == ids.end() || entries[found->second].score <= best_score) continue;
      best_score = entries[found->second].score;
      best_id = found->second;
      best = i;
    }
    if (best_id < 0) return tokens;
    tokens[best] = best_id;
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

const std::vector<Entry> kSmall = {{" ", -1},  {"a", -2},   {"b", -3},  {"c", -4}, {"ab", -6},
                                   {"bc", -5}, {"abc", -7}, {" a", -8}, {"é", -9}};

TEST(Llama2cTokenizer, MergesByBestScore_NotByPlace) {
  const auto tokenizer = tokenizer_of(file_of(entries_with(kSmall)));
  const TokenId first = 259;
  // "bc" has the better score than "ab"; then "abc" joins.
  EXPECT_THAT(tokenizer->encode("abc"), ElementsAre(first, first + 6));
  EXPECT_THAT(tokenizer->encode("ab"), ElementsAre(first, first + 4));
  EXPECT_THAT(tokenizer->encode("a"), ElementsAre(first + 7));
}

TEST(Llama2cTokenizer, UnknownCharactersAndInvalidBytes_AreByteTokens) {
  const auto tokenizer = tokenizer_of(file_of(entries_with(kSmall)));
  EXPECT_THAT(tokenizer->encode("ü\xFFé"), ElementsAre(259, 3 + 0xC3, 3 + 0xBC, 3 + 0xFF, 259 + 8));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ü\xFFé a")), "ü\xFFé a");
  EXPECT_EQ(tokenizer->token_bytes(3 + 0xFF), "\xFF");
}

TEST(Llama2cTokenizer, SpecialIds_AreKnownAndNeverSpelled) {
  const auto tokenizer = tokenizer_of(file_of(entries_with(kSmall)));
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_TRUE(tokenizer->encode("").empty());
  for (const TokenId id : tokenizer->encode("<s></s><unk>"))
    EXPECT_FALSE(tokenizer->is_special(id));
  EXPECT_THAT(tokenizer->encode("<s>", SpecialTokens::kAllow), ElementsAre(1));
}

TEST(Llama2cTokenizer, Decode_DropsOneLeadingSpaceAndSpecialTokens) {
  const auto tokenizer = tokenizer_of(file_of(entries_with(kSmall)));
  const std::vector<TokenId> ids = {1, 259, 259, 260, 2};
  EXPECT_EQ(tokenizer->decode(ids), " a");
  EXPECT_EQ(tokenizer->token_bytes(259), " ");
  EXPECT_EQ(tokenizer->token_bytes(1), "");
}

TEST(Llama2cTokenizer, MalformedFiles_AreFormatErrors) {
  const auto message_of = [](const std::string& file) -> std::string {
    try {
      tokenizer_of(file);
      return "no error";
    } catch (const FormatError& error) {
      return error.what();
    }
  };
  const std::string good = file_of(entries_with(kSmall));
  EXPECT_EQ(message_of(good), "no error");
  EXPECT_THAT(message_of(""), HasSubstr("ends within"));
  for (size_t cut = 1; cut < 10; ++cut)
    EXPECT_NE(message_of(good.substr(0, good.size() - cut)), "no error") << cut;
  std::string longest = good;
  longest[3] = '\x7f';
  EXPECT_THAT(message_of(longest), HasSubstr("longest"));
  std::string length = good;
  length[11] = '\x7f';
  EXPECT_THAT(message_of(length), HasSubstr("entry 0"));
  EXPECT_THAT(message_of(file_of({{"<unk>", 0}})), HasSubstr("expected at least 259"));
  EXPECT_THAT(message_of(file_of(entries_with({{"a", -1}, {"a", -2}}))), HasSubstr("twice"));
  EXPECT_THAT(message_of(file_of(entries_with({{"\xFF", -1}}))), HasSubstr("UTF-8"));
  EXPECT_THAT(message_of(file_of(entries_with({{"a", NAN}}))), HasSubstr("score"));
  EXPECT_THAT(message_of(file_of(entries_with({{"a", 0}, {"b", 0}, {"ab", -1}, {"ba", -1}}))),
              HasSubstr("share the score"));
  std::vector<Entry> swapped = entries_with(kSmall);
  std::swap(swapped[10], swapped[11]);
  EXPECT_THAT(message_of(file_of(swapped)), HasSubstr("byte token"));
}

class Stories260K : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto data = shared_data();
    if (!data) GTEST_SKIP() << kNoSharedData;
    file_ = read_file(*data / "stories260K/tok512.bin");
    text_ = read_file(*data / "tinystories/tinystories_eval200.txt");
    tokenizer_ = tokenizer_of(file_);
  }
  std::string file_, text_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Stories260K, EvaluationStories_Have70718PredictedTokens) {
  int64_t predicted = 0, stories = 0;
  for_each_document(text_, kDocumentSeparator, [&](std::string_view story) {
    predicted += std::min<int64_t>(511, static_cast<int64_t>(tokenizer_->encode(story).size()));
    ++stories;
  });
  EXPECT_EQ(stories, 200);
  EXPECT_EQ(predicted, 70718);
}

TEST_F(Stories260K, EvaluationStories_EqualTheBestScoreRuleAndRoundTrip) {
  const auto entries = entries_of(std::as_bytes(std::span(file_)));
  for_each_document(text_, kDocumentSeparator, [&](std::string_view story) {
    // The reference is quadratic.
    const std::string_view beginning = story.substr(0, 150);
    EXPECT_EQ(tokenizer_->encode(beginning), reference_encode(entries, beginning));
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(story)), story);
  });
}

}  // namespace
}  // namespace taper
