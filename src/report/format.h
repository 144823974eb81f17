// Numbers and text for people, and text made safe for HTML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace taper {

// `text` with control characters other than newline and tab replaced: safe to show on a terminal.
std::string printable(std::string_view text);

// printable(), with & < > " ' escaped: safe as HTML text and in a quoted attribute.
std::string html_escape(std::string_view text);

std::string format_count(int64_t value);                     // "1,234,567"
std::string format_fixed(double value, int decimals);        // "3.1250", an en dash for NaN
std::string format_significant(double value, int digits);    // "0.00312", "1.2e-07", "5,310"
std::string format_percent(double value, int decimals = 2);  // "+0.31 %", with its sign

}  // namespace taper
