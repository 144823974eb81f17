#include "report/figure.h"

#include <fmt/format.h>

#include "report/format.h"

namespace taper {

std::vector<LegendEntry> run_legend(const std::vector<Run>& runs) {
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < runs.size(); ++i) {
    entries.push_back(
        {render_swatch(static_cast<int>(i), Stroke::kSolid, Marker::kNone), runs[i].name});
  }
  return entries;
}

std::string render_legend(const std::vector<LegendEntry>& entries) {
  std::string out = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries)
    out += fmt::format("<li>{}{}</li>", entry.swatch, html_escape(entry.label));
  return out + "</ul>\n";
}

std::string wide_figure(const ChartSpec& spec, const std::vector<LegendEntry>& legend) {
  return "<figure>" + render_legend(legend) + render_chart(spec, {860, 380}, "wide") +
         render_chart(spec, {370, 300}, "narrow") + "</figure>\n";
}

std::string small_figure(const ChartSpec& spec) {
  return fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n", html_escape(spec.title),
                     render_chart(spec, {415, 230}, "small"));
}

}  // namespace taper
