#include "text/utf8_stream.h"

#include <gtest/gtest.h>

namespace taper {
namespace {

TEST(Utf8Stream, CharacterInPieces_IsReleasedWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.held(), 2u);
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80"
                        "b"),
            "\xF0\x9F\x98\x80"
            "b");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, BytesThatCannotBecomeACharacter_AreNotHeld) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xFF"), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.push("\x80"), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.push("\xED\xA0"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // half of a surrogate
  EXPECT_EQ(stream.push("\xC3("), "\xEF\xBF\xBD(");
  EXPECT_EQ(stream.held(), 0u);
}

TEST(Utf8Stream, FlushOfAnUnfinishedCharacter_ReplacesOrPassesIt) {
  Utf8Stream replacing, passing(Utf8Stream::Invalid::kPassThrough);
  EXPECT_EQ(replacing.push("x\xE2\x82"), "x");
  EXPECT_EQ(replacing.flush(), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(passing.push("x\xE2\x82"), "x");
  EXPECT_EQ(passing.flush(), "\xE2\x82");
  EXPECT_EQ(passing.held(), 0u);
}

TEST(Utf8Stream, AnyCutOfAnyBytes_PassThroughIsLossless) {
  const std::string bytes = "aé日😀\xFF\xC3\xE2\x82z\xED\xA0\x80\xF4\x90\x80\x80é";
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      Utf8Stream stream(Utf8Stream::Invalid::kPassThrough);
      std::string out = stream.push(bytes.substr(0, first));
      out += stream.push(bytes.substr(first, second - first));
      EXPECT_LE(stream.held(), 3u);
      out += stream.push(bytes.substr(second));
      out += stream.flush();
      ASSERT_EQ(out, bytes) << first << ", " << second;
    }
  }
}

}  // namespace
}  // namespace taper
