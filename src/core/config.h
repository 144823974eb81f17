// A configuration tree described by a schema: TOML file, "key=value" assignments and a full dump
// are views of the same variables.
//
//   ConfigSchema schema;
//   schema.section("train", "Optimisation");
//   schema.add("train.steps", &options.steps, "optimizer steps");
//   schema.load_file("tiny.toml");
//   schema.set("train.steps=100");
//
// The schema holds pointers: the variables must outlive it. Errors are ConfigErrors that name the
// file and line, or the assignment, and the nearest valid key. After an error the variables hold a
// mixture; discard them. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace taper {

class ConfigSchema {
 public:
  // Where a key's value lives; the alternative is its type.
  using Target = std::variant<bool*, int64_t*, double*, std::string*, std::vector<double>*,
                              std::vector<std::string>*>;

  // Sections appear in dump() and help() in the order they were declared.
  void section(std::string name, std::string doc);

  // `key` is "section.name". The default is *target at the time of the call; `doc` is one line,
  // with the unit where there is one.
  template <typename T>
  void add(const std::string& key, T* target, std::string doc) {
    add_entry(key, Target(target), std::move(doc));
  }

  // Keys absent from the file keep their values. An unknown key, a value of another type and a
  // syntax error are errors. An integer is accepted for a double, and a double without fraction
  // (1e3) for an integer.
  void load_file(const std::filesystem::path& toml);

  // "train.steps=100". The value is a TOML value; a string may be a bare word (log.name=a), and so
  // may a list of one string.
  void set(const std::string& assignment);

  bool was_set(const std::string& key) const;  // by a file or by set()

  // All keys with their present values as TOML. Loading it gives the same values, doubles bit for
  // bit.
  std::string dump() const;

  // For people: each key with its default and its line of documentation, grouped by section.
  std::string help() const;

 private:
  struct Section {
    std::string name, doc;
  };
  struct Entry {
    std::string section, name, doc, default_text;
    Target target;
    bool was_set = false;
  };
  struct Loader;

  void add_entry(const std::string& key, Target target, std::string doc);
  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
  std::string suggestion(std::string_view key) const;

  std::vector<Section> sections_;
  std::vector<Entry> entries_;
};

}  // namespace taper
