#include "core/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"

namespace taper {
namespace {

constexpr size_t kMaxDepth = 64;

// Builds the value from parser events. Keeps the keys of each open object in a hash set, so that
// objects with many members (a vocabulary) take linear time.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (!open_.back().keys.insert(value).second)
      throw FormatError(fmt::format("{}: duplicate key \"{}\"", what_, value));
    key_ = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The library's text is "[json.exception...] parse error at line 1, column 2: reason".
    std::string reason = error.what();
    if (const size_t colon = reason.find(": "); colon != std::string::npos)
      reason = reason.substr(colon + 2);
    else if (const size_t bracket = reason.find("] "); bracket != std::string::npos)
      reason = reason.substr(bracket + 2);
    const auto end = text_.begin() + static_cast<ptrdiff_t>(std::min(position, text_.size()));
    const auto line = 1 + std::count(text_.begin(), end, '\n');
    throw FormatError(
        fmt::format("{}: not valid JSON at line {}, byte {}: {}", what_, line, position, reason));
  }

 private:
  struct Level {
    Json* value;
    std::unordered_set<std::string> keys;
  };

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& items = parent.get_ref<Json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    auto& members = parent.get_ref<Json::object_t&>();
    members.push_back({std::move(key_), std::move(value)});
    return &members.back().second;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() == kMaxDepth)
      throw FormatError(fmt::format("{}: nested deeper than {} levels", what_, kMaxDepth));
    open_.push_back({place(std::move(value)), {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& what_;
  Json root_;
  std::string key_;
  std::vector<Level> open_;
};

// One overload a type: true and the value, or false when `json` is of another type.
bool convert(const Json& json, bool& out) {
  if (!json.is_boolean()) return false;
  out = json.get<bool>();
  return true;
}

bool convert(const Json& json, int64_t& out) {
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return false;
  if (json.is_number_float()) {
    const double value = json.get<double>();
    if (std::trunc(value) != value || std::abs(value) > 0x1p53) return false;
    out = static_cast<int64_t>(value);
    return true;
  }
  if (!json.is_number_integer()) return false;
  out = json.get<int64_t>();
  return true;
}

bool convert(const Json& json, double& out) {
  if (!json.is_number()) return false;
  out = json.get<double>();
  return true;
}

bool convert(const Json& json, std::string& out) {
  if (!json.is_string()) return false;
  out = json.get<std::string>();
  return true;
}

bool convert(const Json& json, std::vector<std::string>& out) {
  if (!json.is_array()) return false;
  out.clear();
  for (const Json& item : json) {
    if (!item.is_string()) return false;
    out.push_back(item.get<std::string>());
  }
  return true;
}

bool convert(const Json& json, Json& out) {
  out = json;
  return true;
}

const char* type_text(const bool&) { return "true or false"; }
const char* type_text(const int64_t&) { return "an integer"; }
const char* type_text(const double&) { return "a number"; }
const char* type_text(const std::string&) { return "a string"; }
const char* type_text(const std::vector<std::string>&) { return "a list of strings"; }
const char* type_text(const Json&) { return "a value"; }

std::string shown(const Json& json) {
  constexpr size_t kMaxShown = 60;
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

const Json* find_member(const Json& object, const char* key, const std::string& what) {
  if (!object.is_object()) {
    throw FormatError(fmt::format("{}: expected an object that holds \"{}\", found {}", what, key,
                                  shown(object)));
  }
  const auto member = object.find(key);
  return member == object.end() ? nullptr : &*member;
}

template <typename T>
T convert_or_throw(const Json& json, const char* key, const std::string& what) {
  T value{};
  if (!convert(json, value)) {
    throw FormatError(fmt::format("{}: key \"{}\": expected {}, found {}", what, key,
                                  type_text(value), shown(json)));
  }
  return value;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& what) {
  Builder builder(text, what);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

template <typename T>
T json_at(const Json& object, const char* key, const std::string& what) {
  const Json* member = find_member(object, key, what);
  if (member == nullptr) {
    throw FormatError(
        fmt::format("{}: key \"{}\" is missing, expected {}", what, key, type_text(T{})));
  }
  return convert_or_throw<T>(*member, key, what);
}

template <typename T>
T json_value(const Json& object, const char* key, T fallback, const std::string& what) {
  const Json* member = find_member(object, key, what);
  if (member == nullptr || member->is_null()) return fallback;
  return convert_or_throw<T>(*member, key, what);
}

#define TAPER_INSTANTIATE(T)                                           \
  template T json_at<T>(const Json&, const char*, const std::string&); \
  template T json_value<T>(const Json&, const char*, T, const std::string&)
TAPER_INSTANTIATE(bool);
TAPER_INSTANTIATE(int64_t);
TAPER_INSTANTIATE(double);
TAPER_INSTANTIATE(std::string);
TAPER_INSTANTIATE(std::vector<std::string>);
TAPER_INSTANTIATE(Json);
#undef TAPER_INSTANTIATE

}  // namespace taper
