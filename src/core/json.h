// JSON values (nlohmann-json, keys in insertion order) and a parser that throws FormatError.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace taper {

using Json = nlohmann::ordered_json;

// `what` names the source in errors ("runs/a/config.json"). Duplicate keys in an object and nesting
// deeper than 64 levels are errors.
Json parse_json(std::string_view text, const std::string& what);

// The member `key` of `object` as T; FormatError naming `what`, the key and the type expected when
// it is absent or of another type.
template <typename T>
T json_at(const Json& object, const char* key, const std::string& what);

// The same with a default for an absent or null member.
template <typename T>
T json_value(const Json& object, const char* key, T fallback, const std::string& what);

// Available for T = bool, int64_t, double, std::string, std::vector<std::string>, Json.

}  // namespace taper
