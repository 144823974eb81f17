// docs/configuration.md lists exactly the keys that the trainer knows.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "core/file.h"
#include "train/config.h"

namespace taper {
namespace {

// The keys of a TOML dump: "[section]" lines and "name = value" lines below them.
std::set<std::string> keys_of_dump(const std::string& toml) {
  std::set<std::string> keys;
  std::istringstream lines(toml);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, std::regex(R"(\[(\w+)\].*)"))) section = match[1];
    if (std::regex_match(line, match, std::regex(R"((\w+) *=.*)")))
      keys.insert(section + "." + match[1].str());
  }
  return keys;
}

// The keys of the page's tables: rows that begin with "| `section.name` |".
std::set<std::string> keys_of_page(const std::string& page) {
  std::set<std::string> keys;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, std::regex(R"(^\| `(\w+\.\w+)` \|)"))) keys.insert(match[1]);
  }
  return keys;
}

TEST(ConfigurationPage, ListsExactlyTheKeysOfTheSchema) {
  TrainConfig config;
  const std::set<std::string> known = keys_of_dump(train_schema(config).dump());
  ASSERT_GT(known.size(), 30u);
  EXPECT_EQ(keys_of_page(read_file(TAPER_SOURCE_DIR "/docs/configuration.md")), known);
}

}  // namespace
}  // namespace taper
