#include "report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace taper {
namespace {

constexpr const char* kNone = "–";

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    if (control)
      out += "\uFFFD";
    else
      out += c;
  }
  return out;
}

std::string html_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string format_count(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string format_fixed(double value, int decimals) {
  if (std::isnan(value)) return kNone;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string format_significant(double value, int digits) {
  if (std::isnan(value)) return kNone;
  if (value == 0 || !std::isfinite(value)) return fmt::format("{:g}", value);
  const double size = std::abs(value);
  if (size < 1e-4 || size >= 1e9) return fmt::format("{:.{}e}", value, std::max(digits - 1, 0));
  const int decimals = digits - 1 - static_cast<int>(std::floor(std::log10(size)));
  if (decimals <= 0 && size >= 1000) return format_count(std::llround(value));
  return fmt::format("{:.{}f}", value, std::max(decimals, 0));
}

std::string format_percent(double value, int decimals) {
  if (std::isnan(value)) return kNone;
  return fmt::format("{:+.{}f} %", value, decimals);
}

}  // namespace taper
