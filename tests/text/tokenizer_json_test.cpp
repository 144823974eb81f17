// What a tokenizer.json may and may not say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "text/byte_alphabet.h"
#include "text/llama2c_tokenizer.h"
#include "text/tokenizer_spec.h"

namespace taper {
namespace {

using ::testing::HasSubstr;

// A small valid file: <|endoftext|>, the bytes, "ab", "abc".
Json small_file() {
  TokenizerSpec spec;
  spec.vocab = {"<|endoftext|>"};
  for (int byte = 0; byte < 256; ++byte)
    spec.vocab.push_back(bytes_to_chars(std::string(1, static_cast<char>(byte))));
  spec.vocab.push_back("ab");
  spec.vocab.push_back("abc");
  spec.merges = {{1 + 'a', 1 + 'b', 257}, {257, 1 + 'c', 258}};
  spec.added = {{0, "<|endoftext|>"}};
  spec.steps = {SplitStep::kGpt2};
  return parse_json(tokenizer_spec_to_json(spec), "small");
}

std::string message_of(const Json& file) {
  try {
    parse_tokenizer(file.dump(), "t.json");
    return "no error";
  } catch (const FormatError& error) {
    return error.what();
  }
}

std::string message_after(const std::function<void(Json&)>& change) {
  Json file = small_file();
  change(file);
  return message_of(file);
}

TEST(TokenizerJson, SmallFile_Reads) {
  const auto tokenizer = parse_tokenizer(small_file().dump(), "t.json");
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(tokenizer->encode("abcab"), (std::vector<TokenId>{258, 257}));
  EXPECT_EQ(tokenizer->token_to_id("abc"), 258);
  EXPECT_EQ(tokenizer->token_to_id("abcd"), -1);
  EXPECT_EQ(tokenizer->eos_id(), 0);
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(1));
}

TEST(TokenizerJson, InvalidUtf8Text_IsKeptByteForByte) {
  const auto tokenizer = parse_tokenizer(small_file().dump(), "t.json");
  std::string all;
  for (int i = 0; i < 3; ++i)
    for (int byte = 255; byte >= 0; --byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
  EXPECT_EQ(tokenizer->encode("\xFF\xC3"), (std::vector<TokenId>{1 + 0xFF, 1 + 0xC3}));
}

TEST(TokenizerJson, ManyEqualLetters_EncodeQuickly) {
  // A quadratic merge would take minutes here.
  Json file = small_file();
  file["model"]["vocab"]["aa"] = 259;
  file["model"]["vocab"]["aaaa"] = 260;
  file["model"]["merges"].push_back("a a");
  file["model"]["merges"].push_back("aa aa");
  const auto tokenizer = parse_tokenizer(file.dump(), "t.json");
  EXPECT_EQ(tokenizer->encode(std::string(1 << 20, 'a')), std::vector<TokenId>(1 << 18, 260));
  // Long and short words follow one rule: odd counts leave the rest at the right.
  for (const int count : {7, 45, 47, 48, 49, 50, 51, 63}) {
    const auto ids = tokenizer->encode(std::string(count, 'a'));
    std::vector<TokenId> expected(count / 4, 260);
    if (count % 4 >= 2) expected.push_back(259);
    if (count % 2 == 1) expected.push_back(1 + 'a');
    EXPECT_EQ(ids, expected) << count;
  }
}

TEST(TokenizerJson, FingerprintIgnoresLayoutButNotContent) {
  const Json file = small_file();
  const uint64_t fingerprint = parse_tokenizer(file.dump(), "t")->fingerprint();
  EXPECT_EQ(parse_tokenizer(file.dump(4), "t")->fingerprint(), fingerprint);
  Json pairs = file;
  pairs["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"ab", "c"})});
  EXPECT_EQ(parse_tokenizer(pairs.dump(), "t")->fingerprint(), fingerprint);
  Json other = file;
  other["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_NE(parse_tokenizer(other.dump(), "t")->fingerprint(), fingerprint);
}

TEST(TokenizerJson, PartsThatCannotBeReproduced_AreNamed) {
  const auto set = [](const char* pointer, Json value) {
    return message_after([&](Json& file) { file[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_EQ(set("/version", "1.0"), "no error");
  EXPECT_THAT(set("/normalizer", {{"type", "NFC"}}), HasSubstr("normalizer"));
  EXPECT_THAT(set("/pre_tokenizer", {{"type", "Whitespace"}}), HasSubstr("pre_tokenizer"));
  EXPECT_THAT(set("/pre_tokenizer", nullptr), HasSubstr("pre_tokenizer"));
  EXPECT_THAT(set("/decoder", nullptr), HasSubstr("decoder"));
  EXPECT_THAT(set("/post_processor", {{"type", "BertProcessing"}}), HasSubstr("post_processor"));
  EXPECT_THAT(set("/truncation", {{"max_length", 8}}), HasSubstr("truncation"));
  EXPECT_THAT(set("/padding", Json::object()), HasSubstr("padding"));
  EXPECT_THAT(set("/model/type", "WordPiece"), HasSubstr("WordPiece"));
  EXPECT_THAT(set("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(set("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(set("/model/continuing_subword_prefix", "##"),
              HasSubstr("continuing_subword_prefix"));
  EXPECT_THAT(set("/added_tokens/0/lstrip", true), HasSubstr("lstrip"));
  EXPECT_THAT(set("/added_tokens/0/single_word", true), HasSubstr("single_word"));
  const Json other_pattern = {{"type", "Split"},
                              {"pattern", {{"Regex", "\\s+"}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const Json byte_level = {{"type", "ByteLevel"}, {"use_regex", false}};
  const auto sequence = [](const Json& first, const Json& second) {
    return Json{{"type", "Sequence"}, {"pretokenizers", Json::array({first, second})}};
  };
  EXPECT_THAT(set("/pre_tokenizer", sequence(other_pattern, byte_level)), HasSubstr("Split"));
  EXPECT_THAT(set("/pre_tokenizer", sequence(byte_level, other_pattern)), HasSubstr("ByteLevel"));
}

TEST(TokenizerJson, BrokenVocabularies_AreRefused) {
  EXPECT_THAT(message_after([](Json& f) { f["model"]["vocab"]["ab"] = 258; }),
              HasSubstr("belongs to both"));
  EXPECT_THAT(message_after([](Json& f) { f["model"]["vocab"]["x y"] = 300; }),
              HasSubstr("no entry has id 259"));
  EXPECT_THAT(message_after([](Json& f) { f["model"]["vocab"]["zz"] = -1; }), HasSubstr("\"zz\""));
  EXPECT_THAT(message_after([](Json& f) { f["model"]["vocab"]["zz"] = 1e15; }),
              HasSubstr("\"zz\""));
  EXPECT_THAT(message_after([](Json& f) { f["model"]["vocab"]["zz"] = int64_t{1} << 40; }),
              HasSubstr("\"zz\""));
  EXPECT_THAT(message_after([](Json& f) { f["model"]["vocab"]["zz"] = "7"; }), HasSubstr("\"zz\""));
  EXPECT_THAT(message_after([](Json& f) { f["model"]["vocab"] = Json::array(); }),
              HasSubstr("vocab"));
  EXPECT_THAT(message_after([](Json& f) { f.erase("model"); }), HasSubstr("model"));
  EXPECT_THAT(message_of(Json::array()), HasSubstr("object"));
  EXPECT_THAT(message_after([](Json& f) { f["added_tokens"][0]["id"] = 5; }),
              HasSubstr("the vocabulary says 0"));
  EXPECT_THAT(message_after([](Json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); }),
              HasSubstr("twice"));
  EXPECT_THAT(message_after([](Json& f) { f["added_tokens"][0]["content"] = ""; }),
              HasSubstr("some text"));
  EXPECT_THAT(message_after([](Json& f) {
                f["added_tokens"].push_back({{"id", 258}, {"content", "abc"}, {"special", true}});
              }),
              HasSubstr("makes the special token"));
  EXPECT_THAT(message_after([](Json& f) {
                f["added_tokens"].push_back({{"id", 98}, {"content", "a"}, {"special", true}});
              }),
              HasSubstr("token of a byte"));
}

TEST(TokenizerJson, BrokenMerges_AreRefused) {
  const auto with = [](const Json& merge) {
    return message_after([&](Json& f) { f["model"]["merges"].push_back(merge); });
  };
  EXPECT_THAT(with("x y"), HasSubstr("\"xy\" is not in the vocabulary"));
  EXPECT_THAT(with("abx c"), HasSubstr("merges[2]"));
  EXPECT_THAT(with("ab"), HasSubstr("merges[2]"));
  EXPECT_THAT(with("a b c"), HasSubstr("merges[2]"));
  EXPECT_THAT(with(Json::array({"a"})), HasSubstr("merges[2]"));
  EXPECT_THAT(with(Json::array({"a", 1})), HasSubstr("merges[2]"));
  EXPECT_THAT(with(7), HasSubstr("merges[2]"));
  EXPECT_THAT(with("a b"), HasSubstr("appears twice"));
  EXPECT_THAT(message_after([](Json& f) { f["model"]["merges"] = 1; }), HasSubstr("merges"));
}

TEST(TokenizerJson, VocabularyWithoutSomeBytes_LeavesThemOutButNotWithAnUnknownToken) {
  Json file = small_file();
  // The last id moves into the place of byte 0xFF.
  const std::string last = bytes_to_chars("\xFF");
  file["model"]["vocab"].erase(last);
  file["model"]["vocab"]["abc"] = 256;
  file["model"]["vocab"]["ab"] = 257;
  const auto tokenizer = parse_tokenizer(file.dump(), "t.json");
  EXPECT_EQ(tokenizer->encode("a\xFF!"), (std::vector<TokenId>{1 + 'a', 1 + '!'}));
  file["model"]["unk_token"] = "<|endoftext|>";
  EXPECT_THAT(message_of(file), HasSubstr("unk_token"));
}

TEST(TokenizerJson, TruncatedAtAnyByte_IsAFormatError) {
  const std::string text = small_file().dump();
  for (size_t size = 0; size < text.size(); size += 97)
    EXPECT_THROW(parse_tokenizer(text.substr(0, size), "t.json"), FormatError) << size;
}

TEST(TokenizerJson, CutPoint_PartsGiveTheIdsOfTheWhole) {
  const auto tokenizer = parse_tokenizer(small_file().dump(), "t.json");
  const std::string text = "abc  ab \n\n abc'll 12 ab!   abc\xC2\xA0 ab \xFF ab";
  const auto whole = tokenizer->encode(text);
  int cuts = 0;
  for (size_t limit = 1; limit < text.size(); ++limit) {
    const size_t cut = tokenizer->cut_point(text, limit);
    if (cut == text.size()) continue;
    EXPECT_LE(cut, limit);
    auto parts = tokenizer->encode(text.substr(0, cut));
    const auto rest = tokenizer->encode(text.substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole) << cut;
    ++cuts;
  }
  EXPECT_GT(cuts, 10);
}

}  // namespace
}  // namespace taper
