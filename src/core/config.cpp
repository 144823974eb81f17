#include "core/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/nearest.h"

namespace taper {
namespace {

std::string to_toml(bool value) { return value ? "true" : "false"; }

std::string to_toml(int64_t value) { return fmt::format("{}", value); }

// The shortest text that reads back as the same double, and as a double.
std::string to_toml(double value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\u{:04X}", static_cast<unsigned>(byte));
    } else {
      text += c;
    }
  }
  return text + '"';
}

template <typename T>
std::string to_toml(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) {
    if (text.size() > 1) text += ", ";
    text += to_toml(value);
  }
  return text + "]";
}

std::string to_toml(const ConfigSchema::Target& target) {
  return std::visit([](const auto* value) { return to_toml(*value); }, target);
}

bool convert(const toml::node& node, bool& out) {
  const auto* value = node.as_boolean();
  if (value != nullptr) out = value->get();
  return value != nullptr;
}

bool convert(const toml::node& node, int64_t& out) {
  if (const auto* integer = node.as_integer()) {
    out = integer->get();
    return true;
  }
  const auto* real = node.as_floating_point();
  if (real == nullptr) return false;
  const double value = real->get();
  if (std::trunc(value) != value || std::abs(value) > 0x1p53) return false;  // also inf and nan
  out = static_cast<int64_t>(value);
  return true;
}

bool convert(const toml::node& node, double& out) {
  if (const auto* integer = node.as_integer()) {
    out = static_cast<double>(integer->get());
    return true;
  }
  const auto* real = node.as_floating_point();
  if (real != nullptr) out = real->get();
  return real != nullptr;
}

bool convert(const toml::node& node, std::string& out) {
  const auto* value = node.as_string();
  if (value != nullptr) out = value->get();
  return value != nullptr;
}

template <typename T>
bool convert(const toml::node& node, std::vector<T>& out) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return false;
  std::vector<T> values(array->size());
  for (size_t i = 0; i < values.size(); ++i)
    if (!convert((*array)[i], values[i])) return false;
  out = std::move(values);
  return true;
}

const char* type_text(const bool*) { return "true or false"; }
const char* type_text(const int64_t*) { return "an integer"; }
const char* type_text(const double*) { return "a number"; }
const char* type_text(const std::string*) { return "a string"; }
const char* type_text(const std::vector<double>*) { return "a list of numbers"; }
const char* type_text(const std::vector<std::string>*) { return "a list of strings"; }

std::string shown(const toml::node& node) {
  std::ostringstream stream;
  node.visit([&stream](const auto& value) { stream << value; });
  std::string text = std::move(stream).str();
  if (text.size() > 60 || text.find('\n') != std::string::npos)
    text = text.substr(0, std::min<size_t>(text.find('\n'), 60)) + "...";
  return text;
}

std::string join(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

std::string trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

}  // namespace

// Copies a parsed document into the variables.
struct ConfigSchema::Loader {
  ConfigSchema& schema;
  const std::string& file;

  void load(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table)
      load_node(join(prefix, std::string(name.str())), name, node);
  }

  void load_node(const std::string& key, const toml::key& name, const toml::node& node) {
    const auto line = name.source().begin.line;
    if (Entry* entry = schema.find(key)) {
      assign(*entry, key, node, line);
      return;
    }
    if (!is_section(key)) {
      const char* kind = node.is_table() ? "section" : "key";
      throw ConfigError(fmt::format("{}: unknown {} {} (line {})", file, kind, key, line),
                        node.is_table() ? section_suggestion(key) : schema.suggestion(key));
    }
    if (!node.is_table()) {
      throw ConfigError(
          fmt::format("{}: {} is a section, found {} (line {})", file, key, shown(node), line),
          fmt::format("write its keys below a line [{}]", key));
    }
    load(*node.as_table(), key);
  }

  void assign(Entry& entry, const std::string& key, const toml::node& node, unsigned line) {
    std::visit(
        [&](auto* target) {
          if (convert(node, *target)) return;
          throw ConfigError(fmt::format("{}: {} (line {}): expected {}, found {}", file, key, line,
                                        type_text(target), shown(node)),
                            entry.doc.empty() ? "" : key + ": " + entry.doc);
        },
        entry.target);
    entry.was_set = true;
  }

  // A section, or a prefix of one ("a" of "a.b").
  bool is_section(const std::string& key) const {
    return std::any_of(
        schema.sections_.begin(), schema.sections_.end(),
        [&](const Section& s) {
          return s.name == key || s.name.compare(0, key.size() + 1, key + ".") == 0;
        });
  }

  std::string section_suggestion(const std::string& key) const {
    std::vector<std::string> names;
    for (const Section& candidate : schema.sections_) names.push_back(candidate.name);
    const std::string nearest = nearest_name(key, names);
    if (!nearest.empty()) return fmt::format("did you mean [{}]?", nearest);
    return fmt::format("the sections are {}", fmt::join(names, ", "));
  }
};

void ConfigSchema::section(std::string name, std::string doc) {
  for (const Section& known : sections_) TAPER_CHECK(known.name != name);
  sections_.push_back({std::move(name), std::move(doc)});
}

void ConfigSchema::add_entry(const std::string& key, Target target, std::string doc) {
  TAPER_CHECK(find(key) == nullptr);
  const size_t dot = key.rfind('.');
  Entry entry;
  entry.section = dot == std::string::npos ? "" : key.substr(0, dot);
  entry.name = dot == std::string::npos ? key : key.substr(dot + 1);
  entry.doc = std::move(doc);
  entry.default_text = to_toml(target);
  entry.target = target;
  const bool declared =
      std::any_of(sections_.begin(), sections_.end(),
                  [&entry](const Section& known) { return known.name == entry.section; });
  if (!declared) {
    // Keys without a section must precede the first "[section]" line.
    const auto at = entry.section.empty() ? sections_.begin() : sections_.end();
    sections_.insert(at, {entry.section, ""});
  }
  entries_.push_back(std::move(entry));
}

const ConfigSchema::Entry* ConfigSchema::find(std::string_view key) const {
  for (const Entry& entry : entries_)
    if (join(entry.section, entry.name) == key) return &entry;
  return nullptr;
}

ConfigSchema::Entry* ConfigSchema::find(std::string_view key) {
  return const_cast<Entry*>(std::as_const(*this).find(key));
}

std::string ConfigSchema::suggestion(std::string_view key) const {
  std::vector<std::string> keys;
  for (const Entry& entry : entries_) keys.push_back(join(entry.section, entry.name));
  if (const std::string nearest = nearest_name(key, keys); !nearest.empty())
    return fmt::format("did you mean {}?", nearest);
  // The right name in a wrong section, or in none.
  const std::string_view name = key.substr(key.rfind('.') + 1);
  for (const Entry& entry : entries_)
    if (entry.name == name) return fmt::format("did you mean {}?", join(entry.section, entry.name));
  return "";
}

void ConfigSchema::load_file(const std::filesystem::path& path) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
  const std::string text = read_file(path, kMaxBytes);
  const std::string file = path.string();
  try {
    const toml::table table = toml::parse(text, file);
    Loader{*this, file}.load(table, "");
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    throw ConfigError(fmt::format("{}: line {}, column {}: {}", file, at.line, at.column,
                                  std::string(error.description())),
                      "the file is not valid TOML; see https://toml.io for its syntax");
  }
}

void ConfigSchema::set(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    throw ConfigError(fmt::format("\"{}\": expected section.key=value", assignment));
  const std::string key = trim(std::string_view(assignment).substr(0, equals));
  std::string value = trim(std::string_view(assignment).substr(equals + 1));
  Entry* entry = find(key);
  if (entry == nullptr)
    throw ConfigError(fmt::format("\"{}\": unknown key {}", assignment, key), suggestion(key));
  const char first = value.empty() ? '\0' : value.front();
  const bool quoted = first == '"' || first == '\'';
  if (std::holds_alternative<std::string*>(entry->target) && !quoted)
    value = to_toml(value);
  else if (std::holds_alternative<std::vector<std::string>*>(entry->target) && first != '[')
    value = fmt::format("[{}]", quoted ? value : to_toml(value));
  const auto expected = [&](const std::string& found) {
    const char* type = std::visit([](auto* target) { return type_text(target); }, entry->target);
    return ConfigError(
        fmt::format("\"{}\": {}: expected {}, found {}", assignment, key, type, found),
        entry->doc.empty() ? "" : key + ": " + entry->doc);
  };
  toml::table table;
  try {
    table = toml::parse("value = " + value + "\n");
  } catch (const toml::parse_error&) {
    throw expected(value.empty() ? "nothing" : value);
  }
  const toml::node* node = table.get("value");
  if (node == nullptr || table.size() != 1) throw expected(value);
  const bool converted =
      std::visit([node](auto* target) { return convert(*node, *target); }, entry->target);
  if (!converted) throw expected(value);
  entry->was_set = true;
}

bool ConfigSchema::was_set(const std::string& key) const {
  const Entry* entry = find(key);
  TAPER_CHECK(entry != nullptr);
  return entry->was_set;
}

std::string ConfigSchema::dump() const {
  std::string text;
  for (const Section& section : sections_) {
    if (!text.empty()) text += "\n";
    if (!section.name.empty()) text += fmt::format("[{}]\n", section.name);
    for (const Entry& entry : entries_) {
      if (entry.section != section.name) continue;
      text += fmt::format("{} = {}\n", entry.name, to_toml(entry.target));
    }
  }
  return text;
}

std::string ConfigSchema::help() const {
  std::string text;
  for (const Section& section : sections_) {
    if (!text.empty()) text += "\n";
    if (!section.name.empty()) text += fmt::format("[{}]", section.name);
    if (!section.doc.empty()) text += fmt::format("  {}", section.doc);
    if (!section.name.empty() || !section.doc.empty()) text += "\n";
    for (const Entry& entry : entries_) {
      if (entry.section != section.name) continue;
      text += fmt::format("  {} = {}\n", entry.name, entry.default_text);
      if (!entry.doc.empty()) text += fmt::format("      {}\n", entry.doc);
    }
  }
  return text;
}

}  // namespace taper
