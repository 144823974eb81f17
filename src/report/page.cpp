#include "report/page.h"

#include <fmt/format.h>

#include "report/format.h"
#include "report/sections.h"

namespace taper {
namespace {

// Series colours keep apart under the common colour-vision deficiencies, blue and orange first.
constexpr const char* kStyle = R"css(
:root{--bg:#fff;--fg:#1c2024;--soft:#5b6570;--line:#e3e7eb;--axis:#9aa4ae;--panel:#f6f8fa;--area:#8894a11f;
--s0:#0b64c0;--s1:#c8500a;--s2:#00806a;--s3:#8e44c4;--s4:#8f6a00;--s5:#bd3a78;--s6:#2f8fc4;--s7:#5a6472}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ec;--soft:#9ba6b2;--line:#2a3037;--axis:#5d6873;
--panel:#1c2126;--area:#aab6c41f;--s0:#6cb2ff;--s1:#ff9d5c;--s2:#42d3b2;--s3:#cfa0ff;--s4:#e6c24e;--s5:#ff93c2;
--s6:#8fd9ff;--s7:#aab5c2}}
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:28px 20px 60px;max-width:900px;background:var(--bg);color:var(--fg);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:19px;margin:40px 0 4px}h3{font-size:15px;margin:24px 0 6px}
p{margin:4px 0 12px;color:var(--soft);max-width:72ch}p b{color:var(--fg);font-weight:600}
.note{font-size:13px}
figure{margin:0}figcaption{font-weight:600;font-size:14px;margin:0 0 2px}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--soft);font-size:12px;font-family:inherit;font-variant-numeric:tabular-nums}
svg path{fill:none}
.halo{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
.rule{stroke:var(--line)}.axis,.tick{stroke:var(--axis)}
svg .area{fill:var(--area);stroke:var(--axis);stroke-width:1;stroke-opacity:.6}
.line,.dash,.thin{stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.thin{stroke-width:1.25;stroke-opacity:.5}.dash{stroke-width:1.5;stroke-dasharray:5 4}
.reference{stroke:currentColor;stroke-dasharray:2 4;stroke-width:1.5}
svg .dot{fill:currentColor;stroke:var(--bg);stroke-width:1}svg .hollow{fill:var(--bg);stroke:currentColor;stroke-width:1.6}
.s0{color:var(--s0)}.s1{color:var(--s1)}.s2{color:var(--s2)}.s3{color:var(--s3)}.s4{color:var(--s4)}
.s5{color:var(--s5)}.s6{color:var(--s6)}.s7{color:var(--s7)}.ref{color:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:2px 18px;list-style:none;margin:0 0 8px;padding:0;font-size:13px}
.legend li{display:flex;align-items:center;gap:7px}
.swatch{display:inline-block;flex:none;width:28px;height:12px}td .swatch{margin-right:8px;vertical-align:middle}
.narrow{display:none}
div.grid{display:grid;grid-template-columns:1fr 1fr;gap:22px 26px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:7px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{padding-left:0}
th{color:var(--soft);font-weight:500;font-size:13px}.n{text-align:right}em{color:var(--soft);font-size:12px}
.bar{display:block;width:84px;height:4px;margin:4px 0 0 auto;border-radius:2px;background:var(--line)}
.bar i{display:block;height:4px;border-radius:2px;background:var(--s0)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0}
.card{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.card b{display:block;font-size:22px;line-height:1.3;font-weight:650;font-variant-numeric:tabular-nums}
.card span{color:var(--soft);font-size:13px;line-height:1.35;display:block}
blockquote{margin:0;padding:14px 18px;background:var(--panel);border-left:3px solid var(--s0);border-radius:0 8px 8px 0;
white-space:pre-wrap;overflow-wrap:anywhere;font-family:Georgia,"Times New Roman",serif;font-size:16px}
details{margin:8px 0}summary{cursor:pointer;color:var(--soft);font-size:14px}
pre{overflow-x:auto;background:var(--panel);border-radius:8px;padding:12px 14px;font-size:12.5px;line-height:1.5}
@media(max-width:640px){body{padding:18px 14px 40px}.wide{display:none}.narrow{display:block}
div.grid{grid-template-columns:1fr}h1{font-size:22px}
th,td{padding:7px 6px}td:first-child{white-space:normal;min-width:104px}}
)css";

std::string subtitle(const std::vector<Run>& runs) {
  std::string out;
  for (const Run& run : runs) {
    if (!out.empty()) out += ", ";
    out += "<b>" + html_escape(run.name) + "</b>";
  }
  return out;
}

}  // namespace

std::string render_page(const std::string& title, const std::vector<Run>& runs,
                        const std::optional<Summary>& summary) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p>{2}</p>\n",
      html_escape(title), kStyle, subtitle(runs));
  if (summary) out += summary_section(*summary);
  out += table_section(runs);
  out += loss_section(runs);
  out += gap_section(runs);
  out += stream_section(runs);
  out += calibration_section(runs);
  out += optimisation_section(runs);
  out += config_section(runs);
  return out + "</body>\n</html>\n";
}

}  // namespace taper
