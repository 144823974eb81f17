#include "core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace taper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_json(text, "a.json"); });
}

TEST(ParseJson, Values_KeepTheirOrderAndTypes) {
  const std::string text =
      R"({"z":1,"a":[null,true,-2,1.5,"\u00fc"],"m":{"k":{}},"big":18446744073709551615})";
  EXPECT_EQ(parse_json(text, "a.json").dump(-1, ' ', true), text);
  EXPECT_EQ(parse_json(" 5 ", "a.json"), 5);
  EXPECT_EQ(parse_json("[[],[[1],[2]],{}]", "a.json").dump(), "[[],[[1],[2]],{}]");
}

TEST(ParseJson, Malformed_NamesSourceAndLine) {
  EXPECT_THAT(parse_error("{\n\n\"a\": }"), HasSubstr("a.json: not valid JSON at line 3"));
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":1,}", "nul", "1 2", "'a'", "{1:2}",
                           "\"\xff\"", "[1e999]", "NaN", "// c\n1", "\"\\ud800\"", "[\"\n\"]"})
    EXPECT_THAT(parse_error(text), HasSubstr("a.json: not valid JSON at line")) << text;
}

TEST(ParseJson, DuplicateKey_IsAnErrorAtAnyDepth) {
  EXPECT_THAT(parse_error(R"({"a":1,"b":2,"a":3})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(parse_error(R"([{"x":{"b":2,"b":2}}])"), HasSubstr("duplicate key \"b\""));
  EXPECT_EQ(parse_json(R"({"a":{"a":1},"b":{"a":2}})", "a.json").size(), 2u);
}

TEST(ParseJson, Nesting_IsLimitedTo64Levels) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_NO_THROW(parse_json(nested(64), "a.json"));
  EXPECT_THAT(parse_error(nested(65)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(parse_error(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
}

TEST(ParseJson, ObjectWithManyKeys_TakesLinearTime) {
  // A quadratic parser would take most of a minute here.
  std::string text = "{";
  constexpr int kKeys = 100'000;
  for (int i = 0; i < kKeys; ++i)
    text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":" + std::to_string(i);
  EXPECT_EQ(parse_json(text + "}", "a.json").size(), static_cast<size_t>(kKeys));
}

TEST(JsonAt, Members_ComeInTheTypeAskedFor) {
  const Json json = parse_json(
      R"({"b":true,"i":-3,"whole":4.0,"d":0.5,"s":"x","l":["p","q"],"n":null})", "a.json");
  EXPECT_TRUE(json_at<bool>(json, "b", "a.json"));
  EXPECT_EQ(json_at<int64_t>(json, "i", "a.json"), -3);
  EXPECT_EQ(json_at<int64_t>(json, "whole", "a.json"), 4);
  EXPECT_EQ(json_at<double>(json, "i", "a.json"), -3.0);
  EXPECT_EQ(json_at<double>(json, "d", "a.json"), 0.5);
  EXPECT_EQ(json_at<std::string>(json, "s", "a.json"), "x");
  EXPECT_THAT(json_at<std::vector<std::string>>(json, "l", "a.json"), ElementsAre("p", "q"));
  EXPECT_TRUE(json_at<Json>(json, "n", "a.json").is_null());
}

TEST(JsonAt, AbsentOrOfAnotherType_NamesSourceKeyAndType) {
  const Json json = parse_json(
      R"({"b":1,"i":0.5,"big":9223372036854775808,"d":"0.5","s":null,"l":["p",1]})", "a.json");
  const auto at = [&](auto type, const char* key) {
    return error_of([&] { json_at<decltype(type)>(json, key, "a.json"); });
  };
  EXPECT_EQ(at(int64_t{}, "x"), "a.json: key \"x\" is missing, expected an integer");
  EXPECT_EQ(at(bool{}, "b"), "a.json: key \"b\": expected true or false, found 1");
  EXPECT_EQ(at(int64_t{}, "i"), "a.json: key \"i\": expected an integer, found 0.5");
  EXPECT_THAT(at(int64_t{}, "big"), HasSubstr("expected an integer"));
  EXPECT_EQ(at(double{}, "d"), "a.json: key \"d\": expected a number, found \"0.5\"");
  EXPECT_EQ(at(std::string{}, "s"), "a.json: key \"s\": expected a string, found null");
  EXPECT_THAT(at(std::vector<std::string>{}, "l"), HasSubstr("expected a list of strings"));
  EXPECT_THAT(error_of([&] { json_at<bool>(Json(5), "k", "a.json"); }),
              HasSubstr("expected an object that holds \"k\", found 5"));
}

TEST(JsonValue, AbsentOrNull_GivesTheFallback) {
  const Json json = parse_json(R"({"n":null,"i":7})", "a.json");
  EXPECT_EQ(json_value<int64_t>(json, "x", 5, "a.json"), 5);
  EXPECT_EQ(json_value<int64_t>(json, "n", 5, "a.json"), 5);
  EXPECT_EQ(json_value<int64_t>(json, "i", 5, "a.json"), 7);
  EXPECT_THROW(json_value<std::string>(json, "i", "", "a.json"), FormatError);
}

}  // namespace
}  // namespace taper
