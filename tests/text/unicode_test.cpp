#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "text/goldens.h"
#include "text/word_split.h"

namespace taper {
namespace {

std::vector<std::string> gpt2_words(std::string_view text) {
  std::vector<std::string> words;
  split_gpt2(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

using Words = std::vector<std::string>;

TEST(CharClass, EveryCodePoint_EqualsHuggingFaceUnlessUnassigned) {
  std::vector<CharClass> expected(0x110000, CharClass::kOther);
  for (const Json& run : golden_json("classes.json")) {
    const auto kind = run[2].get<std::string>();
    for (auto c = run[0].get<uint32_t>(); c <= run[1].get<uint32_t>(); ++c)
      expected[c] = kind == "L"   ? CharClass::kLetter
                    : kind == "N" ? CharClass::kNumber
                                  : CharClass::kSpace;
  }
  int later = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (char_class(c) == expected[c]) continue;
    // Their Unicode tables may be newer or older than those of utf8proc.
    const bool unassigned =
        utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_CN;
    EXPECT_TRUE(unassigned || expected[c] == CharClass::kOther) << "U+" << std::hex << uint32_t{c};
    ++later;
  }
  EXPECT_LT(later, 6000);
}

TEST(Utf8, EveryCodePoint_RoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(bytes, c);
    ASSERT_EQ(utf8_sequence_length(bytes), bytes.size());
    ASSERT_EQ(utf8_code_point(bytes), c);
  }
}

TEST(Utf8, MalformedSequences_HaveNoLength) {
  for (const char* bytes :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    EXPECT_EQ(utf8_sequence_length(bytes), 0u) << bytes;
  EXPECT_EQ(utf8_sequence_length(""), 0u);
}

TEST(SplitGpt2, WhiteSpaceRuns_LeaveTheLastCharacterToTheNextWord) {
  EXPECT_EQ(gpt2_words("a  b"), (Words{"a", " ", " b"}));
  EXPECT_EQ(gpt2_words("a \n b"), (Words{"a", " \n", " b"}));
  EXPECT_EQ(gpt2_words("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(gpt2_words("a  "), (Words{"a", "  "}));
  EXPECT_EQ(gpt2_words(" "), (Words{" "}));
  EXPECT_EQ(gpt2_words(""), (Words{}));
  EXPECT_EQ(gpt2_words("\xC2\xA0\xC2\xA0x"), (Words{"\xC2\xA0", "\xC2\xA0", "x"}));
}

TEST(SplitGpt2, Contractions_AreLowerCaseOnlyAndNotAfterOtherPunctuation) {
  EXPECT_EQ(gpt2_words("I'll it'S we're"), (Words{"I", "'ll", " it", "'", "S", " we", "'re"}));
  EXPECT_EQ(gpt2_words("''s '"), (Words{"''", "s", " '"}));
  EXPECT_EQ(gpt2_words("'l"), (Words{"'", "l"}));
  EXPECT_EQ(gpt2_words("'"), (Words{"'"}));
}

TEST(SplitGpt2, InvalidBytes_JoinPunctuationAndNothingIsLost) {
  EXPECT_EQ(gpt2_words("ab\xFF\xC3! \x80z"), (Words{"ab", "\xFF\xC3!", " \x80", "z"}));
  EXPECT_EQ(gpt2_words("\xED\xA0\x80"), (Words{"\xED\xA0\x80"}));
}

TEST(SplitDigits, NumbersAreCutOffOneByOneOrAsRuns) {
  Words one, runs;
  split_digits(
      "a12 b3", true, [&](std::string_view word) { one.emplace_back(word); });
  split_digits("a12 b3", false, [&](std::string_view word) { runs.emplace_back(word); });
  EXPECT_EQ(one, (Words{"a", "1", "2", " b", "3"}));
  EXPECT_EQ(runs, (Words{"a", "12", " b", "3"}));
}

TEST(TrimSpace, OnlyTheEndsAreTrimmed) {
  EXPECT_EQ(trim_space(" \r\n a b\t"), "a b");
  EXPECT_EQ(trim_space(" \n "), "");
  EXPECT_EQ(trim_space(""), "");
}

}  // namespace
}  // namespace taper
